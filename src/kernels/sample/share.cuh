// How a cluster of blocks shares a row of logits: each block keeps a run of it in shared memory, each warp looks
// after a run of its block's, its lanes after every 32nd quad of that. So runs lie in the order of token ids, a
// thread meets its own numbers alone (no barrier between passes), and a pass moves 16 bytes at a time. Blocks
// meet once to learn what all of them found.
#pragma once
#include <cooperative_groups.h>

#include "device/warp.cuh"

namespace rose::cuda {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;

// This thread's part of a row.
struct Share {
  float4* quads;  // of the block, in shared memory
  int vocab;
  int first;  // the token of the block's first number; below 0 where a row does not begin at 16 bytes
  int count;       // numbers of the block, those that are no tokens among them
  int run;         // quads of a warp, the last ones may have fewer
  int begin, end;  // this warp's

  __device__ Share(const float* logits, int vocab, int blocks, float4* quads)
      : quads(quads), vocab(vocab) {
    const int early = int(reinterpret_cast<uintptr_t>(logits) / sizeof(float) % 4);
    const int all = (early + vocab + 3) / 4;
    const int of_block = (all + blocks - 1) / blocks;
    const int from = min(all, int(blockIdx.x) * of_block), to = min(all, from + of_block);
    first = 4 * from - early;
    count = 4 * (to - from);
    run = (of_block + kWarps - 1) / kWarps;
    begin = min(to - from, int(threadIdx.x) / kWarp * run);
    end = min(to - from, begin + run);
  }

  __device__ bool exists(int token) const { return token >= 0 && token < vocab; }
  // Null where another block has the token, or none.
  __device__ float* find(int token) const {
    if (!exists(token) || token < first || token >= first + count) return nullptr;
    return reinterpret_cast<float*>(quads) + (token - first);
  }

  // body(four numbers, the token of the first), for this warp's quads from `from` up to `to`
  template <class Body>
  __device__ void each_quad(int from, int to, const Body& body) const {
    for (int quad = from + threadIdx.x % kWarp; quad < to; quad += kWarp)
      body(quads[quad], first + 4 * quad);
  }
  // body(number, token)
  template <class Body>
  __device__ void each(const Body& body) const {
    each_quad(begin, end, [&](float4 x, int token) { visit(x, token, body); });
  }
  // The same, and what the body makes of a number stays.
  template <class Body>
  __device__ void change(const Body& body) const {
    each_quad(begin, end, [&](float4& kept, int token) {
      float4 x = kept;
      visit(x, token, body);
      kept = x;
    });
  }
  template <class Body>
  __device__ static void visit(float4& x, int token, const Body& body) {
    body(x.x, token), body(x.y, token + 1), body(x.z, token + 2), body(x.w, token + 3);
  }
};

// The same in all `kLanes` neighbours that come together: `combine` is commutative.
template <int kLanes, class T, class Combine>
__device__ T reduce_lanes(T x, const Combine& combine) {
#pragma unroll
  for (int other = kLanes / 2; other > 0; other /= 2)
    x = combine(x, __shfl_xor_sync(~0u, x, other));
  return x;
}

// The blocks of the cluster, as a thread sees them. What they tell each other lies in shared memory twice and
// is used in turn: who has come to a meeting has done with what was told at the one before.
template <int kBlocks>
struct Cluster {
  int turn = 0;

  // All threads of all blocks are here; what they wrote before is seen after.
  __device__ void meet() {
    cooperative_groups::this_cluster().sync();
    turn ^= 1;
  }
  template <class T>
  __device__ static const T& of(const T& mine, int block) {
    return *cooperative_groups::this_cluster().map_shared_rank(&mine, block);
  }

  // Of all threads of the cluster, in each of them.
  template <class T, class Combine>
  __device__ T reduce(T x, const Combine& combine) {
    __shared__ T of_warp[kWarps], of_block[2];
    const int lane = threadIdx.x % kWarp;
    x = reduce_lanes<kWarp>(x, combine);
    if (lane == 0) of_warp[threadIdx.x / kWarp] = x;
    __syncthreads();
    T& told = of_block[turn];
    x = reduce_lanes<kWarps>(of_warp[lane % kWarps], combine);
    if (threadIdx.x == 0) told = x;
    meet();
    return reduce_lanes<kBlocks>(of(told, lane % kBlocks), combine);
  }
  template <class T>
  __device__ T total(T x) {
    return reduce(x, [](T a, T b) { return a + b; });
  }
  template <class T>
  __device__ T largest(T x) {
    return reduce(x, [](T a, T b) { return a > b ? a : b; });
  }
};

}  // namespace rose::cuda
