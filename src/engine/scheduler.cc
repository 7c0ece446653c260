#include "engine/scheduler.h"

#include <algorithm>

#include "base/clock.h"

namespace rose {

namespace {
int pages_for(int tokens) { return (tokens + kPageSize - 1) / kPageSize; }
int known(const Sequence& sequence) {  // tokens whose keys and values are in pages
  return std::min(sequence.computed, int(sequence.tokens.size()));
}
}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits),
      pools_{PagePool(limits.pages[0]), PagePool(limits.pages[1])},
      prefix_(pools_[int(Pool::full)], pools_[int(Pool::sliding)], limits.window) {
  ROSE_CHECK(limits.tokens_per_step > 0 && limits.seqs > 0 && limits.window > 0,
             "scheduler: %d tokens a step, %d sequences, window %d", limits.tokens_per_step,
             limits.seqs, limits.window);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  ROSE_CHECK(pages_for(sequence->max_length) <= pools_[int(Pool::full)].size() &&
                 window_pages(limits_.window) <= pools_[int(Pool::sliding)].size(),
             "scheduler: a sequence of %d tokens can never fit", sequence->max_length);
  sequence->arrival = arrivals_++;
  for (auto& sibling : sequence->siblings) {
    sibling->arrival = arrivals_++;
    sibling->tokens = {};  // one copy of the prompt is enough while it waits
  }
  waiting_.push(std::move(sequence));
}

Step Scheduler::plan() {
  for (auto& sequence : running_) {
    if (sequence->computed / kPageSize > sequence->remembered) {
      const int ends[] = {sequence->prompt};
      remember(*sequence, ends);
    }
    leave_window(*sequence);
    if (sequence->computed >= sequence->prompt) free_siblings(*sequence);
  }

  Step step;
  samples_ = 0;
  int budget = limits_.tokens_per_step;
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    const int wanted = std::min(sequence.pending(), budget);
    if (wanted == 0) continue;  // its last token is on its way
    int count = 0;
    while (i < running_.size() && (count = reserve(sequence, wanted)) == 0) give_way();
    if (count == 0) break;  // it was itself the youngest
    launch(sequence, count, step);
    budget -= count;
  }

  while (!waiting_.empty() && budget > 0 && running() < limits_.seqs) {
    Sequence& sequence = waiting_.front();
    if (!admit(sequence)) break;
    const int count = reserve(sequence, std::min(sequence.pending(), budget));
    if (count == 0) {
      release_pages(sequence);
      break;
    }
    if (!sequence.admitted) {
      sequence.admitted = true;
      sequence.began = Clock::now();
      sequence.cached_tokens = sequence.computed;
      counts_.prefix_queries += sequence.prompt;
      counts_.prefix_hits += sequence.computed;
    }
    running_.push_back(waiting_.pop());
    launch(sequence, count, step);
    budget -= count;
  }
  count_step(limits_.tokens_per_step - budget);
  return step;
}

void Scheduler::count_step(int tokens) {
  if (tokens == 0) return;
  counts_.step_tokens += tokens;
  const auto* const bucket =
      std::lower_bound(std::begin(kStepTokenBuckets), std::end(kStepTokenBuckets), tokens);
  ++counts_.steps_by_tokens[bucket - std::begin(kStepTokenBuckets)];
}

// Takes what the prefix cache has, and the full pages of all that is known: a prompt that has begun
// never stops half way for want of them. One page for each that runs is left alone, or the newcomer
// would soon have to give way again.
bool Scheduler::admit(Sequence& sequence) {
  PagePool& full = pools_[int(Pool::full)];
  if (sequence.remember)
    sequence.computed = prefix_.match(sequence.salt, sequence.tokens, sequence.pages);
  sequence.remembered = sequence.computed / kPageSize;
  auto& table = sequence.pages[int(Pool::full)];
  const int missing = pages_for(sequence.length) - int(table.size());
  if (missing + running() > full.available() && running() > 0) {
    release_pages(sequence);
    return false;
  }
  for (int page = 0; page < missing; ++page) table.push_back(take_page(Pool::full));
  return true;
}

// Sees to it that the next `count` tokens have pages, or as many of them as there are pages for.
int Scheduler::reserve(Sequence& sequence, int count) {
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    const int64_t pages = int64_t(sequence.pages[int(pool)].size()) + pools_[int(pool)].available();
    count = int(std::min<int64_t>(count, pages * kPageSize - sequence.computed));
  }
  if (count <= 0) return 0;
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    auto& table = sequence.pages[int(pool)];
    while (int(table.size()) < pages_for(sequence.computed + count))
      table.push_back(take_page(pool));
  }
  return count;
}

int Scheduler::take_page(Pool pool) {
  int page = pools_[int(pool)].take();
  if (page == kNoPage && prefix_.evict(pool)) page = pools_[int(pool)].take();
  ROSE_CHECK(page != kNoPage, "scheduler: no page left of %d", pools_[int(pool)].size());
  return page;
}

void Scheduler::launch(Sequence& sequence, int count, Step& step) {
  const int first = sequence.computed;
  sequence.computed += count;
  const int newest = sequence.computed > int(sequence.tokens.size()) ? sequence.sample : -1;
  const bool samples = sequence.computed == sequence.length;
  if (samples) {
    ++sequence.length;
    sequence.sample = samples_++;
  }
  ++sequence.steps_under_way;
  const int of_prompt = std::max(0, std::min(sequence.computed, sequence.prompt) - first);
  counts_.prompt_tokens += of_prompt;
  waiting_.charge(sequence, of_prompt, int(samples));
  step.push_back({&sequence, first, count, samples, sequence.epoch, newest});
}

// Before the window leaves them: the prefix cache keeps some of the sliding pages.
void Scheduler::remember(Sequence& sequence, std::span<const int> ends) {
  sequence.remembered = sequence.computed / kPageSize;
  if (!sequence.remember) return;
  const std::span<const int> tokens(sequence.tokens.data(), size_t(known(sequence)));
  prefix_.insert(sequence.salt, tokens, sequence.pages, ends);
}

// Steps follow each other on one stream, so a page may change hands while its old owner's last step
// still runs.
void Scheduler::leave_window(Sequence& sequence) {
  auto& table = sequence.pages[int(Pool::sliding)];
  const int first = std::min(first_seen_page(sequence.computed, limits_.window), int(table.size()));
  for (int page = first - 1; page >= 0 && table[size_t(page)] != kNoPage; --page) {
    pools_[int(Pool::sliding)].drop(table[size_t(page)]);
    table[size_t(page)] = kNoPage;
  }
}

void Scheduler::release_pages(Sequence& sequence) {
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    for (const int page : sequence.pages[int(pool)])
      if (page != kNoPage) pools_[int(pool)].drop(page);
    sequence.pages[int(pool)].clear();
  }
  sequence.computed = 0;
  sequence.remembered = 0;
}

// The youngest waits again. What it computed stays in the prefix cache as long as nobody needs it;
// the token that is being sampled for it is dropped, and drawn again with the same random number.
void Scheduler::give_way() {
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  const int ends[] = {sequence->prompt, known(*sequence)};
  remember(*sequence, ends);
  release_pages(*sequence);
  sequence->length = int(sequence->tokens.size());
  ++sequence->epoch;
  ++counts_.preemptions;
  waiting_.push(std::move(sequence));
}

void Scheduler::free_siblings(Sequence& sequence) {
  for (auto& sibling : sequence.siblings) {
    sibling->tokens.assign(sequence.tokens.begin(), sequence.tokens.begin() + sequence.prompt);
    waiting_.push(std::move(sibling));
  }
  sequence.siblings.clear();
}

void Scheduler::settle(const Step& step, std::span<Sampled> results, const Tell& tell) {
  size_t row = 0;
  for (const Slice& slice : step) {
    Sequence& sequence = *slice.sequence;
    --sequence.steps_under_way;
    if (!slice.samples) continue;
    Sampled& result = results[row++];
    if (slice.epoch != sequence.epoch) continue;
    const bool sampled = result.token >= 0;
    const Finish finish = sampled ? sequence.append(result.token) : Finish::failed;
    if (finish != Finish::none) end(sequence, finish);
    tell(sequence, sampled ? &result : nullptr);
  }
  reap();
}

void Scheduler::end(Sequence& sequence, Finish finish) {
  const int ends[] = {sequence.prompt, known(sequence)};
  if (finish != Finish::failed) remember(sequence, ends);  // its numbers may be no numbers
  release_pages(sequence);
  free_siblings(sequence);
  sequence.finish = finish;
  ++sequence.epoch;
}

// Those that ended go, as soon as no step under way points to them.
void Scheduler::reap() {
  for (auto& sequence : running_)
    if (sequence->finish != Finish::none) leaving_.push_back(std::move(sequence));
  std::erase(running_, nullptr);
  for (auto& sequence : waiting_.take_ended()) leaving_.push_back(std::move(sequence));
  std::erase_if(leaving_, [](const auto& sequence) { return sequence->steps_under_way == 0; });
}

void Scheduler::cancel(uint64_t request, const Tell& tell) {
  cancel_if([&](const Sequence& sequence) { return sequence.request == request; }, tell);
}

void Scheduler::cancel_all(const Tell& tell) {
  cancel_if([](const Sequence&) { return true; }, tell);
}

void Scheduler::cancel_if(const std::function<bool(const Sequence&)>& chosen, const Tell& tell) {
  std::vector<Sequence*> found;
  for (const auto& sequence : running_)
    if (chosen(*sequence)) found.push_back(sequence.get());
  waiting_.each([&](Sequence& sequence) {
    if (chosen(sequence)) found.push_back(&sequence);
  });
  for (size_t i = 0; i < found.size(); ++i) {  // grows by siblings
    for (const auto& sibling : found[i]->siblings) found.push_back(sibling.get());
    end(*found[i], Finish::cancelled);
    tell(*found[i], nullptr);
  }
  reap();
}

bool Scheduler::needs_tokens() const {
  return std::any_of(running_.begin(), running_.end(), [](const auto& sequence) {
    return sequence->depends_on_tokens() && sequence->length > int(sequence->tokens.size());
  });
}

int Scheduler::waiting() const {
  int choices = 0;
  waiting_.each([&](const Sequence& sequence) { choices += 1 + int(sequence.siblings.size()); });
  for (const auto& sequence : running_) choices += int(sequence->siblings.size());
  return choices;
}

Scheduler::Waiting Scheduler::waiting_requests() const {
  Waiting waiting;
  waiting_.each([&](const Sequence& sequence) {
    if (sequence.choice != 0 || sequence.admitted) return;
    ++waiting.requests;
    waiting.tokens += sequence.prompt;
  });
  return waiting;
}

void Scheduler::check() const {
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    const PagePool& pages = pools_[int(pool)];
    std::vector<int> holders(size_t(pages.size()), 0);
    for (const auto& sequence : running_)
      for (const int page : sequence->pages[int(pool)])
        if (page != kNoPage) ++holders[size_t(page)];
    int free = 0, held = 0, cached = 0;
    for (int page = 0; page < pages.size(); ++page) {
      ROSE_CHECK(pages.holders(page) == holders[size_t(page)],
                 "scheduler: page %d of pool %d has %d holders, %d sequences have it in a table",
                 page, int(pool), pages.holders(page), holders[size_t(page)]);
      (pages.holders(page) > 0 ? held : pages.kept(page) ? cached : free) += 1;
    }
    ROSE_CHECK(free == pages.free() && held == pages.held() && cached == pages.cached(),
               "scheduler: pool %d says %d free, %d held, %d cached; counted %d, %d, %d", int(pool),
               pages.free(), pages.held(), pages.cached(), free, held, cached);
  }
  for (const auto& sequence : running_) {
    const int end = pages_for(sequence->computed);
    const int first = first_seen_page(sequence->computed, limits_.window);
    for (int page = 0; page < end; ++page) {
      ROSE_CHECK(sequence->pages[int(Pool::full)][size_t(page)] != kNoPage,
                 "scheduler: page %d of %d computed tokens is gone", page, sequence->computed);
      ROSE_CHECK(page < first || sequence->pages[int(Pool::sliding)][size_t(page)] != kNoPage,
                 "scheduler: page %d, in the window of %d computed tokens, is gone", page,
                 sequence->computed);
    }
  }
  waiting_.each([](const Sequence& sequence) {
    ROSE_CHECK(sequence.pages[0].empty() && sequence.pages[1].empty() && sequence.computed == 0,
               "scheduler: a waiting sequence has pages");
  });
  prefix_.check();
}

}  // namespace rose
