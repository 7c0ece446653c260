#include "api/generation.h"

#include <algorithm>
#include <utility>

namespace rose {

namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void Generation::start(ApiContext& context, Exchange exchange, GenerationPlan plan,
                       std::unique_ptr<Answer> answer) {
  const auto generation =
      std::make_shared<Generation>(context, std::move(exchange), plan, std::move(answer));
  generation->submit(std::move(plan.request));
}

Generation::Generation(ApiContext& context, Exchange exchange, const GenerationPlan& plan,
                       std::unique_ptr<Answer> answer)
    : context_(context),
      exchange_(std::move(exchange)),
      answer_(std::move(answer)),
      running_(plan.request.choices),
      open_(plan.request.choices),
      arrived_(plan.arrived),
      choice_token_(size_t(plan.request.choices)) {
  outcome_.prompt_tokens = int(plan.request.prompt.size());
  outcome_.choices = plan.request.choices;
  outcome_.max_tokens = plan.request.max_tokens;
  for (int i = 0; i < plan.request.choices; ++i)
    choices_.emplace_back(context.format.parser(plan.tools), context.tokenizer, plan.choice);
}

void Generation::submit(Request request) {
  if (!exchange_.open()) return client_left();
  context_.activity.begin();
  auto id = context_.engine.submit(
      std::move(request), [exchange = exchange_, self = shared_from_this()](const Update& news) {
        exchange.post([self, news] { self->update(news); });
      });
  if (!id) {
    context_.activity.end();
    ApiError error = api_error(id.error());
    if (context_.draining) error.status = 503;
    return fail(error, "rejected");
  }
  id_ = *id;
  answer_->accepted();
  exchange_.on_close([self = shared_from_this()] { self->client_left(); });
}

void Generation::update(const Update& news) {
  Choice& choice = choices_[size_t(news.choice)];
  cached_tokens_ = std::max(cached_tokens_, news.cached_tokens);
  if (answer_ && !choice.finished()) {
    observe_time(news);
    deltas_.clear();
    for (const GeneratedToken& token : news.tokens) choice.push(token, deltas_);
    if (news.finish == Finish::failed) {
      fail({.status = 500, .message = "the model gave no possible next token"}, "error");
    } else if (news.finish == Finish::cancelled) {
      fail({.status = 503, .message = "the server is shutting down"}, "abort");
    } else {
      if (news.finish != Finish::none) choice.finish(news.finish, deltas_);
      if (!deltas_.empty()) answer_->deltas(*this, news.choice, std::exchange(deltas_, {}));
      if (choice.finished()) {
        answer_->choice_ended(*this, news.choice);
        if (--open_ == 0) {
          answer_->ended(*this);
          settle(choice.finish_reason());
        }
      }
    }
  }
  if (news.finish != Finish::none && --running_ == 0) context_.activity.end();
}

void Generation::observe_time(const Update& news) {
  if (news.tokens.empty()) return;
  const Time now = SteadyClock::now();
  Time& last = choice_token_[size_t(news.choice)];
  int tokens = int(news.tokens.size());
  if (first_token_ == Time()) {
    first_token_ = now;
    context_.metrics.first_token(seconds_between(arrived_, now));
  }
  if (last == Time())
    --tokens;  // the choice's first has none before it
  else
    context_.metrics.next_tokens(seconds_between(last, now) / tokens, tokens);
  last = last_token_ = now;
}

Usage Generation::usage() const {
  Usage usage{.prompt_tokens = outcome_.prompt_tokens, .cached_tokens = cached_tokens_};
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

void Generation::client_left() {
  if (answer_) settle("abort");
}

// The answer is complete, or nobody wants it: count it, and let the engine stop what still runs.
void Generation::settle(std::string_view reason) {
  answer_.reset();
  for (const Choice& choice : choices_) {
    outcome_.completion_tokens += choice.completion_tokens();
    outcome_.longest_completion = std::max(outcome_.longest_completion, choice.completion_tokens());
    if (choice.finish_reason() == "length" && reason != "abort" && reason != "error")
      reason = "length";
  }
  outcome_.reason = reason;
  outcome_.seconds = seconds_between(arrived_, SteadyClock::now());
  if (last_token_ != Time()) outcome_.decode_seconds = seconds_between(first_token_, last_token_);
  context_.metrics.ended(outcome_);
  if (id_ && running_ > 0) context_.engine.cancel(id_);
}

}  // namespace rose
