#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/check.h"

namespace rose {

namespace {

// A forward pass is hundreds of short loops with nearly nothing between them: waking a sleeping
// thread (tens of microseconds) would cost more than many of them take. So a thread spins first,
// about 50 us, and sleeps only when the pass is over. With more threads than cores spinning would
// keep the one that has work from running.
constexpr int kSpins = 1500;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Returns when `value` is no longer `old`.
void wait_while(const std::atomic<int>& value, int old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  value.wait(old, std::memory_order_acquire);
}

// The cores that the control group's quota allows, or 0 where there is none.
int quota_cores() {
  long long quota = -1, period = -1;
  if (FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {  // version 2: "200000 100000"
    if (std::fscanf(file, "%lld %lld", &quota, &period) != 2) quota = -1;
    std::fclose(file);
  } else {
    const auto read = [](const char* path, long long& value) {
      if (FILE* file = std::fopen(path, "re")) {
        if (std::fscanf(file, "%lld", &value) != 1) value = -1;
        std::fclose(file);
      }
    };
    read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota);
    read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period);
  }
  return quota > 0 && period > 0 ? int(std::max(1LL, (quota + period - 1) / period)) : 0;
}

}  // namespace

struct ThreadPool::State {
  alignas(64) std::atomic<int> call_number{0};  // a change starts the workers
  alignas(64) std::atomic<int> unfinished{0};   // workers that still run the current call
  alignas(64) std::atomic<bool> busy{false};
  Call call = nullptr;  // null: end
  const void* context = nullptr;
  int spins = 0;
  std::vector<std::thread> workers;

  void work(int thread) {
    int seen = 0;
    while (true) {
      wait_while(call_number, seen, spins);
      ++seen;
      if (!call) return;
      call(context, thread);
      if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished.notify_one();
    }
  }

  void start(Call new_call, const void* new_context) {
    call = new_call;
    context = new_context;
    unfinished.store(int(workers.size()), std::memory_order_relaxed);
    call_number.fetch_add(1, std::memory_order_release);
    call_number.notify_all();
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(threads > 0 ? threads : available_cores()), state_(std::make_unique<State>()) {
  state_->spins = threads_ <= available_cores() ? kSpins : 0;
  for (int thread = 1; thread < threads_; ++thread)
    state_->workers.emplace_back([state = state_.get(), thread] { state->work(thread); });
}

ThreadPool::~ThreadPool() {
  state_->start(nullptr, nullptr);
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::dispatch(Call call, const void* context) {
  ROSE_CHECK(!state_->busy.exchange(true, std::memory_order_acquire),
             "threads: the pool is running another loop; it serves one caller at a time");
  if (threads_ > 1) state_->start(call, context);
  call(context, 0);
  while (const int left = state_->unfinished.load(std::memory_order_acquire))
    wait_while(state_->unfinished, left, state_->spins);
  state_->busy.store(false, std::memory_order_release);
}

int available_cores() {
  int cores = int(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  if (const int quota = quota_cores()) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

}  // namespace rose
