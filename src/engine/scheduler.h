// Who runs next, and on which pages: host arithmetic only. It counts tokens and never asks for their
// values, so a step can be planned while the one before still runs: `plan` advances what is computed,
// `settle` takes in what was sampled, at once or one step late.
//
// Running sequences go first, oldest first, one token each or a chunk of their prompt; what is left of
// the step's tokens goes to those who wait, by priority and then arrival. Out of pages, the youngest
// that runs gives way: it waits again, and computes again what the prefix cache could not keep.
#pragma once
#include <functional>
#include <span>

#include "cache/prefix.h"
#include "engine/step_buckets.h"
#include "engine/waiting_queue.h"

namespace rose {

// A sequence's part of a step: it feeds tokens [first, first + count).
struct Slice {
  Sequence* sequence;
  int first;
  int count;
  bool samples;    // these reach the end of what is known: the next token is drawn
  uint32_t epoch;  // of the sequence when it was planned
  // Which sample of the step before is the last token fed, where the host does not know it yet; else -1.
  int newest = -1;
};
using Step = std::vector<Slice>;

struct SchedulerLimits {
  int tokens_per_step = 0;
  int seqs = 0;    // that run together
  int window = 1;  // tokens a sliding layer sees, the newest included
  int pages[kPools] = {};
};

struct SchedulerCounts {
  int64_t prompt_tokens = 0;
  int64_t step_tokens = 0;  // of all steps
  int64_t steps_by_tokens[kStepBuckets] = {};
  int64_t preemptions = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Takes a request's first choice, with the others as its siblings. It must fit alone: max_length
  // tokens into the full pool, and one window into the sliding one.
  void add(std::unique_ptr<Sequence> sequence);

  // The next step; empty if nothing can be computed now. Its sequences live until it is settled.
  Step plan();

  // Somebody's next token depends on values that are still being computed (a grammar, penalties): the
  // step under way must be settled before the next is planned.
  bool needs_tokens() const;

  // What came of a step: one result for each slice that samples, in order. `tell` hears of each new
  // token and each end. Results for sequences that gave way or ended meanwhile are dropped.
  using Tell = std::function<void(const Sequence&, Sampled*)>;  // no token: null
  void settle(const Step& step, std::span<Sampled> results, const Tell& tell);

  // Ends all choices of a request; pages come back at once. Unknown requests are ignored.
  void cancel(uint64_t request, const Tell& tell);
  void cancel_all(const Tell& tell);

  bool idle() const { return running_.empty() && waiting_.empty() && leaving_.empty(); }
  int running() const { return int(running_.size()); }
  int waiting() const;  // choices
  struct Waiting {
    int requests = 0;    // that have not begun
    int64_t tokens = 0;  // of their prompts
  };
  Waiting waiting_requests() const;
  const PagePool& pool(Pool pool) const { return pools_[int(pool)]; }
  const SchedulerCounts& counts() const { return counts_; }

  // Counts everything again; a wrong account stops the program. For tests: it takes its time.
  void check() const;

 private:
  bool admit(Sequence& sequence);
  int reserve(Sequence& sequence, int count);
  int take_page(Pool pool);
  void launch(Sequence& sequence, int count, Step& step);
  void count_step(int tokens);
  void remember(Sequence& sequence, std::span<const int> ends);
  void leave_window(Sequence& sequence);
  void release_pages(Sequence& sequence);
  void give_way();
  void free_siblings(Sequence& sequence);
  void end(Sequence& sequence, Finish finish);
  void reap();
  void cancel_if(const std::function<bool(const Sequence&)>& chosen, const Tell& tell);

  SchedulerLimits limits_;
  PagePool pools_[kPools];
  PrefixCache prefix_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in the order of admission
  WaitingQueue waiting_;
  std::vector<std::unique_ptr<Sequence>> leaving_;  // ended, but in a step under way
  uint64_t arrivals_ = 0;
  int samples_ = 0;  // of the step that is being planned
  SchedulerCounts counts_;
};

}  // namespace rose
