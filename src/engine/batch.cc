#include "engine/batch.h"

#include <algorithm>

#include "device/arena.h"

namespace rose {

HostBatch make_batch(const Step& step) {
  HostBatch batch;
  for (const Slice& slice : step)
    batch.width = std::max(batch.width, (slice.first + slice.count - 1) / kPageSize + 1);

  batch.first.push_back(0);
  for (size_t seq = 0; seq < step.size(); ++seq) {
    const auto [sequence, first, count, samples, epoch] = step[seq];
    ROSE_CHECK(first + count <= int(sequence->tokens.size()),
               "batch: tokens %d..%d of a sequence that has %zu", first, first + count,
               sequence->tokens.size());
    for (int position = first; position < first + count; ++position) {
      batch.token_ids.push_back(sequence->tokens[size_t(position)]);
      batch.positions.push_back(position);
      batch.sequence.push_back(int32_t(seq));
    }
    batch.first.push_back(int32_t(batch.token_ids.size()));
    if (samples) batch.sampled.push_back(int32_t(batch.token_ids.size()) - 1);

    for (const Pool pool : {Pool::full, Pool::sliding}) {
      const auto& table = sequence->pages[int(pool)];
      auto& rows = batch.pages[int(pool)];
      const size_t used = std::min(table.size(), size_t(batch.width));
      rows.insert(rows.end(), table.begin(), table.begin() + std::ptrdiff_t(used));
      rows.resize((seq + 1) * size_t(batch.width), kNoPage);
    }
  }
  return batch;
}

Batch upload(Stream& stream, const HostBatch& host) {
  const auto send = [&](const std::vector<int32_t>& values, std::initializer_list<int64_t> dims) {
    const Tensor tensor = stream.scratch->take(DType::i32, dims);
    ROSE_CHECK(tensor.bytes() == int64_t(values.size() * sizeof(int32_t)),
               "batch: %zu values for %s", values.size(), show(tensor).c_str());
    stream.device->upload(stream, tensor.data, values.data(), tensor.bytes());
    return tensor;
  };
  const int64_t tokens = int64_t(host.token_ids.size()), seqs = int64_t(host.first.size()) - 1;
  Batch batch;
  batch.tokens = int(tokens);
  batch.seqs = int(seqs);
  batch.token_ids = send(host.token_ids, {tokens});
  batch.positions = send(host.positions, {tokens});
  batch.sequence = send(host.sequence, {tokens});
  batch.first = send(host.first, {seqs + 1});
  for (const Pool pool : {Pool::full, Pool::sliding})
    batch.pages[int(pool)] = send(host.pages[int(pool)], {seqs, host.width});
  batch.sampled = send(host.sampled, {int64_t(host.sampled.size())});
  return batch;
}

}  // namespace rose
