// How near the CPU backend's loops come to what this computer can do: reading memory (few tokens) and
// multiplying (many). The ceilings are measured by the same program: plain_read and multiply_peak.
// Weights are of gpt-oss-20b's sizes, over 1 GB of them in turn, so that no cache holds them.
//
//   rose_bench --benchmark_filter=matmul --benchmark_repetitions=5
//
// GB/s counts packed weights once a call, GOPS two operations a product. Each line's time is that of one
// call by all threads; compare the best of the repetitions, since other work only adds to it.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cstring>
#include <memory>

#include "base/rng.h"
#include "device/arena.h"
#include "device/buffer.h"
#include "kernels/attend/attend.h"
#include "kernels/experts/experts.h"
#include "kernels/matmul/matmul.h"
#include "kernels/ops.h"
#include "kernels/pack/pack.h"
#include "tensor/bf16.h"

namespace rose {
namespace {

constexpr int64_t kAllWeights = int64_t(5) << 28;  // bytes: several times any cache

// One pool and stream for all; an op's operands in plain memory.
struct Machine {
  ThreadPool threads;
  Arena scratch{host_device()};
  Stream stream{.device = &host_device(), .threads = &threads, .scratch = &scratch};
  std::vector<Buffer> held;

  Tensor hold(DType dtype, std::initializer_list<int64_t> dims) {
    Tensor tensor(nullptr, dtype, dims);
    held.push_back(*Buffer::allocate(host_device(), tensor.bytes()));
    tensor.data = held.back().data();
    std::memset(tensor.data, 0, size_t(tensor.bytes()));
    return tensor;
  }
  Tensor random(DType dtype, std::initializer_list<int64_t> dims) {
    const Tensor tensor = hold(dtype, dims);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const float value = random_unit(1, uint64_t(i)) - 0.5f;
      if (dtype == DType::bf16)
        tensor.as<bf16>()[i] = to_bf16(value);
      else
        tensor.as<float>()[i] = value;
    }
    return tensor;
  }
};

// Copies of one random matrix, as many as make kAllWeights.
struct Weights {
  Machine machine;
  std::vector<Weight> all;

  Weights(const Ops& ops, Format format, int experts, int rows, int columns) {
    const int64_t count = int64_t(rows) * columns;
    const bool mxfp4 = format == Format::mxfp4 || format == Format::mxfp4_q8;
    std::vector<uint8_t> values(size_t(mxfp4 ? count / 2 : count * 2));
    for (size_t i = 0; i < values.size(); ++i) values[i] = uint8_t(random_bits(2, i));
    if (!mxfp4)  // exponents near 1
      for (size_t i = 1; i < values.size(); i += 2) values[i] = (values[i] & 0x81) | 0x3e;
    const std::vector<uint8_t> scales(size_t(count / 32), 120);
    const RawWeight raw = {.kind = mxfp4 ? RawWeight::Kind::mxfp4 : RawWeight::Kind::bf16,
                           .rows = rows,
                           .columns = columns,
                           .values = values.data(),
                           .scales = scales.data()};
    const int64_t bytes = ops.weight_bytes(format, 1, rows, columns);
    const Tensor one = machine.hold(DType::u8, {bytes});
    ops.pack(machine.stream, {.to = {format, 1, rows, columns, one.data}, .from = raw});
    for (int64_t taken = 0; taken < kAllWeights; taken += bytes * experts) {
      const Tensor copy = machine.hold(DType::u8, {experts, bytes});
      for (int e = 0; e < experts; ++e) std::memcpy(copy.rows(e, 1).data, one.data, size_t(bytes));
      all.push_back({format, experts, rows, columns, copy.data});
    }
  }

  const Weight& next() { return all[turn_++ % all.size()]; }

 private:
  size_t turn_ = 0;
};

// The library calls a benchmark many times: what the last one used is kept for the next.
template <int kPlace>
Weights& kept(const Ops& ops, Format format, int experts, int rows, int columns) {
  static std::string name;
  static std::unique_ptr<Weights> weights;
  const std::string wanted =
      strf("%s %s %d %d %d", ops.name, name_of(format), experts, rows, columns);
  if (name != wanted) {
    weights.reset();
    weights = std::make_unique<Weights>(ops, format, experts, rows, columns);
    name = wanted;
  }
  return *weights;
}

void rates(benchmark::State& state, double bytes, double operations) {
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GOPS"] = Counter(operations * 1e-9, Counter::kIsIterationInvariantRate);
}

[[gnu::target("avx2")]] int64_t read_all(const uint8_t* memory, int64_t bytes) {
  __m256i sum[8] = {};
  for (int64_t at = 0; at + 256 <= bytes; at += 256)
    for (int i = 0; i < 8; ++i)
      sum[i] = _mm256_xor_si256(
          sum[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(memory + at + 32 * i)));
  for (int i = 1; i < 8; ++i) sum[0] = _mm256_xor_si256(sum[0], sum[i]);
  return _mm256_extract_epi64(sum[0], 0);
}

void plain_read(benchmark::State& state) {
  Machine machine;
  const Tensor memory = machine.hold(DType::u8, {kAllWeights});
  for (auto _ : state)
    machine.threads.run([&](int thread) {
      const int64_t part = kAllWeights / machine.threads.threads() / 256 * 256;
      benchmark::DoNotOptimize(read_all(memory.as<uint8_t>() + thread * part, part));
    });
  rates(state, double(kAllWeights), 0);
}

// vpdpbusd on registers alone.
[[gnu::target("avx512f,avx512vnni")]] void multiply(int64_t times) {
  __m512i sum[12], x = _mm512_set1_epi8(3);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) sum[i] = _mm512_set1_epi32(i);
  for (int64_t time = 0; time < times; ++time) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], x, x);
    asm volatile("" : "+v"(x));
  }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) asm volatile("" : "+v"(sum[i]));
}

void multiply_peak(benchmark::State& state) {
  if (!__builtin_cpu_supports("avx512vnni")) return state.SkipWithError("no avx512-vnni here");
  Machine machine;
  constexpr int64_t kTimes = 1 << 20;
  for (auto _ : state) machine.threads.run([&](int) { multiply(kTimes); });
  rates(state, 0, double(machine.threads.threads()) * 12 * 128 * kTimes);
}

void matmul(benchmark::State& state, const Ops* ops, Format format, int rows, int columns) {
  Machine machine;
  const int tokens = int(state.range(0));
  Weights& weights = kept<0>(*ops, format, 1, rows, columns);
  const Tensor x = machine.random(DType::f32, {tokens, columns});
  const Tensor y = machine.hold(DType::f32, {tokens, rows});
  for (auto _ : state) {
    machine.scratch.reset();
    ops->matmul(machine.stream, {.y = y, .x = x, .weight = weights.next()});
  }
  rates(state, double(ops->weight_bytes(format, 1, rows, columns)), 2.0 * tokens * rows * columns);
}

// 32 experts, four a token; tokens spread over them evenly.
void experts(benchmark::State& state, const Ops* ops, Format format) {
  constexpr int kExperts = 32, kTopK = 4, kHidden = 2880, kFfn = 2880;
  Machine machine;
  const int tokens = int(state.range(0));
  Weights& up = kept<0>(*ops, format, kExperts, 2 * kFfn, kHidden);
  Weights& down = kept<1>(*ops, format, kExperts, kHidden, kFfn);
  const Tensor chosen = machine.hold(DType::i32, {tokens, kTopK});
  Experts op = {.y = machine.hold(DType::f32, {tokens, kTopK, kHidden}),
                .x = machine.random(DType::f32, {tokens, kHidden}),
                .experts = chosen,
                .gate_up = up.next(),
                .gate_up_bias = machine.random(DType::f32, {kExperts, 2 * kFfn}),
                .down = down.next(),
                .down_bias = machine.random(DType::f32, {kExperts, kHidden})};
  int first = 0;
  for (auto _ : state) {
    for (int i = 0; i < tokens * kTopK; ++i) chosen.as<int32_t>()[i] = (first + i) % kExperts;
    first += 4;
    op.gate_up = up.next();
    op.down = down.next();
    machine.scratch.reset();
    ops->experts(machine.stream, op);
  }
  const int read = std::min(kExperts, tokens * kTopK);
  rates(state,
        double(read) * double(ops->weight_bytes(format, 1, 2 * kFfn, kHidden) +
                              ops->weight_bytes(format, 1, kHidden, kFfn)),
        2.0 * tokens * kTopK * 3 * kFfn * kHidden);
}

// One sequence: the last `tokens` of a context, 64 heads on 8 kv heads of 64.
void attend(benchmark::State& state, const Ops* ops) {
  constexpr int kHeads = 64, kKvHeads = 8, kDim = 64;
  Machine machine;
  const int tokens = int(state.range(0)), context = int(state.range(1));
  const int pages = (context + kPageSize - 1) / kPageSize;
  Batch batch;
  batch.tokens = tokens;
  batch.seqs = 1;
  batch.positions = machine.hold(DType::i32, {tokens});
  batch.sequence = machine.hold(DType::i32, {tokens});
  for (int t = 0; t < tokens; ++t) batch.positions.as<int32_t>()[t] = context - tokens + t;
  for (Tensor& table : batch.pages) {
    table = machine.hold(DType::i32, {1, pages});
    for (int p = 0; p < pages; ++p) table.as<int32_t>()[p] = p;
  }
  const Attend op = {
      .y = machine.hold(DType::f32, {tokens, kHeads * kDim}),
      .qkv = machine.random(DType::f32, {tokens, (kHeads + 2 * kKvHeads) * kDim}),
      .kv = {.pages = machine.random(DType::bf16, {pages, kKvHeads, 2, kPageSize * kDim})},
      .batch = &batch,
      .sinks = machine.random(DType::f32, {kHeads}),
      .heads = kHeads,
      .head_dim = kDim,
      .scale = 0.125f};
  for (auto _ : state) {
    machine.scratch.reset();
    ops->attend(machine.stream, op);
  }
  rates(state, double(op.kv.pages.bytes()), 4.0 * tokens * (context - tokens / 2) * kHeads * kDim);
}

void add_all() {
  const auto unit = benchmark::kMicrosecond;
  benchmark::RegisterBenchmark("plain_read", plain_read)->UseRealTime()->Unit(unit);
  benchmark::RegisterBenchmark("multiply_peak", multiply_peak)->UseRealTime()->Unit(unit);
  for (const Ops* ops : available_ops()) {
    if (ops == &reference_ops() || ops->device != &host_device()) continue;
    const auto add = [&](const std::string& name, auto function) {
      return benchmark::RegisterBenchmark((name + "/" + ops->name).c_str(), function)
          ->UseRealTime()
          ->Unit(unit);
    };
    for (const Format format : {Format::bf16, Format::q8, Format::mxfp4, Format::mxfp4_q8})
      add(std::string("matmul 5120x2880 ") + name_of(format),
          [=](benchmark::State& state) { matmul(state, ops, format, 5120, 2880); })
          ->Arg(1)
          ->Arg(8)
          ->Arg(64)
          ->Arg(512);
    for (const Format format : {Format::mxfp4, Format::mxfp4_q8})
      add(std::string("experts ") + name_of(format),
          [=](benchmark::State& state) { experts(state, ops, format); })
          ->Arg(1)
          ->Arg(8)
          ->Arg(64)
          ->Arg(512);
    add("attend", [=](benchmark::State& state) { attend(state, ops); })
        ->Args({1, 512})
        ->Args({1, 8192})
        ->Args({512, 512})
        ->Args({512, 8192});
  }
}

const bool added = (add_all(), true);

}  // namespace
}  // namespace rose
