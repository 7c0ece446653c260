// Work is cut into tiles: up to kAttendLanes queries (tokens of one sequence by heads of one kv head),
// so that a page of keys and values is read once for all of them. Longest contexts first, threads take
// the next tile when done with one.
#include <algorithm>
#include <vector>

#include "kernels/attend/attend.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/share.h"

namespace rose::cpu {

namespace {

// Tokens [first, first + tokens) of one sequence.
struct Span {
  int first;
  int tokens;
  int keys;  // that its last token sees: what it costs
};

std::vector<Span> cut_tokens(const Attend& op, int tokens_a_tile) {
  const int32_t* sequence = op.batch->sequence.as<int32_t>();
  const int32_t* positions = op.batch->positions.as<int32_t>();
  std::vector<Span> spans;
  for (int token = 0; token < op.batch->tokens; ++token) {
    const bool joins = !spans.empty() && spans.back().tokens < tokens_a_tile &&
                       sequence[spans.back().first] == sequence[token];
    if (!joins) spans.push_back({.first = token, .tokens = 0, .keys = 0});
    ++spans.back().tokens;
    spans.back().keys = std::min(positions[token] + 1, op.window);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.keys * int64_t(a.tokens) > b.keys * int64_t(b.tokens);
  });
  return spans;
}

}  // namespace

void attend(const Kernels& kernels, Stream& stream, const Attend& op) {
  if (op.rope.inverse_frequency) rope_store(kernels, stream, rope_store_of(op));
  const Batch& batch = *op.batch;
  const Tensor& table = batch.pages[int(op.kv.pool)];
  Dim tokens("tokens", batch.tokens), seqs("seqs", batch.seqs), width("page table width");
  Dim pages("pages"), kv_heads("kv_heads"), two("keys and values", 2), heads("heads", op.heads);
  Dim page_size("page_size head_dim", kPageSize * op.head_dim);
  Dim q("heads head_dim", op.heads * op.head_dim);
  shape_check("attend", op.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page_size});
  Dim all("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
  shape_check("attend", op.y, "y", {&tokens, &q});
  shape_check("attend", op.qkv, "qkv", {&tokens, &all});
  shape_check("attend", op.sinks, "sinks", {&heads});
  shape_check("attend", batch.positions, "positions", {&tokens});
  shape_check("attend", batch.sequence, "sequence", {&tokens});
  shape_check("attend", table, "page table", {&seqs, &width});
  activation_check("attend", op.qkv, "qkv");
  activation_check("attend", op.y, "y");
  activation_check("attend", op.kv.pages, "kv.pages");
  ROSE_CHECK(op.heads % kv_heads == 0, "attend: %d heads on %ld kv heads", op.heads,
             long(kv_heads));
  const int group = op.heads / int(kv_heads), dim = op.head_dim;
  const int heads_a_tile = std::min(group, kAttendLanes);
  const int parts = (group + heads_a_tile - 1) / heads_a_tile;  // of a kv head's queries
  const std::vector<Span> spans = cut_tokens(op, kAttendLanes / heads_a_tile);
  const int64_t tiles = int64_t(spans.size()) * kv_heads * parts;
  if (tiles == 0) return;

  const int64_t scratch_floats =
      2 * int64_t(dim) * kAttendLanes + kAttendLanes + dim + attend_scratch_floats(dim);
  float* scratch = take_each<float>(stream, DType::f32, scratch_floats);
  const int element_bytes = bytes_of(op.kv.pages.dtype);
  const double tile_ns = double(spans.front().keys) * dim * 0.5 + 1000;
  share(stream, tiles, 1, tile_ns, [&](int64_t begin, int64_t end, int thread) {
    float* queries = scratch + thread * scratch_floats;
    float* out = queries + int64_t(dim) * kAttendLanes;
    float* sinks = out + int64_t(dim) * kAttendLanes;
    float* row = sinks + kAttendLanes;
    int32_t first_key[kAttendLanes], last_key[kAttendLanes];
    for (int64_t tile = begin; tile < end; ++tile) {
      const Span& span = spans[size_t(tile / (kv_heads * parts))];
      const int kv_head = int(tile / parts % kv_heads);
      const int first_head = kv_head * group + int(tile % parts) * heads_a_tile;
      const int tile_heads = std::min(heads_a_tile, (kv_head + 1) * group - first_head);
      const int lanes = span.tokens * tile_heads;
      const int sequence = batch.sequence.as<int32_t>()[span.first];
      const int32_t* page_table = table.as<int32_t>() + sequence * width;

      // Lanes past the last, in its register, repeat it, so that every lane has sound numbers.
      const int stride = (lanes + kGroup - 1) / kGroup * kGroup;
      for (int lane = 0; lane < stride; ++lane) {
        const int from = std::min(lane, lanes - 1);
        const int token = span.first + from / tile_heads, head = first_head + from % tile_heads;
        const int position = batch.positions.as<int32_t>()[token];
        last_key[lane] = position;
        first_key[lane] = int(std::max<int64_t>(0, int64_t(position) - op.window + 1));
        sinks[lane] = op.sinks.as<float>()[head];
        kernels.convert(part_of(op.qkv, token, head * dim), dim, {row, false});
        for (int d = 0; d < dim; ++d) queries[d * stride + lane] = row[d];
      }
      for (int page = first_key[0] / kPageSize; page <= last_key[lanes - 1] / kPageSize; ++page)
        ROSE_CHECK(page < width && page_table[page] >= 0 && page_table[page] < pages,
                   "attend: page %d of sequence %d is page %d of %ld", page, sequence,
                   page < width ? page_table[page] : kNoPage, long(pages));

      kernels.attend({
          .lanes = lanes,
          .head_dim = dim,
          .scale = op.scale,
          .stride = stride,
          .queries = queries,
          .sinks = sinks,
          .first_key = first_key,
          .last_key = last_key,
          .pages = page_table,
          .page_base =
              static_cast<const char*>(op.kv.pages.data) + kv_head * 2 * page_size * element_bytes,
          .page_stride = kv_heads * 2 * page_size * element_bytes,
          .bf16_pages = op.kv.pages.dtype == DType::bf16,
          .out = out,
          .scratch = row + dim,
      });
      for (int lane = 0; lane < lanes; ++lane) {
        const int token = span.first + lane / tile_heads, head = first_head + lane % tile_heads;
        for (int d = 0; d < dim; ++d) row[d] = out[d * stride + lane];
        kernels.convert({row, false}, dim, part_of(op.y, token, head * dim));
      }
    }
  });
}

}  // namespace rose::cpu
