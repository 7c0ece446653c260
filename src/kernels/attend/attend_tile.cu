// Prompts: tiles of several tokens of a sequence.
#include "kernels/attend/variants.cuh"

namespace rose::cuda {

namespace {

constexpr int kTileWarps = 8;
constexpr int kTileTokens = 2 * kTileWarps;  // x kTileHeads rows: 16 rows a warp are two tokens

// Flash attention with the query heads of a kv head packed into the rows: keys are read once for all of them.
// A block takes 16 tokens of one sequence; keys and values come page by page (64 of them), the next page while
// this one is multiplied. 16-byte chunk j of key k lies at chunk j ^ (k % 8).
//   grid   tiles (at most), kv_heads
//   needs  up to kTileHeads query heads a kv head
__global__ void __launch_bounds__(kTileWarps* kWarp, 2)
    tile_kernel(const __grid_constant__ AttendParams<Bf16, Bf16> p) {
  constexpr int kPageBytes = kPageSize * kTileDim * 2;  // of keys, or of values
  __shared__ __align__(1024) uint8_t pages[2][2][kPageBytes];
  __shared__ int found[2];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, c = lane % 4;

  // Which sequence's tile this is: every sequence has as many as its tokens need.
  if (warp == 0) {
    int before = 0;  // tiles of the sequences so far
    if (lane == 0) found[0] = -1;
    for (int base = 0; base < p.seqs && before <= int(blockIdx.x); base += kWarp) {
      const int seq = base + lane;
      const int tiles =
          seq < p.seqs ? (p.first[seq + 1] - p.first[seq] + kTileTokens - 1) / kTileTokens : 0;
      int sum = tiles;
#pragma unroll
      for (int other = 1; other < kWarp; other *= 2) {
        const int theirs = __shfl_up_sync(~0u, sum, other);
        if (lane >= other) sum += theirs;
      }
      const int tile = int(blockIdx.x) - before - (sum - tiles);
      if (tile >= 0 && tile < tiles) found[0] = seq, found[1] = tile;
      before += __shfl_sync(~0u, sum, kWarp - 1);
    }
  }
  __syncthreads();
  const int seq = found[0];
  if (seq < 0) return;
  // The longest tiles first: they see the most keys.
  const int count = p.first[seq + 1] - p.first[seq];
  const int tile = (count + kTileTokens - 1) / kTileTokens - 1 - found[1];
  const int token0 = p.first[seq] + tile * kTileTokens;
  const int tokens = min(kTileTokens, p.first[seq + 1] - token0);
  const int position0 = p.positions[token0];
  const int kv_head = blockIdx.y, heads = p.heads / p.kv_heads;
  const int* table = p.page_table + int64_t(seq) * p.table_width;

  // Two tokens a warp; rows past the last repeat it and are not written.
  int token[2], position[2];
  uint32_t q[4][4] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int in_tile = min(2 * warp + r, tokens - 1);
    token[r] = token0 + in_tile, position[r] = position0 + in_tile;
    if (g < heads) {
      const Bf16* query =
          p.qkv + (int64_t(token[r]) * (p.heads + 2 * p.kv_heads) + kv_head * heads + g) * kTileDim;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        q[k][r] = *reinterpret_cast<const uint32_t*>(query + 16 * k + 2 * c);
        q[k][2 + r] = *reinterpret_cast<const uint32_t*>(query + 16 * k + 8 + 2 * c);
      }
    }
  }
  constexpr float kLog2E = 1.4426950408889634f;
  const float scale = p.scale * kLog2E;
  const float sink = g < heads ? p.sinks[kv_head * heads + g] * kLog2E : 0;
  float most[2] = {sink, sink}, total[2] = {c == 0 ? 1.f : 0.f, c == 0 ? 1.f : 0.f};
  float sum[8][4] = {};

  const auto load = [&](int page, int buffer) {
    const Bf16* from =
        p.pages + (int64_t(table[page]) * p.kv_heads + kv_head) * 2 * kPageSize * kTileDim;
#pragma unroll
    for (int i = threadIdx.x; i < 2 * kPageSize * 8; i += kTileWarps * kWarp) {
      const int part = i / (kPageSize * 8), key = i / 8 % kPageSize, chunk = i % 8;
      copy_async(&pages[buffer][part][key * 128 + (chunk ^ key % 8) * 16], from + i * 8);
    }
    copy_async_commit();
  };
  const int last_position = position0 + tokens - 1;
  const int first_page = max(0, position0 - p.window + 1) / kPageSize;
  const int last_page = last_position / kPageSize;
  load(first_page, first_page % 2);
  for (int page = first_page; page <= last_page; ++page) {
    if (page < last_page) {
      load(page + 1, (page + 1) % 2);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    const uint32_t keys = shared_address(pages[page % 2][0]);
    const uint32_t values = shared_address(pages[page % 2][1]);

    // Values past the last token may be anything, and 0 times NaN is NaN.
    if (page == last_page && last_position % kPageSize != kPageSize - 1) {
      for (int i = threadIdx.x; i < kPageSize * 8; i += kTileWarps * kWarp)
        if (page * kPageSize + i / 8 > last_position)
          *reinterpret_cast<uint4*>(&pages[page % 2][1][i * 16]) = make_uint4(0, 0, 0, 0);
      __syncthreads();
    }

    float score[8][4] = {};
#pragma unroll
    for (int i = 0; i < 8; i += 2)  // 16 keys
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        uint32_t b[4];  // keys 8i.. at dims 16k.. and 16k + 8.., then the next eight keys
        const int key = 8 * i + lane / 16 * 8 + lane % 8, chunk = 2 * k + lane / 8 % 2;
        load_matrices(b, keys + key * 128 + (chunk ^ key % 8) * 16);
        mma_bf16(score[i], q[k][0], q[k][1], q[k][2], q[k][3], b[0], b[1]);
        mma_bf16(score[i + 1], q[k][0], q[k][1], q[k][2], q[k][3], b[2], b[3]);
      }

    const bool edge =
        (page + 1) * kPageSize > position0 + 1 || page * kPageSize <= last_position - p.window;
    float largest[2] = {most[0], most[1]};
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        score[i][j] *= scale;
        if (edge) {
          const int key = page * kPageSize + 8 * i + 2 * c + j % 2;
          if (key > position[j / 2] || key <= position[j / 2] - p.window) score[i][j] = -INFINITY;
        }
        largest[j / 2] = fmaxf(largest[j / 2], score[i][j]);
      }
    float shrink[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(~0u, largest[r], 1));
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(~0u, largest[r], 2));
      shrink[r] = exp2_approx(most[r] - largest[r]);  // finite: there is a sink
      most[r] = largest[r];
      total[r] *= shrink[r];
    }
    uint32_t weights[8][2];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        score[i][j] = exp2_approx(score[i][j] - most[j / 2]);
        total[j / 2] += score[i][j];
      }
      weights[i][0] = pack_bf16(score[i][0], score[i][1]);
      weights[i][1] = pack_bf16(score[i][2], score[i][3]);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] *= shrink[j / 2];
#pragma unroll
    for (int k = 0; k < 4; ++k)  // 16 keys
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        uint32_t b[4];  // keys 16k.. and 16k + 8.. at dims 8i.., then at the next eight
        const int key = 16 * k + lane / 8 % 2 * 8 + lane % 8, chunk = i + lane / 16;
        load_matrices_transposed(b, values + key * 128 + (chunk ^ key % 8) * 16);
        mma_bf16(sum[i], weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0],
                 weights[2 * k + 1][1], b[0], b[1]);
        mma_bf16(sum[i + 1], weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0],
                 weights[2 * k + 1][1], b[2], b[3]);
      }
    __syncthreads();  // before the next page takes this buffer
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    total[r] += __shfl_xor_sync(~0u, total[r], 1);
    total[r] += __shfl_xor_sync(~0u, total[r], 2);
    if (g >= heads || 2 * warp + r >= tokens) continue;
    Bf16* y = p.y + (int64_t(token[r]) * p.heads + kv_head * heads + g) * kTileDim;
    const float inverse = 1 / total[r];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      *reinterpret_cast<uint32_t*>(y + 8 * i + 2 * c) =
          pack_bf16(sum[i][2 * r] * inverse, sum[i][2 * r + 1] * inverse);
  }
}

}  // namespace

void attend_tile(Stream& stream, const Attend& op, const AttendParams<Bf16, Bf16>& params) {
  const int most_tiles = op.batch->tokens / kTileTokens + op.batch->seqs;
  launch<tile_kernel>("attend",
                      {.blocks = dim3(unsigned(most_tiles), unsigned(params.kv_heads)),
                       .threads = kTileWarps * kWarp},
                      stream, params);
}

}  // namespace rose::cuda
