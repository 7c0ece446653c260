// The engine with many who ask: queues, tenants, cancelling, draining, threads.
#include "engine/engine_rig.h"

#include <atomic>
#include <thread>

namespace rose {
namespace {

using namespace testing;

TEST_P(EngineOn, a_full_queue_is_busy) {
  FakeHost host(*GetParam());
  Gate gate(host);
  EngineOptions options = small();
  options.max_seqs = 1;
  options.max_waiting = 2;
  const auto engine = start(host, options);
  Listener running, waiting[2];
  ASSERT_TRUE(engine->submit(greedy(prompt_of(10, 0), 5), running.sink()));
  gate.let_go(late() ? 2 : 1);
  running.wait_for_tokens(1);
  for (Listener& listener : waiting)
    ASSERT_TRUE(engine->submit(greedy(prompt_of(10, 1), 5), listener.sink()));
  const auto refused = engine->submit(greedy(prompt_of(10, 2), 5), [](const Update&) { FAIL(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::busy);
  EXPECT_EQ(refused.error().message, "the queue is full: 2 requests wait");
  EXPECT_EQ(engine->stats().waiting, 2);
  gate.let_go(Gate::kAll);
  running.wait();
  for (Listener& listener : waiting) listener.wait();
  EXPECT_TRUE(engine->submit(greedy(prompt_of(10, 2), 1), [](const Update&) {}));
}

TEST_P(EngineOn, the_queue_is_bound_in_tokens_too) {
  FakeHost host(*GetParam());
  Gate gate(host);
  EngineOptions options = small();
  options.max_seqs = 1;
  options.max_waiting_tokens = 100;
  const auto engine = start(host, options);
  Listener running, large, small;
  ASSERT_TRUE(engine->submit(greedy(prompt_of(10, 0), 5), running.sink()));
  gate.let_go(late() ? 2 : 1);
  running.wait_for_tokens(1);
  ASSERT_TRUE(engine->submit(greedy(prompt_of(500, 1), 5), large.sink())) << "alone it fits";
  const auto refused = engine->submit(greedy(prompt_of(10, 2), 5), [](const Update&) { FAIL(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::busy);
  EXPECT_NE(refused.error().message.find("500 tokens wait"), std::string::npos);
  EXPECT_EQ(engine->stats().waiting_tokens, 500);
  gate.let_go(Gate::kAll);
  large.wait();
  ASSERT_TRUE(engine->submit(greedy(prompt_of(10, 2), 5), small.sink()));
  small.wait();
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.waiting_tokens, 0);
  int64_t steps = 0;
  for (const int64_t count : stats.steps_by_tokens) steps += count;
  EXPECT_EQ(steps, stats.steps);
  EXPECT_EQ(stats.step_tokens, 520 + 3 * 4) << "prompts, and each token but the last of a request";
}

// One tenant has filled the queue before another comes with a single request.
TEST_P(EngineOn, a_tenant_with_many_requests_does_not_keep_others_waiting) {
  FakeHost host(*GetParam());
  Gate gate(host);
  EngineOptions options = small();
  options.max_seqs = 1;
  const auto engine = start(host, options);
  std::mutex mutex;
  std::vector<uint64_t> ended;
  const auto ask = [&](uint64_t tenant) {
    Request request = greedy(prompt_of(10, int(tenant)), 5);
    request.tenant = tenant;
    ASSERT_TRUE(engine->submit(std::move(request), [&, tenant](const Update& update) {
      const std::lock_guard lock(mutex);
      if (update.finish != Finish::none) ended.push_back(tenant);
    }));
  };
  for (int i = 0; i < 20; ++i) ask(1);
  ask(2);
  gate.let_go(Gate::kAll);
  engine->drain();
  const auto second = std::find(ended.begin(), ended.end(), 2u) - ended.begin();
  EXPECT_LE(second, 2);
  EXPECT_EQ(ended.size(), 21u);
}

TEST_P(EngineOn, a_cancelled_request_ends_within_a_step) {
  FakeHost host(*GetParam());
  Gate gate(host);
  const auto engine = start(host, small());
  Listener listener(2);
  Request request = greedy(prompt_of(70, 1), 900);
  request.choices = 2;
  const RequestId id = *engine->submit(request, listener.sink());
  gate.let_go(5);
  gate.wait_for_step(6);  // five steps are done, the sixth is held
  engine->cancel(id);
  engine->cancel(id);
  engine->cancel(id + 1000);
  gate.let_go(1);
  listener.wait();
  EXPECT_EQ(listener.answers[0].finish, Finish::cancelled);
  const int told = late() ? 5 : 6;
  EXPECT_EQ(listener.answers[0].tokens, fake_answer(prompt_of(70, 1), told));
  EXPECT_EQ(listener.answers[1].finish, Finish::cancelled);
  EXPECT_EQ(listener.answers[1].tokens, fake_answer(prompt_of(70, 1), told - 1));
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.finished[int(Finish::cancelled)], 2);
  EXPECT_EQ(stats.pages_free[0] + stats.pages_cached[0], stats.pages[0]);
}

TEST_P(EngineOn, a_drain_lets_everything_end) {
  FakeHost host(*GetParam());
  Gate gate(host);
  const auto engine = start(host, small());
  Listener listeners[6];
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(engine->submit(greedy(prompt_of(100, i), 20), listeners[i].sink()));
  std::thread drain([&] { engine->drain(); });
  Result<RequestId> late;
  do {  // until the drain has begun
    late = engine->submit(greedy({1}, 1), [](const Update&) {});
    std::this_thread::yield();
  } while (late || late.error().message != "the server is shutting down");
  EXPECT_EQ(late.error().kind, ErrorKind::busy);
  gate.let_go(Gate::kAll);
  drain.join();
  for (Listener& listener : listeners) EXPECT_EQ(listener.answers[0].finish, Finish::length);
  engine->drain();  // again: it is idle
}

TEST_P(EngineOn, the_end_of_the_engine_cancels_what_runs_and_waits) {
  FakeHost host(*GetParam());
  Gate gate(host);
  EngineOptions options = small();
  options.max_seqs = 2;
  auto engine = start(host, options);
  std::vector<Listener> listeners(5);
  for (size_t i = 0; i < 5; ++i)
    ASSERT_TRUE(engine->submit(greedy(prompt_of(30, int(i)), 800), listeners[i].sink()));
  gate.let_go(3);
  gate.wait_for_step(4);
  std::thread end([&] { engine.reset(); });
  gate.let_go(Gate::kAll);
  end.join();
  for (Listener& listener : listeners)
    EXPECT_NE(listener.answers[0].finish, Finish::none);  // cancelled, or done before
}

TEST_P(EngineOn, a_sink_may_submit_and_cancel) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  Listener second;
  std::atomic<RequestId> first_id = 0;
  Listener first;
  const Sink listens = first.sink();
  bool submitted = false;
  const auto id = engine->submit(greedy(prompt_of(10, 1), 900), [&](const Update& update) {
    if (!submitted) {
      EXPECT_TRUE(engine->submit(greedy(prompt_of(10, 2), 3), second.sink()));
    }
    submitted = true;
    if (first_id != 0) engine->cancel(first_id);
    listens(update);
  });
  ASSERT_TRUE(id);
  first_id = *id;
  first.wait();
  second.wait();
  EXPECT_EQ(second.answers[0].tokens, fake_answer(prompt_of(10, 2), 3));
}

TEST_P(EngineOn, many_threads_at_once) {
  FakeHost host(*GetParam());
  EngineOptions options = small();
  options.max_seqs = 5;
  options.kv_bytes = 40 * testing::fake_page_bytes();
  const auto engine = start(host, options);
  constexpr int kThreads = 4, kEach = 12;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const int seed = thread * 100 + i;
        const std::vector<int> prompt = prompt_of(20 + 37 * (seed % 9), i % 3);
        Listener listener(1 + i % 2);
        Request request = greedy(prompt, 60);
        request.choices = 1 + i % 2;
        const auto id = engine->submit(request, listener.sink());
        ASSERT_TRUE(id);
        if (i % 4 == 3) {
          listener.wait_for_tokens(size_t(i));
          engine->cancel(*id);
        }
        engine->stats();
        listener.wait();
        for (const auto& answer : listener.answers) {
          std::vector<int> want = fake_answer(prompt, 60);
          if (answer.finish == Finish::cancelled) want.resize(answer.tokens.size());
          EXPECT_EQ(answer.tokens, want);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  const EngineStats stats = engine->stats();
  int64_t ended = 0;
  for (const int64_t finished : stats.finished) ended += finished;
  EXPECT_EQ(ended, kThreads * kEach * 3 / 2);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.pages_free[0] + stats.pages_cached[0], stats.pages[0]);
  EXPECT_EQ(stats.pages_free[1] + stats.pages_cached[1], stats.pages[1]);
}

}  // namespace
}  // namespace rose
