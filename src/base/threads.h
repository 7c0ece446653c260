// A pool of threads for the loops of one forward pass: fork and join in about a microsecond. Passed
// by reference, never global; one pool belongs to one caller at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace rose {

class ThreadPool {
 public:
  // `threads` counts the caller: ThreadPool(1) starts none. 0: one for each core of this process.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Runs body(thread) on every thread, the caller as thread 0, and returns when all are done.
  template <class Body>
  void run(const Body& body) {
    dispatch([](const void* context, int thread) { (*static_cast<const Body*>(context))(thread); },
             &body);
  }

  // Splits [0, count) into one contiguous part a thread, each a multiple of `grain` but the last:
  // body(begin, end). The split is fixed by count, grain and threads, so it is the same every time.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    const int64_t units = (count + grain - 1) / grain;
    if (units <= 1 || threads_ == 1) {
      if (count > 0) body(int64_t(0), count);
      return;
    }
    run([&](int thread) {
      const int64_t begin = units * thread / threads_ * grain;
      const int64_t end = units * (thread + 1) / threads_ * grain;
      if (begin < end) body(begin, end < count ? end : count);
    });
  }

 private:
  using Call = void (*)(const void* context, int thread);
  void dispatch(Call call, const void* context);

  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

// How many cores this process may use (its affinity mask, and a container's CPU quota).
int available_cores();

}  // namespace rose
