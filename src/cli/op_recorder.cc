#include "cli/op_recorder.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "kernels/attend/attend.h"
#include "kernels/embed/embed.h"
#include "kernels/experts/experts.h"
#include "kernels/gather/gather.h"
#include "kernels/matmul/matmul.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/route/route.h"
#include "kernels/sample/sample.h"

namespace rose {

namespace {

// Whose calls are remembered, and what runs them.
struct Recording {
  OpRecorder* recorder = nullptr;
  const Ops* ops = nullptr;
  int64_t keys = 0, read = 0;
};
Recording recording;

int64_t bytes_of(const Weight& w, int experts) {
  return recording.ops->weight_bytes(w.format, experts, w.rows, w.columns);
}
bool is_e4m3(Format format) {
  return format == Format::fp8 || format == Format::mxfp4_fp8 || format == Format::fp8_block;
}

RecordedOp describe(Stream&, const Embed& op) {
  return {.name = "embed",
          .shape = strf("%d x %d", op.y.dim(0), op.y.dim(1)),
          .cost = {.bytes = op.y.elements() * 2 + op.y.bytes()}};
}

RecordedOp describe(Stream&, const RmsNorm& op) {
  return {.name = "rms_norm",
          .shape = strf("%d x %d%s", op.x.dim(0), op.x.dim(1), op.add ? " + experts" : ""),
          .cost = cost(op)};
}

RecordedOp describe(Stream&, const Matmul& op) {
  const Weight& w = op.weight;
  return {.name = "matmul",
          .shape = strf("%d x %d -> %d, %s", op.x.dim(0), w.columns, w.rows, name_of(w.format)),
          .cost = {.bytes = bytes_of(w, 1) + op.x.bytes() + op.y.bytes(),
                   .flops = 2 * op.x.elements() * w.rows},
          .e4m3 = is_e4m3(w.format)};
}

RecordedOp describe(Stream&, const Attend& op) {
  const int64_t keys = std::min<int64_t>(recording.keys, op.window);
  const int64_t read = std::min<int64_t>(
      recording.read, int64_t(op.batch->seqs) * op.window + op.batch->tokens - op.batch->seqs);
  const int64_t of_token = op.kv.pages.dims[1] * 2 * op.head_dim * bytes_of(op.kv.pages.dtype);
  return {.name = "attend",
          .shape = strf("%d tokens, %ld keys each%s", op.y.dim(0), long(keys),
                        op.window == kEveryKey ? "" : ", sliding"),
          // What is read of the cache, and what this step adds to it.
          .cost = {.bytes = (read + op.batch->tokens) * of_token + op.qkv.bytes() + op.y.bytes(),
                   .flops = 4 * op.y.elements() * keys}};
}

RecordedOp describe(Stream&, const Route& op) {
  return {.name = "route",
          .shape = strf("%d x %d -> %d", op.x.dim(0), op.x.dim(1), op.weight.dim(0)),
          .cost = {.bytes = op.x.bytes() + op.weight.bytes() + op.experts.bytes() * 2,
                   .flops = 2 * op.x.elements() * op.weight.dims[0]}};
}

RecordedOp describe(Stream& stream, const Experts& op) {
  std::vector<int32_t> chosen(size_t(op.experts.elements()));
  stream.device->download(stream, chosen.data(), op.experts.data, op.experts.bytes());
  stream.device->synchronize(stream);
  const int read = int(std::set<int32_t>(chosen.begin(), chosen.end()).size());
  const int64_t weights =
      int64_t(op.gate_up.rows) * op.gate_up.columns + int64_t(op.down.rows) * op.down.columns;
  return {.name = "experts",
          .shape = strf("%d x %d, %d of %d, %s", op.x.dim(0), op.x.dim(1), op.experts.dim(1),
                        op.gate_up.experts, name_of(op.gate_up.format)),
          .cost = {.bytes = bytes_of(op.gate_up, read) + bytes_of(op.down, read) + 2 * op.x.bytes(),
                   .flops = 2 * op.experts.elements() * weights},
          .e4m3 = is_e4m3(op.gate_up.format)};
}

RecordedOp describe(Stream&, const Gather& op) {
  return {.name = "gather",
          .shape = strf("%d of %d x %d", op.y.dim(0), op.x.dim(0), op.x.dim(1)),
          .cost = {.bytes = 2 * op.y.bytes()}};
}

RecordedOp describe(Stream&, const Sample& op) {
  return {.name = "sample",
          .shape = strf("%d x %d", op.logits.dim(0), op.logits.dim(1)),
          .cost = {.bytes = op.logits.bytes()}};
}

template <class Op, void (*Ops::*kField)(Stream&, const Op&)>
void record(Stream& stream, const Op& op) {
  (recording.ops->*kField)(stream, op);
  RecordedOp call = describe(stream, op);
  call.run = [run = recording.ops->*kField, op](Stream& again) { run(again, op); };
  recording.recorder->calls.push_back(std::move(call));
}

}  // namespace

OpRecorder::OpRecorder(const Ops& ops, int64_t keys, int64_t read) : table_(ops) {
  ROSE_CHECK(!recording.recorder, "op recorder: there is one already");
  recording = {this, &ops, keys, read};
  table_.embed = record<Embed, &Ops::embed>;
  table_.rms_norm = record<RmsNorm, &Ops::rms_norm>;
  table_.matmul = record<Matmul, &Ops::matmul>;
  table_.attend = record<Attend, &Ops::attend>;
  table_.route = record<Route, &Ops::route>;
  table_.experts = record<Experts, &Ops::experts>;
  table_.gather = record<Gather, &Ops::gather>;
  table_.sample = record<Sample, &Ops::sample>;
  table_.decode = nullptr;  // each op by itself
}

OpRecorder::~OpRecorder() { recording = {}; }

}  // namespace rose
