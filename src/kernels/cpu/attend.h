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
  const int64_t at = int64_t(first) * op.head_dim;
  convert<S>({const_cast<char*>(page) + at * 2, true}, (last - first + 1) * op.head_dim,
             {scratch + at, false});
  return scratch;
}

// scores[key] = scale * q . k of one register of queries, for keys [first, last].
template <class S>
void score(const AttendTile& op, const float* queries, const float* keys, int first, int last,
           float* scores) {
  constexpr int kOnce = 8;
  const auto scale = S::set(op.scale);
  for (int key = first; key <= last; key += kOnce) {
    typename S::F sum[kOnce];
    const float* k[kOnce];
#pragma GCC unroll 8
    for (int i = 0; i < kOnce; ++i) {
      sum[i] = S::zero();
      k[i] = keys + int64_t(key + i <= last ? key + i : last) * op.head_dim;
    }
    for (int d = 0; d < op.head_dim; ++d) {
      const auto q = S::load(queries + int64_t(d) * kAttendLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kOnce; ++i) sum[i] = S::fma(q, S::set(k[i][d]), sum[i]);
    }
    for (int i = 0; i < kOnce && key + i <= last; ++i)
      S::store(scores + (key + i) * S::kLanes, S::mul(sum[i], scale));
  }
}

// out <- out * fade + sum_key p[key] v[key], for one register of queries.
template <class S>
void add_values(const AttendTile& op, const float* p, const float* values, int first, int last,
                typename S::F fade, float* out) {
  constexpr int kOnce = 8;
  int d = 0;
  for (; d + kOnce <= op.head_dim; d += kOnce) {
    typename S::F sum[kOnce];
#pragma GCC unroll 8
    for (int i = 0; i < kOnce; ++i)
      sum[i] = S::mul(S::load(out + int64_t(d + i) * kAttendLanes), fade);
    for (int key = first; key <= last; ++key) {
      const auto weight = S::load(p + key * S::kLanes);
      const float* v = values + int64_t(key) * op.head_dim + d;
#pragma GCC unroll 8
      for (int i = 0; i < kOnce; ++i) sum[i] = S::fma(weight, S::set(v[i]), sum[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kOnce; ++i) S::store(out + int64_t(d + i) * kAttendLanes, sum[i]);
  }
  for (; d < op.head_dim; ++d) {
    auto sum = S::mul(S::load(out + int64_t(d) * kAttendLanes), fade);
    for (int key = first; key <= last; ++key)
      sum =
          S::fma(S::load(p + key * S::kLanes), S::set(values[int64_t(key) * op.head_dim + d]), sum);
    S::store(out + int64_t(d) * kAttendLanes, sum);
  }
}

template <class S>
void attend(const AttendTile& op) {
  using F = typename S::F;
  constexpr int kMost = kAttendLanes / S::kLanes;
  const int registers = (op.lanes + S::kLanes - 1) / S::kLanes;
  float* keys_f32 = op.scratch;
  float* values_f32 = keys_f32 + kPageSize * op.head_dim;
  float* scores = values_f32 + kPageSize * op.head_dim;  // [page_size][kLanes]

  int first_of_all = op.first_key[0], last_of_all = op.last_key[0];
  for (int lane = 1; lane < op.lanes; ++lane) {
    if (op.first_key[lane] < first_of_all) first_of_all = op.first_key[lane];
    if (op.last_key[lane] > last_of_all) last_of_all = op.last_key[lane];
  }
  F most[kMost], total[kMost];  // the sink is the first logit seen: never -inf
  for (int r = 0; r < registers; ++r) {
    most[r] = S::load(op.sinks + r * S::kLanes);
    total[r] = S::set(1);
    for (int d = 0; d < op.head_dim; ++d)
      S::store(op.out + int64_t(d) * kAttendLanes + r * S::kLanes, S::zero());
  }

  const int64_t value_bytes = int64_t(kPageSize) * op.head_dim * (op.bf16_pages ? 2 : 4);
  for (int page = first_of_all / kPageSize; page <= last_of_all / kPageSize; ++page) {
    const int start = page * kPageSize;
    const int first = first_of_all > start ? first_of_all - start : 0;
    const int last = last_of_all - start < kPageSize ? last_of_all - start : kPageSize - 1;
    const char* at =
        static_cast<const char*>(op.page_base) + int64_t(op.pages[page]) * op.page_stride;
    const float* keys = page_rows<S>(op, at, first, last, keys_f32);
    const float* values = page_rows<S>(op, at + value_bytes, first, last, values_f32);

    for (int r = 0; r < registers; ++r) {
      const int lane = r * S::kLanes;
      score<S>(op, op.queries + lane, keys, first, last, scores);
      const auto from = S::iload(op.first_key + lane), to = S::iload(op.last_key + lane);
      F largest = most[r];
      for (int key = first; key <= last; ++key) {
        const F seen =
            S::select_within(S::iset(start + key), from, to, S::load(scores + key * S::kLanes),
                             S::set(-__builtin_inff()));
        S::store(scores + key * S::kLanes, seen);
        largest = S::max(largest, seen);
      }
      const F fade = exp_of<S>(S::sub(most[r], largest));
      most[r] = largest;
      F sum = S::mul(total[r], fade);
      for (int key = first; key <= last; ++key) {
        const F p = exp_of<S>(S::sub(S::load(scores + key * S::kLanes), largest));
        S::store(scores + key * S::kLanes, p);
        sum = S::add(sum, p);
      }
      total[r] = sum;
      add_values<S>(op, scores, values, first, last, fade, op.out + lane);
    }
  }
  for (int r = 0; r < registers; ++r)
    for (int d = 0; d < op.head_dim; ++d) {
      float* out = op.out + int64_t(d) * kAttendLanes + r * S::kLanes;
      S::store(out, S::div(S::load(out), total[r]));
    }
}

}  // namespace
}  // namespace rose::cpu
