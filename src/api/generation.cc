#include "api/generation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rose {

void Generation::start(ApiContext& context, Exchange exchange, GenerationPlan plan,
                       std::unique_ptr<Answer> answer) {
  const auto generation =
      std::make_shared<Generation>(context, std::move(exchange), plan, std::move(answer));
  generation->submit(std::move(plan.requests));
}

Generation::Generation(ApiContext& context, Exchange exchange, const GenerationPlan& plan,
                       std::unique_ptr<Answer> answer)
    : context_(context),
      exchange_(std::move(exchange)),
      answer_(std::move(answer)),
      outlives_client_(plan.outlives_client),
      cached_tokens_(plan.requests.size()),
      arrived_(plan.arrived) {
  outcome_.choices = 0;
  for (const Request& request : plan.requests) {
    outcome_.prompt_tokens += int(request.prompt.size() + request.opening.size());
    outcome_.choices += request.choices;
    outcome_.max_tokens = request.max_tokens - int(request.opening.size());
    outcome_.temperature = request.sampling.temperature;
    outcome_.top_p = request.sampling.top_p;
  }
  running_ = open_ = outcome_.choices;
  choice_token_.resize(size_t(running_));
  const HttpRequest& http = exchange_.request();
  outcome_.id = http.id;
  outcome_.path = http.path;
  outcome_.model = context.model.names.front();
  if (http.tenant) outcome_.key = http.tenant->name();
  if (context.state.spans) {
    begin_trace(http.header("traceparent"), outcome_);
    if (!outcome_.trace_id.empty())
      exchange_.add_header("traceparent",
                           "00-" + outcome_.trace_id + "-" + outcome_.span_id + "-01");
  }
  for (const Request& request : plan.requests) {
    ChoiceOptions options = plan.choice;
    if (plan.says_prompt) options.given = int(request.prompt.size() + request.opening.size());
    for (int i = 0; i < request.choices; ++i) {
      choices_.emplace_back(plan.parser(), context.tokenizer, options);
      if (plan.says_prompt) first_tokens_.push_back(request.prompt.front());
    }
  }
}

// Takes the caller's place and puts what the key says into the requests; false: the caller is told why not.
bool Generation::enter(std::vector<Request>& requests) {
  const std::shared_ptr<Tenant> tenant = exchange_.request().tenant;
  if (!tenant) return true;
  const Time now = Clock::now();
  const auto too_much = tenant->begin(now, outcome_.prompt_tokens);
  for (auto& [name, value] : tenant->headers(now)) exchange_.add_header(name, value);
  if (too_much) {
    fail({.status = 429,
          .message = too_much->message,
          .code = "rate_limit_exceeded",
          .retry_after_s = too_much->retry_after_s},
         "rejected");
    return false;
  }
  tenant_ = tenant;
  const TenantLimits limits = tenant->limits();
  for (Request& request : requests) {
    request.tenant = tenant->id();
    request.share = limits.share;
    request.priority = std::max(request.priority, limits.priority);
    if (limits.max_tokens > 0)
      request.max_tokens = request.max_tokens > 0 ? std::min(request.max_tokens, limits.max_tokens)
                                                  : limits.max_tokens;
    request.min_tokens = limits.max_tokens > 0 ? std::min(request.min_tokens, limits.max_tokens)
                                               : request.min_tokens;
    if (context_.options.isolate_prefix_cache)
      request.cache_salt = tenant->name() + '\n' + request.cache_salt;
  }
  return true;
}

// The next moment at which this has lasted too long.
void Generation::arm() {
  const int total_s = context_.options.request_timeout_s;
  const int queue_s = context_.options.queue_timeout_s;
  Time alarm;
  if (total_s > 0) alarm = last_moment_ = arrived_ + std::chrono::seconds(total_s);
  // What the client asks for can only be earlier.
  const std::string wanted(exchange_.request().header("x-request-timeout-ms"));
  if (const long long ms = std::atoll(wanted.c_str()); ms > 0 && ms < 1'000'000'000) {
    const Time asked = arrived_ + std::chrono::milliseconds(ms);
    if (alarm == Time() || asked < alarm) alarm = last_moment_ = asked;
  }
  if (queue_s > 0) {
    const Time first = arrived_ + std::chrono::seconds(queue_s);
    if (alarm == Time() || first < alarm) alarm = first;
  }
  if (alarm != Time()) wake_at(alarm);
}

// In the background there is soon no exchange whose alarm it could be.
void Generation::wake_at(Time when) {
  if (!outlives_client_)
    return exchange_.set_alarm(when, [self = shared_from_this()] { self->expired(); });
  exchange_.call_at(when, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->expired();
  });
}

void Generation::expired() {
  if (!answer_) return;
  const Time now = Clock::now();
  if (last_moment_ != Time() && now >= last_moment_)
    return fail({.status = 504,
                 .message = strf("the answer was not complete after %.1f s",
                                 seconds_between(arrived_, now)),
                 .code = "timeout"},
                "timeout");
  if (first_token_ == Time())
    return fail(
        {.status = 503,
         .message = strf("waited %.1f s, and had no token yet", seconds_between(arrived_, now)),
         .code = "queue_timeout"},
        "timeout");
  if (last_moment_ != Time()) wake_at(last_moment_);
}

void Generation::submit(std::vector<Request> requests) {
  if (!exchange_.open() && !outlives_client_) return client_left();
  if (!enter(requests)) return;
  int first_choice = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int choices = requests[i].choices;
    for (int choice = 0; choice < choices; ++choice) context_.activity.begin();
    auto id = context_.engine.submit(
        std::move(requests[i]),
        [exchange = exchange_, self = shared_from_this(), i, first_choice](const Update& news) {
          exchange.post([self, news, i, first_choice] {
            int& cached = self->cached_tokens_[i];
            cached = std::max(cached, news.cached_tokens);
            self->update(first_choice + news.choice, news);
          });
        });
    if (!id) {
      for (int choice = 0; choice < choices; ++choice) context_.activity.end();
      running_ = first_choice;  // of those that the engine took
      ApiError error = api_error(id.error());
      if (context_.draining) error.status = 503;
      return fail(error, "rejected");
    }
    ids_.push_back(*id);
    first_choice += choices;
  }
  arm();
  // A stream's header leaves now: it can tell no more than how long it took to get here.
  exchange_.add_header("Server-Timing", strf("prepare;dur=%.1f", 1e3 * seconds_since(arrived_)));
  answer_->accepted(*this);
  say_first_tokens();
  if (!outlives_client_) exchange_.on_close([self = shared_from_this()] { self->client_left(); });
}

void Generation::say_first_tokens() {
  for (size_t i = 0; i < first_tokens_.size(); ++i) {
    const GeneratedToken first = {.token = first_tokens_[i], .logprob = kNoLogprob, .top = {}};
    std::vector<Delta> deltas;
    choices_[i].push(first, deltas);
    answer_->tokens(*this, int(i), {&first, 1});
    if (!deltas.empty()) answer_->deltas(*this, int(i), std::move(deltas));
  }
}

void Generation::update(int index, const Update& news) {
  Choice& choice = choices_[size_t(index)];
  if (answer_ && !choice.finished()) {
    observe_time(index, news);
    deltas_.clear();
    const int before = choice.tokens();
    for (const GeneratedToken& token : news.tokens) choice.push(token, deltas_);
    const size_t taken = size_t(choice.tokens() - before);
    answer_->tokens(*this, index, std::span(news.tokens).first(taken));
    if (news.finish == Finish::failed) {
      fail({.status = 500, .message = "the model gave no possible next token"}, "error");
    } else if (news.finish == Finish::cancelled) {
      fail({.status = 503, .message = "the server is shutting down"}, "abort");
    } else {
      if (news.finish != Finish::none) choice.finish(news.finish, deltas_);
      if (!deltas_.empty()) answer_->deltas(*this, index, std::exchange(deltas_, {}));
      if (choice.finished()) {
        answer_->choice_ended(*this, index);
        if (--open_ == 0) {
          add_timing();
          answer_->ended(*this);
          settle(choice.finish_reason());
        }
      }
    }
  }
  if (news.finish == Finish::none) return;
  --running_;
  context_.activity.end();
}

// Of an answer that is sent whole.
void Generation::add_timing() {
  const double total = seconds_since(arrived_);
  const double first = outcome_.first_token_seconds;
  const double decode = last_token_ == Time() ? 0 : seconds_between(first_token_, last_token_);
  exchange_.add_header(
      "Server-Timing",
      strf("queue;dur=%.1f, prefill;dur=%.1f, decode;dur=%.1f, total;dur=%.1f",
           1e3 * outcome_.waited_seconds, 1e3 * std::max(0.0, first - outcome_.waited_seconds),
           1e3 * decode, 1e3 * total));
  exchange_.add_header("openai-processing-ms", strf("%.0f", 1e3 * total));
}

void Generation::observe_time(int choice, const Update& news) {
  if (news.tokens.empty()) return;
  const Time now = Clock::now();
  Time& last = choice_token_[size_t(choice)];
  int tokens = int(news.tokens.size());
  if (first_token_ == Time()) {
    first_token_ = now;
    outcome_.first_token_seconds = seconds_between(arrived_, now);
    outcome_.waited_seconds = news.waited_s;
    context_.metrics.first_token(outcome_.first_token_seconds);
  }
  if (last == Time())
    --tokens;  // the choice's first has none before it
  else
    context_.metrics.next_tokens(seconds_between(last, now) / tokens, tokens);
  last = last_token_ = now;
}

Usage Generation::usage() const {
  Usage usage{.prompt_tokens = outcome_.prompt_tokens};
  for (const int cached : cached_tokens_) usage.cached_tokens += cached;
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.completion_tokens();
    usage.reasoning_tokens += choice.reasoning_tokens();
  }
  return usage;
}

void Generation::fail(const ApiError& error, const char* reason) {
  answer_->failed(error);
  settle(reason);
}

void Generation::stop(const ApiError& error) {
  if (answer_) fail(error, "abort");
}

void Generation::client_left() {
  if (answer_) settle("abort");
}

// The answer is complete, or nobody wants it: count it, and let the engine stop what still runs.
void Generation::settle(std::string_view reason) {
  answer_.reset();
  for (const Choice& choice : choices_) {
    outcome_.completion_tokens += choice.completion_tokens();
    outcome_.longest_completion = std::max(outcome_.longest_completion, choice.completion_tokens());
    if (choice.finish_reason() == "length" && reason != "abort" && reason != "error" &&
        reason != "timeout")
      reason = "length";
  }
  outcome_.reason = reason;
  outcome_.seconds = seconds_since(arrived_);
  if (last_token_ != Time()) outcome_.decode_seconds = seconds_between(first_token_, last_token_);
  outcome_.cached_tokens = usage().cached_tokens;
  outcome_.reasoning_tokens = usage().reasoning_tokens;
  report(context_, outcome_);
  if (const auto tenant = std::exchange(tenant_, nullptr))
    tenant->end(Clock::now(), outcome_.prompt_tokens, outcome_.completion_tokens);
  if (running_ > 0)
    for (const RequestId id : ids_) context_.engine.cancel(id);
}

}  // namespace rose
