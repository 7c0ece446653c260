// Attention of a tile of queries over the pages of their sequence, for one instruction set S
// (simd_*.h). Lanes are queries, so nothing is ever summed across lanes, and each query's sums run over
// its keys in order, page by page: the result does not depend on which queries share the tile. A key
// that a query does not see has the weight zero, which leaves its sums as they are.
#pragma once
#include "cache/kv_cache.h"
#include "kernels/cpu/rows.h"

namespace rose::cpu {
namespace {

// Rows [first, last] of a page's K or V as f32: themselves, or widened into `scratch`.
template <class S>
const float* page_rows(const AttendTile& op, const char* page, int first, int last,
                       float* scratch) {
  if (!op.bf16_pages) return reinterpret_cast<const float*>(page);
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(page);
  const int end = (last + 1) * op.head_dim;
  int i = first * op.head_dim;
  for (; i + S::kLanes <= end; i += S::kLanes) S::store(scratch + i, S::load_bf16(bits + i));
  for (; i < end; i += S::kLanes) S::store(scratch + i, load_some<S>(page, true, i, end));
  return scratch;
}

// scores[key] = scale * q . k of kRegisters registers of queries, for keys [first, last].
template <class S, int kRegisters>
void score(const AttendTile& op, const float* queries, const float* keys, int first, int last,
           float* scores) {
  constexpr int kOnce = S::kSums / kRegisters;
  const auto scale = S::set(op.scale);
  for (int key = first; key <= last; key += kOnce) {
    typename S::F sum[kOnce][kRegisters];
    const float* k[kOnce];
#pragma GCC unroll 16
    for (int i = 0; i < kOnce; ++i) {
      k[i] = keys + int64_t(key + i <= last ? key + i : last) * op.head_dim;
#pragma GCC unroll 4
      for (int r = 0; r < kRegisters; ++r) sum[i][r] = S::zero();
    }
    for (int d = 0; d < op.head_dim; ++d) {
      typename S::F q[kRegisters];
#pragma GCC unroll 4
      for (int r = 0; r < kRegisters; ++r) q[r] = S::load(queries + d * op.stride + r * S::kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kOnce; ++i) {
        const auto value = S::set(k[i][d]);
#pragma GCC unroll 4
        for (int r = 0; r < kRegisters; ++r) sum[i][r] = S::fma(q[r], value, sum[i][r]);
      }
    }
    for (int i = 0; i < kOnce && key + i <= last; ++i)
      for (int r = 0; r < kRegisters; ++r)
        S::store(scores + (r * kPageSize + key + i) * S::kLanes, S::mul(sum[i][r], scale));
  }
}

// out[d] <- out[d] * fade + sum_key p[key] v[key][d], for kOnce columns d.
template <class S, int kRegisters, int kOnce>
void add_columns(const AttendTile& op, const float* p, const float* values, int first, int last,
                 const typename S::F* fade, float* out) {
  typename S::F sum[kOnce][kRegisters];
#pragma GCC unroll 16
  for (int i = 0; i < kOnce; ++i)
#pragma GCC unroll 4
    for (int r = 0; r < kRegisters; ++r)
      sum[i][r] = S::mul(S::load(out + i * op.stride + r * S::kLanes), fade[r]);
  for (int key = first; key <= last; ++key) {
    typename S::F weight[kRegisters];
#pragma GCC unroll 4
    for (int r = 0; r < kRegisters; ++r) weight[r] = S::load(p + (r * kPageSize + key) * S::kLanes);
    const float* v = values + int64_t(key) * op.head_dim;
#pragma GCC unroll 16
    for (int i = 0; i < kOnce; ++i) {
      const auto value = S::set(v[i]);
#pragma GCC unroll 4
      for (int r = 0; r < kRegisters; ++r) sum[i][r] = S::fma(weight[r], value, sum[i][r]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kOnce; ++i)
#pragma GCC unroll 4
    for (int r = 0; r < kRegisters; ++r) S::store(out + i * op.stride + r * S::kLanes, sum[i][r]);
}

// The running state of one register of queries, beside its columns of `out`.
template <class S>
struct Softmax {
  typename S::F most;   // largest logit so far; the sink is the first, so it is never -inf
  typename S::F total;  // sum of exp(logit - most)
};

// Hides the keys that a query does not see, turns scores into weights exp(score - most), and returns by
// how much earlier sums fade.
template <class S>
typename S::F weigh(const AttendTile& op, int lane, int start, int first, int last, float* scores,
                    Softmax<S>& state) {
  const auto from = S::iload(op.first_key + lane), to = S::iload(op.last_key + lane);
  auto most = state.most;
  for (int key = first; key <= last; ++key) {
    const auto seen =
        S::select_within(S::iset(start + key), from, to, S::load(scores + key * S::kLanes),
                         S::set(-__builtin_inff()));
    S::store(scores + key * S::kLanes, seen);
    most = S::max(most, seen);
  }
  const auto fade = exp_of<S>(S::sub(state.most, most));
  auto total = S::mul(state.total, fade);
  for (int key = first; key <= last; ++key) {
    const auto p = exp_of<S>(S::sub(S::load(scores + key * S::kLanes), most));
    S::store(scores + key * S::kLanes, p);
    total = S::add(total, p);
  }
  state = {most, total};
  return fade;
}

// One page of values for kRegisters registers of queries, from `lane` on.
template <class S, int kRegisters>
void add_values(const AttendTile& op, int lane, const float* p, const float* values, int first,
                int last, const typename S::F* fade) {
  constexpr int kOnce = S::kSums / kRegisters;
  int d = 0;
  float* out = op.out + lane;
  for (; d + kOnce <= op.head_dim; d += kOnce)
    add_columns<S, kRegisters, kOnce>(op, p, values + d, first, last, fade, out + d * op.stride);
  for (; d < op.head_dim; ++d)
    add_columns<S, kRegisters, 1>(op, p, values + d, first, last, fade, out + d * op.stride);
}

template <class S>
void attend(const AttendTile& op) {
  constexpr int kMost = kAttendLanes / S::kLanes;
  const int registers = (op.lanes + S::kLanes - 1) / S::kLanes;
  float* page_f32 = op.scratch;  // K, then V: together with the queries they would overfill L1
  float* scores = page_f32 + kPageSize * op.head_dim;

  int first_of_all = op.first_key[0], last_of_all = op.last_key[0];
  for (int lane = 1; lane < op.lanes; ++lane) {
    if (op.first_key[lane] < first_of_all) first_of_all = op.first_key[lane];
    if (op.last_key[lane] > last_of_all) last_of_all = op.last_key[lane];
  }
  Softmax<S> state[kMost];
  for (int r = 0; r < registers; ++r) {
    state[r] = {S::load(op.sinks + r * S::kLanes), S::set(1)};
    for (int d = 0; d < op.head_dim; ++d)
      S::store(op.out + d * op.stride + r * S::kLanes, S::zero());
  }

  const int64_t value_bytes = int64_t(kPageSize) * op.head_dim * (op.bf16_pages ? 2 : 4);
  for (int page = first_of_all / kPageSize; page <= last_of_all / kPageSize; ++page) {
    const int start = page * kPageSize;
    const int first = first_of_all > start ? first_of_all - start : 0;
    const int last = last_of_all - start < kPageSize ? last_of_all - start : kPageSize - 1;
    const char* at =
        static_cast<const char*>(op.page_base) + int64_t(op.pages[page]) * op.page_stride;
    const auto scores_of = [&](int r) { return scores + r * kPageSize * S::kLanes; };

    const float* keys = page_rows<S>(op, at, first, last, page_f32);
    int r = 0;
    for (; r + 2 <= registers; r += 2)
      score<S, 2>(op, op.queries + r * S::kLanes, keys, first, last, scores_of(r));
    if (r < registers) score<S, 1>(op, op.queries + r * S::kLanes, keys, first, last, scores_of(r));

    typename S::F fade[kMost];
    for (r = 0; r < registers; ++r)
      fade[r] = weigh<S>(op, r * S::kLanes, start, first, last, scores_of(r), state[r]);

    const float* values = page_rows<S>(op, at + value_bytes, first, last, page_f32);
    for (r = 0; r + 2 <= registers; r += 2)
      add_values<S, 2>(op, r * S::kLanes, scores_of(r), values, first, last, fade + r);
    if (r < registers)
      add_values<S, 1>(op, r * S::kLanes, scores_of(r), values, first, last, fade + r);
  }
  for (int r = 0; r < registers; ++r)
    for (int d = 0; d < op.head_dim; ++d) {
      float* out = op.out + d * op.stride + r * S::kLanes;
      S::store(out, S::div(S::load(out), state[r].total));
    }
}

}  // namespace
}  // namespace rose::cpu
