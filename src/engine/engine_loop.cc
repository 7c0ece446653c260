#include "engine/engine_loop.h"

#include <algorithm>
#include <random>

namespace rose {

EngineLoop::EngineLoop(const EngineOptions& options, const KvMemory& memory, int window,
                       Runner runner)
    : options_(options),
      memory_(memory),
      runner_(std::move(runner)),
      scheduler_({
          .tokens_per_step = options.max_tokens_per_step,
          .seqs = options.max_seqs,
          .window = window,
          .pages = {memory.pages[0], memory.pages[1]},
      }) {
  publish();
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  inbox_changed_.notify_one();
  thread_.join();
}

// ---- any thread

Result<RequestId> EngineLoop::submit(Request request, Sink sink) {
  TRY(check_request(request, memory_.max_context, options_.vocab));
  if (!request.sampling.seed) {
    std::random_device device;
    request.sampling.seed = uint64_t(device()) << 32 | device();
  }
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || stopping_) return fail(ErrorKind::busy, "the server is shutting down");
    TRY(check_queue(int64_t(request.prompt.size())));
    id = ++last_id_;
    ++submitted_;
    submitted_choices_ += request.choices;
    submitted_tokens_ += int64_t(request.prompt.size());
    idle_ = false;
    inbox_.push_back({.id = id,
                      .submitted = Clock::now(),
                      .request = std::move(request),
                      .sink = std::move(sink)});
  }
  inbox_changed_.notify_one();
  return id;
}

// Under the mutex. A prompt that is alone fits always, however long it is.
Status EngineLoop::check_queue(int64_t prompt_tokens) const {
  const int requests = submitted_ + stats_.waiting_requests;
  if (requests >= options_.max_waiting)
    return fail(ErrorKind::busy, strf("the queue is full: %d requests wait", requests));
  const int64_t tokens = submitted_tokens_ + stats_.waiting_tokens;
  if (options_.max_waiting_tokens > 0 && tokens > 0 &&
      tokens + prompt_tokens > options_.max_waiting_tokens)
    return fail(ErrorKind::busy,
                strf("the queue is full: %lld tokens wait, with this prompt's "
                     "%lld they would be more than %lld",
                     static_cast<long long>(tokens), static_cast<long long>(prompt_tokens),
                     static_cast<long long>(options_.max_waiting_tokens)));
  return Done{};
}

void EngineLoop::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back({.id = id, .cancels = true});
  }
  inbox_changed_.notify_one();
}

void EngineLoop::drain() {
  std::unique_lock lock(mutex_);
  draining_ = true;
  became_idle_.wait(lock, [&] { return idle_; });
}

EngineStats EngineLoop::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += submitted_choices_;
  stats.waiting_requests += submitted_;
  stats.waiting_tokens += submitted_tokens_;
  return stats;
}

// ---- the engine's thread

void EngineLoop::run() {
  while (take_messages()) turn();
  scheduler_.cancel_all(tell_);
  settle();
  publish();
  deliver();
}

// Waits for messages when there is nothing else to do. False: the engine is to stop.
bool EngineLoop::take_messages() {
  std::vector<Message> messages;
  bool stopping = false;
  {
    std::unique_lock lock(mutex_);
    if (inbox_.empty() && scheduler_.idle()) {
      idle_ = true;
      became_idle_.notify_all();
      inbox_changed_.wait(lock, [&] { return !inbox_.empty() || stopping_; });
    }
    messages.swap(inbox_);
    stats_.waiting_requests += std::exchange(submitted_, 0);
    stats_.waiting_tokens += std::exchange(submitted_tokens_, 0);
    stats_.waiting += std::exchange(submitted_choices_, 0);
    stopping = stopping_;
  }
  for (Message& message : messages) {
    if (message.cancels)
      scheduler_.cancel(message.id, tell_);
    else
      accept(std::move(message));
  }
  return !stopping;
}

void EngineLoop::accept(Message message) {
  const Request& request = message.request;
  std::unique_ptr<Sequence> first;
  for (int choice = 0; choice < request.choices; ++choice) {
    auto sequence =
        make_sequence(request, message.id, choice, *request.sampling.seed, memory_.max_context);
    sequence->submitted = message.submitted;
    // Without the prefix cache a request still shares its prompt among its own choices: under a
    // salt that nobody else has.
    if (!options_.prefix_cache) {
      sequence->remember = request.choices > 1;
      sequence->salt = strf("request %llu", static_cast<unsigned long long>(message.id));
    }
    if (choice == 0)
      first = std::move(sequence);
    else
      first->siblings.push_back(std::move(sequence));
  }
  clients_[message.id] = {.sink = std::move(message.sink), .open_choices = request.choices};
  scheduler_.add(std::move(first));
}

// One step. Where the device works on its own, it runs this step while the host settles the one before
// and plans the next: tokens are told one step late, and what an end comes too late to prevent is dropped.
// The host's own device is done when `launch` returns, so its step is settled at once.
void EngineLoop::turn() {
  if (scheduler_.needs_tokens()) settle();
  Step step = scheduler_.plan();
  std::unique_ptr<Flight> launched;
  if (!step.empty()) {
    launched = runner_.launch(std::move(step));
    ++counts_.steps;
  }
  settle();
  flight_ = std::move(launched);
  if (!runner_.works_ahead()) settle();
  if (options_.check_invariants) scheduler_.check();
  publish();
  deliver();
}

// Takes in what came of the step under way, if there is one.
void EngineLoop::settle() {
  if (!flight_) return;
  scheduler_.settle(flight_->step, runner_.land(*flight_), tell_);
  flight_.reset();
}

void EngineLoop::tell(const Sequence& sequence, Sampled* sampled) {
  Update update = {
      .choice = sequence.choice,
      .finish = sequence.finish,
      .cached_tokens = sequence.cached_tokens,
  };
  if (sequence.admitted) update.waited_s = seconds_between(sequence.submitted, sequence.began);
  if (sampled) {
    update.tokens.push_back({
        .token = sampled->token,
        .logprob = sampled->logprob,
        .top = {sampled->alternatives().begin(), sampled->alternatives().end()},
    });
    ++counts_.generated_tokens;
  }
  if (sequence.finish != Finish::none) ++counts_.finished[int(sequence.finish)];
  news_.push_back({sequence.request, std::move(update)});
}

// Before the news go out: who is told of an end finds it counted, and its pages free.
void EngineLoop::publish() {
  EngineStats stats = counts_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  const Scheduler::Waiting waiting = scheduler_.waiting_requests();
  stats.waiting_requests = waiting.requests;
  stats.waiting_tokens = waiting.tokens;
  stats.max_seqs = options_.max_seqs;
  stats.max_waiting = options_.max_waiting;
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    stats.pages[int(pool)] = scheduler_.pool(pool).size();
    stats.pages_free[int(pool)] = scheduler_.pool(pool).free();
    stats.pages_cached[int(pool)] = scheduler_.pool(pool).cached();
  }
  stats.prompt_tokens = scheduler_.counts().prompt_tokens;
  stats.preemptions = scheduler_.counts().preemptions;
  stats.prefix_queries = scheduler_.counts().prefix_queries;
  stats.prefix_hits = scheduler_.counts().prefix_hits;
  stats.step_tokens = scheduler_.counts().step_tokens;
  std::copy(std::begin(scheduler_.counts().steps_by_tokens),
            std::end(scheduler_.counts().steps_by_tokens), std::begin(stats.steps_by_tokens));
  const std::lock_guard lock(mutex_);
  stats_ = stats;
}

void EngineLoop::deliver() {
  for (News& news : std::exchange(news_, {})) {
    const auto client = clients_.find(news.id);
    ROSE_CHECK(client != clients_.end(), "engine: news of a request that has ended");
    client->second.sink(news.update);
    if (news.update.finish != Finish::none && --client->second.open_choices == 0)
      clients_.erase(client);
  }
}

}  // namespace rose
