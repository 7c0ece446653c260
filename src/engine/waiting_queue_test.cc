#include "engine/waiting_queue.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

class WaitingQueueTest : public ::testing::Test {
 protected:
  Sequence& add(uint64_t tenant, int priority = 0, double share = 1) {
    auto sequence = std::make_unique<Sequence>();
    sequence->tenant = tenant;
    sequence->priority = priority;
    sequence->share = share;
    sequence->arrival = arrivals_++;
    Sequence& added = *sequence;
    queue_.push(std::move(sequence));
    return added;
  }
  uint64_t pop() { return queue_.pop()->arrival; }

  WaitingQueue queue_;
  uint64_t arrivals_ = 0;
};

TEST_F(WaitingQueueTest, one_tenant_is_served_by_priority_then_arrival) {
  add(1);
  add(1, 5);
  add(1, -2);
  add(1);
  EXPECT_EQ(queue_.front().arrival, 2u);
  for (const uint64_t expected : {2u, 0u, 3u, 1u}) EXPECT_EQ(pop(), expected);
  EXPECT_TRUE(queue_.empty());
}

// A tenant with a hundred requests and one with a few: the few do not wait behind the hundred.
TEST_F(WaitingQueueTest, tenants_take_turns_by_the_tokens_they_got) {
  for (int i = 0; i < 100; ++i) add(1);
  for (int i = 0; i < 3; ++i) add(2);
  std::vector<uint64_t> order;
  for (int i = 0; i < 6; ++i) {
    const auto sequence = queue_.pop();
    queue_.charge(*sequence, 100, 50);
    order.push_back(sequence->tenant);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 1, 2, 1, 2}));
}

TEST_F(WaitingQueueTest, a_larger_share_gets_more) {
  for (int i = 0; i < 40; ++i) add(1, 0, 3), add(2, 0, 1);
  int first = 0;
  for (int i = 0; i < 40; ++i) {
    const auto sequence = queue_.pop();
    queue_.charge(*sequence, 10, 5);
    first += sequence->tenant == 1;
  }
  EXPECT_EQ(first, 30);
}

TEST_F(WaitingQueueTest, tokens_drawn_count_twice_those_of_a_prompt) {
  for (int i = 0; i < 30; ++i) add(1), add(2);
  int first = 0;
  for (int i = 0; i < 30; ++i) {
    const auto sequence = queue_.pop();
    queue_.charge(*sequence, sequence->tenant == 1 ? 40 : 0, sequence->tenant == 2 ? 40 : 0);
    first += sequence->tenant == 1;
  }
  EXPECT_EQ(first, 20);
}

TEST_F(WaitingQueueTest, a_pause_earns_no_credit) {
  Sequence& running = add(1);
  const auto popped = queue_.pop();
  queue_.charge(running, 0, 100000);  // alone, for a long time
  for (int i = 0; i < 10; ++i) add(1), add(2);
  std::vector<uint64_t> order;
  for (int i = 0; i < 4; ++i) {
    const auto sequence = queue_.pop();
    queue_.charge(*sequence, 10, 0);
    order.push_back(sequence->tenant);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 1, 2})) << "2 must not get ten in a row";
}

TEST_F(WaitingQueueTest, nor_does_it_when_nobody_waits) {
  Sequence& running = add(1);
  const auto popped = queue_.pop();
  queue_.charge(running, 0, 100000);
  for (int i = 0; i < 10; ++i) add(2);  // the first to come after the pause
  for (int i = 0; i < 10; ++i) add(1);
  std::vector<uint64_t> order;
  for (int i = 0; i < 4; ++i) {
    const auto sequence = queue_.pop();
    queue_.charge(*sequence, 10, 0);
    order.push_back(sequence->tenant);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 1, 2, 1}));
}

TEST_F(WaitingQueueTest, who_gave_way_comes_before_who_never_ran) {
  add(2);
  Sequence& once = add(1);
  queue_.charge(once, 1000, 0);
  once.admitted = true;
  EXPECT_EQ(pop(), 1u);
}

TEST_F(WaitingQueueTest, those_that_ended_are_taken_out) {
  add(1);
  add(1).finish = Finish::cancelled;
  add(2, 3).finish = Finish::cancelled;
  add(2, 3).finish = Finish::cancelled;  // the whole line ends
  EXPECT_EQ(queue_.take_ended().size(), 3u);
  int left = 0;
  queue_.each([&](Sequence&) { ++left; });
  EXPECT_EQ(left, 1);
  EXPECT_EQ(pop(), 0u);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace rose
