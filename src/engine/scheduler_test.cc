#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/fake_model.h"

namespace rose {
namespace {

using Shape = std::vector<std::pair<int, int>>;  // request, tokens

Shape shape(const Step& step) {
  Shape shape;
  for (const Slice& slice : step) shape.emplace_back(int(slice.sequence->request), slice.count);
  return shape;
}

// A scheduler and the little that is around it: requests come in, steps are run by saying what each
// sampled token is.
struct Desk {
  Desk(int tokens_per_step, int full, int sliding, int seqs = 8)
      : scheduler({.tokens_per_step = tokens_per_step,
                   .seqs = seqs,
                   .window = testing::kFakeWindow,
                   .pages = {full, sliding}}) {}

  // A request with a prompt of its own: tokens of value 1000 * id and more.
  void ask(int id, int prompt, int max_tokens = 1000, int choices = 1, int priority = 0) {
    Request request;
    for (int i = 0; i < prompt; ++i) request.prompt.push_back(1000 * id + i);
    request.max_tokens = max_tokens;
    request.stop_tokens = {kStop};
    request.priority = priority;
    const int context = scheduler.pool(Pool::full).size() * kPageSize;
    auto first = make_sequence(request, uint64_t(id), 0, 0, context);
    for (int choice = 1; choice < choices; ++choice)
      first->siblings.push_back(make_sequence(request, uint64_t(id), choice, 0, context));
    scheduler.add(std::move(first));
  }
  // The results of a step, all of the same token.
  void settle(const Step& step, int token = 7) {
    std::vector<Sampled> results(step.size(), Sampled{.token = token, .top = {}});
    scheduler.settle(step, results, tell);
    scheduler.check();
  }
  Shape run(int token = 7) {
    const Step step = scheduler.plan();
    scheduler.check();
    const Shape planned = shape(step);
    settle(step, token);
    return planned;
  }
  int held(Pool pool) const { return scheduler.pool(pool).held(); }

  static constexpr int kStop = 99;
  Scheduler scheduler;
  std::map<int, std::vector<Finish>> ended;  // by request
  std::map<int, int> told;                   // tokens, by request
  Scheduler::Tell tell = [this](const Sequence& sequence, Sampled* sampled) {
    told[int(sequence.request)] += sampled != nullptr;
    if (sequence.finish != Finish::none) ended[int(sequence.request)].push_back(sequence.finish);
  };
};

TEST(Scheduler, who_runs_goes_first_and_who_waits_gets_the_rest) {
  Desk desk(100, 32, 32);
  desk.ask(1, 30);
  EXPECT_EQ(desk.run(), (Shape{{1, 30}}));
  desk.ask(2, 250);
  desk.ask(3, 10);
  EXPECT_EQ(desk.run(), (Shape{{1, 1}, {2, 99}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}, {2, 99}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}, {2, 52}, {3, 10}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(desk.told, (std::map<int, int>{{1, 5}, {2, 2}, {3, 2}}));
}

TEST(Scheduler, no_more_run_than_may) {
  Desk desk(100, 32, 32, 2);
  for (int id = 1; id <= 3; ++id) desk.ask(id, 10, 2);
  EXPECT_EQ(desk.run(), (Shape{{1, 10}, {2, 10}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}, {2, 1}}));
  EXPECT_EQ(desk.run(), (Shape{{3, 10}}));
}

TEST(Scheduler, the_more_urgent_goes_first_among_the_waiting) {
  Desk desk(1000, 32, 32);
  desk.ask(1, 10, 10, 1, 0);
  desk.ask(2, 10, 10, 1, -1);
  desk.ask(3, 10, 10, 1, -1);
  EXPECT_EQ(desk.run(), (Shape{{2, 10}, {3, 10}, {1, 10}}));
}

TEST(Scheduler, ends_at_a_stop_token_and_at_the_length) {
  Desk desk(100, 8, 8);
  desk.ask(1, 10, 3);
  desk.ask(2, 10, 3);
  desk.run();
  desk.run();
  EXPECT_TRUE(desk.ended.empty());
  desk.run();
  EXPECT_EQ(desk.ended[1], std::vector{Finish::length});
  desk.ask(3, 10, 3);
  desk.run(Desk::kStop);
  EXPECT_EQ(desk.ended[3], std::vector{Finish::stop});
  EXPECT_EQ(desk.told, (std::map<int, int>{{1, 3}, {2, 3}, {3, 1}}));
  EXPECT_TRUE(desk.scheduler.idle());
  EXPECT_EQ(desk.held(Pool::full), 0);
}

TEST(Scheduler, no_token_possible_ends_that_choice_only) {
  Desk desk(200, 8, 8);
  desk.ask(1, 130, 3);
  desk.ask(2, 10, 3);
  const Step step = desk.scheduler.plan();
  std::vector<Sampled> results(2);
  results[1].token = 5;
  desk.scheduler.settle(step, results, desk.tell);
  EXPECT_EQ(desk.ended[1], std::vector{Finish::failed});
  EXPECT_EQ(desk.scheduler.pool(Pool::full).cached(), 0);  // who knows what is in its pages
  EXPECT_EQ(desk.ended.count(2), 0u);
  EXPECT_EQ(desk.run(), (Shape{{2, 1}}));
}

TEST(Scheduler, out_of_pages_the_youngest_gives_way) {
  Desk desk(1000, 5, 16);
  desk.ask(1, 128);
  desk.ask(2, 128);
  desk.run();  // both fill their two pages to the brim, one page is left
  EXPECT_EQ(desk.run(), (Shape{{1, 1}}));
  EXPECT_EQ(desk.scheduler.waiting(), 1);
  EXPECT_EQ(desk.scheduler.waiting_requests().requests,
            0);  // it has begun, and has no place in the queue
  EXPECT_EQ(desk.held(Pool::full), 3);
  EXPECT_EQ(desk.scheduler.pool(Pool::full).cached(), 2);  // what the youngest computed
  EXPECT_EQ(desk.scheduler.counts().preemptions, 1);

  desk.scheduler.cancel(1, desk.tell);
  // It has one token more than its prompt, and finds one page: the end of its prompt is 128, and a
  // token must be left to compute there.
  EXPECT_EQ(desk.run(), (Shape{{2, 1}}));
  EXPECT_EQ(desk.told[2], 2);
}

TEST(Scheduler, a_newcomer_leaves_a_page_for_each_that_runs) {
  Desk desk(1000, 4, 16);
  desk.ask(1, 128);
  desk.ask(2, 128);
  EXPECT_EQ(desk.run(), (Shape{{1, 128}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}}));
  desk.scheduler.cancel(1, desk.tell);
  EXPECT_EQ(desk.run(), (Shape{{2, 128}}));
}

TEST(Scheduler, the_window_gives_its_pages_back) {
  Desk desk(200, 32, 8);
  desk.ask(1, 1000, 600);
  while (desk.told[1] == 0) {
    desk.run();
    EXPECT_LE(desk.held(Pool::sliding), window_pages(testing::kFakeWindow) + 4);  // and a chunk
  }
  while (desk.ended.empty()) {
    desk.run();
    EXPECT_LE(desk.held(Pool::sliding), window_pages(testing::kFakeWindow));
  }
  EXPECT_EQ(desk.told[1], 600);
}

TEST(Scheduler, a_chunk_is_cut_to_the_sliding_pages_there_are) {
  Desk desk(2000, 32, 3);
  desk.ask(1, 300, 2);
  EXPECT_EQ(desk.run(), (Shape{{1, 192}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 64}}));  // two pages are in the window
  EXPECT_EQ(desk.run(), (Shape{{1, 44}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}}));
  EXPECT_TRUE(desk.scheduler.idle());
}

TEST(Scheduler, the_same_prompt_is_not_computed_twice) {
  Desk desk(1000, 32, 32);
  desk.ask(1, 300, 1);
  desk.run();
  desk.ask(1, 300, 1);
  EXPECT_EQ(desk.run(), (Shape{{1, 300 - 256}}));
  EXPECT_EQ(desk.scheduler.counts().prefix_queries, 600);
  EXPECT_EQ(desk.scheduler.counts().prefix_hits, 256);
  EXPECT_EQ(desk.scheduler.counts().prompt_tokens, 300 + 44);
}

TEST(Scheduler, what_was_cancelled_is_still_cached) {
  Desk desk(1000, 32, 32);
  desk.ask(1, 200, 500);
  for (int i = 0; i < 250; ++i) desk.run();
  desk.scheduler.cancel(1, desk.tell);
  EXPECT_EQ(desk.ended[1], std::vector{Finish::cancelled});
  EXPECT_EQ(desk.scheduler.pool(Pool::full).cached(), 449 / kPageSize);
  EXPECT_EQ(desk.held(Pool::full), 0);
}

TEST(Scheduler, choices_share_their_prompts_pages) {
  Desk desk(1000, 32, 32);
  desk.ask(1, 300, 2, 3);
  EXPECT_EQ(desk.scheduler.waiting(), 3);
  EXPECT_EQ(desk.run(), (Shape{{1, 300}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}, {1, 44}, {1, 44}}));
  EXPECT_EQ(desk.ended[1].size(), 1u);
  desk.run();
  EXPECT_EQ(desk.ended[1].size(), 3u);
  EXPECT_EQ(desk.told[1], 6);
  EXPECT_TRUE(desk.scheduler.idle());
}

TEST(Scheduler, choices_wait_for_the_whole_prompt) {
  Desk desk(200, 32, 32);
  desk.ask(1, 300, 2, 2);
  EXPECT_EQ(desk.run(), (Shape{{1, 200}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 100}}));
  EXPECT_EQ(desk.run(), (Shape{{1, 1}, {1, 44}}));
}

TEST(Scheduler, choices_hold_the_shared_pages_once) {
  Desk desk(1000, 32, 32);
  desk.ask(1, 300, 20, 3);
  desk.run();
  desk.run();
  EXPECT_EQ(desk.held(Pool::full), 4 + 3);
}

TEST(Scheduler, cancels_in_every_state) {
  Desk desk(100, 32, 32, 2);
  desk.ask(1, 10, 50);
  desk.ask(2, 300, 50);
  desk.ask(3, 10, 50, 2);
  desk.run();
  for (const int id : {3, 2, 1}) {  // waiting, in its prompt, decoding
    desk.scheduler.cancel(uint64_t(id), desk.tell);
    desk.scheduler.check();
    EXPECT_EQ(desk.ended[id], std::vector<Finish>(id == 3 ? 2 : 1, Finish::cancelled));
  }
  desk.scheduler.cancel(1, desk.tell);  // again, and unknown
  desk.scheduler.cancel(77, desk.tell);
  EXPECT_EQ(desk.ended.size(), 3u);
  EXPECT_TRUE(desk.scheduler.idle());
  EXPECT_TRUE(desk.scheduler.plan().empty());
}

TEST(Scheduler, a_step_may_be_settled_one_late) {
  Desk desk(100, 32, 32);
  desk.ask(1, 10, 3);
  const Step first = desk.scheduler.plan();
  const Step second = desk.scheduler.plan();
  EXPECT_EQ(shape(first), (Shape{{1, 10}}));
  EXPECT_EQ(shape(second), (Shape{{1, 1}}));
  desk.settle(first);
  const Step third = desk.scheduler.plan();
  EXPECT_EQ(shape(third), (Shape{{1, 1}}));
  desk.settle(second);
  EXPECT_TRUE(desk.scheduler.plan().empty());  // its last token is on its way
  EXPECT_FALSE(desk.scheduler.idle());
  desk.settle(third);
  EXPECT_EQ(desk.ended[1], std::vector{Finish::length});
  EXPECT_EQ(desk.told[1], 3);
  EXPECT_TRUE(desk.scheduler.idle());
}

TEST(Scheduler, the_surplus_token_after_a_late_end_is_dropped) {
  Desk desk(100, 32, 32);
  desk.ask(1, 10, 50);
  const Step first = desk.scheduler.plan();
  const Step second = desk.scheduler.plan();
  desk.settle(first, Desk::kStop);
  EXPECT_EQ(desk.ended[1], std::vector{Finish::stop});
  EXPECT_EQ(desk.held(Pool::full), 0);
  EXPECT_FALSE(desk.scheduler.idle());  // the second step still points to it
  desk.settle(second);
  EXPECT_EQ(desk.told[1], 1);
  EXPECT_TRUE(desk.scheduler.idle());
}

TEST(Scheduler, a_late_result_of_one_that_gave_way_is_dropped) {
  Desk desk(1000, 5, 16);
  desk.ask(1, 128);
  desk.ask(2, 128);
  const Step first = desk.scheduler.plan();
  const Step second = desk.scheduler.plan();
  EXPECT_EQ(shape(second), (Shape{{1, 1}}));
  desk.settle(first);
  EXPECT_EQ(desk.told[1], 1);
  EXPECT_EQ(desk.told[2], 0);
  desk.settle(second);
}

TEST(SchedulerDeath, what_can_never_fit_was_to_be_refused_before) {
  Desk desk(100, 4, 16);
  Request request;
  request.prompt = {1, 2, 3};
  EXPECT_DEATH(desk.scheduler.add(make_sequence(request, 1, 0, 0, 5 * kPageSize)), "can never fit");
}

// ---- random schedules

// What a device does, in a few lines: token ids are written into pages, and each sampled token is a
// hash of all that its position sees there. What a step draws is known here one step before the
// scheduler hears of it.
class FakeDevice {
 public:
  FakeDevice(int full, int sliding)
      : cells_{std::vector<int>(size_t(full * kPageSize), -1),
               std::vector<int>(size_t(sliding * kPageSize), -1)} {}

  std::vector<Sampled> run(const Step& step) {
    std::vector<Sampled> results;
    for (const Slice& slice : step) {
      const Sequence& sequence = *slice.sequence;
      for (int i = slice.first; i < slice.first + slice.count; ++i)
        for (const Pool pool : {Pool::full, Pool::sliding})
          cell(sequence, pool, i) = i < int(sequence.tokens.size())
                                        ? sequence.tokens[size_t(i)]
                                        : newest_.at(size_t(slice.newest));
    }
    std::vector<int> drawn;
    for (const Slice& slice : step) {
      if (!slice.samples) continue;
      const Sequence& sequence = *slice.sequence;
      const int position = slice.first + slice.count - 1;
      uint64_t all = 0, window = 0;
      for (int i = 0; i <= position; ++i)
        all = testing::hash_token(all, i, cell(sequence, Pool::full, i));
      for (int i = std::max(0, position - testing::kFakeWindow + 1); i <= position; ++i)
        window = testing::hash_token(window, i, cell(sequence, Pool::sliding, i));
      drawn.push_back(testing::fake_choice(all, window));
      results.push_back({.token = drawn.back(), .top = {}});
    }
    if (!drawn.empty()) newest_ = drawn;
    return results;
  }

 private:
  int& cell(const Sequence& sequence, Pool pool, int position) {
    const int page = sequence.pages[int(pool)].at(size_t(position / kPageSize));
    return cells_[int(pool)].at(size_t(page * kPageSize + position % kPageSize));
  }
  std::vector<int> cells_[kPools];
  std::vector<int> newest_;
};

struct Covered {
  int64_t preemptions = 0, hits = 0, cancels = 0, stops = 0, late_drops = 0;
};

// Requests come and go at random, over pools, chunks and counts drawn at random too.
class RandomSchedule {
 public:
  explicit RandomSchedule(uint64_t seed)
      : seed_(seed),
        full_(10 + below(40)),
        sliding_(3 + below(30)),
        context_(std::min(full_ * kPageSize, 900)),
        late_(below(2) == 0),
        scheduler_({.tokens_per_step = 1 + below(below(2) == 0 ? 20 : 400),
                    .seqs = 1 + below(6),
                    .window = testing::kFakeWindow,
                    .pages = {full_, sliding_}}),
        device_(full_, sliding_) {}

  void run(int requests, Covered& covered) {
    int stuck = 0;
    for (int id = 0; id < requests || !scheduler_.idle() || under_way_;) {
      if (id < requests && below(4) == 0) ask(id++);
      if (id > 0 && below(40) == 0) {
        const int victim = below(id);
        asked_[victim].cancelled = true;
        scheduler_.cancel(uint64_t(victim), tell_);
      }
      Step step = scheduler_.plan();
      scheduler_.check();
      stuck = step.empty() && !under_way_ && !scheduler_.idle() ? stuck + 1 : 0;
      ASSERT_LT(stuck, 2) << "nothing runs, yet somebody waits";
      std::unique_ptr<Flight> launched;
      if (!step.empty()) {
        std::vector<Sampled> results = device_.run(step);
        launched.reset(new Flight{std::move(step), std::move(results)});
      }
      if (under_way_) settle(covered);
      under_way_ = std::move(launched);
      if (!late_ && under_way_) settle(covered);
    }
    compare(covered);
    for (const Pool pool : {Pool::full, Pool::sliding}) EXPECT_EQ(scheduler_.pool(pool).held(), 0);
    covered.preemptions += scheduler_.counts().preemptions;
    covered.hits += scheduler_.counts().prefix_hits;
  }

 private:
  struct Flight {
    Step step;
    std::vector<Sampled> results;
  };
  struct Asked {
    std::vector<int> prompt;
    int max_tokens = 0;
    int choices = 1;
    bool cancelled = false;
    std::map<int, std::vector<int>> answers;  // by choice
    std::map<int, Finish> ends;
  };
  static constexpr int kStop = 3;

  int below(int n) { return int(random_bits(seed_, draws_++) % uint64_t(n)); }

  void ask(int id) {
    Request request;
    // Some of one text, then tokens of its own: prompts share beginnings of all lengths.
    const int shared = below(2) * below(600), own = 1 + below(200);
    for (int i = 0; i < shared; ++i) request.prompt.push_back(i % testing::kFakeVocab);
    for (int i = 0; i < own; ++i) request.prompt.push_back(below(testing::kFakeVocab));
    if (int(request.prompt.size()) >= context_) request.prompt.resize(size_t(context_) - 1);
    request.max_tokens = 1 + below(100);
    request.choices = 1 + below(3) * below(2);
    request.priority = below(2);
    request.stop_tokens = {kStop};
    auto first = make_sequence(request, uint64_t(id), 0, 0, context_);
    for (int choice = 1; choice < request.choices; ++choice)
      first->siblings.push_back(make_sequence(request, uint64_t(id), choice, 0, context_));
    Asked& asked = asked_[id];
    asked.prompt = request.prompt;
    asked.max_tokens = first->max_length - first->prompt;
    asked.choices = request.choices;
    scheduler_.add(std::move(first));
  }

  void settle(Covered& covered) {
    for (const Slice& slice : under_way_->step)
      covered.late_drops += slice.samples && slice.epoch != slice.sequence->epoch;
    scheduler_.settle(under_way_->step, under_way_->results, tell_);
    scheduler_.check();
    under_way_.reset();
  }

  void compare(Covered& covered) const {
    for (const auto& [id, asked] : asked_) {
      std::vector<int> whole = testing::fake_answer(asked.prompt, asked.max_tokens);
      const auto stop = std::find(whole.begin(), whole.end(), kStop);
      const Finish end = stop == whole.end() ? Finish::length : Finish::stop;
      if (end == Finish::stop) whole.erase(stop + 1, whole.end());
      ASSERT_EQ(int(asked.ends.size()), asked.choices);
      for (const auto& [choice, finish] : asked.ends) {
        SCOPED_TRACE(strf("seed %d, request %d, choice %d", int(seed_), id, choice));
        const auto found = asked.answers.find(choice);
        const auto got = found == asked.answers.end() ? std::vector<int>() : found->second;
        std::vector<int> want = whole;
        if (finish == Finish::cancelled) {
          EXPECT_TRUE(asked.cancelled);
          want.resize(std::min(want.size(), got.size()));
        } else {
          EXPECT_EQ(finish, end);
        }
        EXPECT_EQ(got, want);
        covered.cancels += finish == Finish::cancelled;
        covered.stops += finish == Finish::stop;
      }
    }
  }

  uint64_t seed_, draws_ = 0;
  int full_, sliding_, context_;
  bool late_;  // each step is settled when the next has been launched
  Scheduler scheduler_;
  FakeDevice device_;
  std::unique_ptr<Flight> under_way_;
  std::map<int, Asked> asked_;
  Scheduler::Tell tell_ = [this](const Sequence& sequence, Sampled* sampled) {
    Asked& asked = asked_[int(sequence.request)];
    EXPECT_FALSE(asked.ends.count(sequence.choice)) << "told after the end";
    if (sampled) asked.answers[sequence.choice].push_back(sampled->token);
    if (sequence.finish != Finish::none) asked.ends[sequence.choice] = sequence.finish;
  };
};

TEST(Scheduler, any_schedule_gives_the_tokens_of_one_request_alone) {
  Covered covered;
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) RandomSchedule(seed).run(25, covered);
  EXPECT_GT(covered.preemptions, 100);
  EXPECT_GT(covered.hits, 10000);
  EXPECT_GT(covered.cancels, 30);
  EXPECT_GT(covered.stops, 100);
  EXPECT_GT(covered.late_drops, 30);
}

}  // namespace
}  // namespace rose
