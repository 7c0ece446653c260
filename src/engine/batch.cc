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

namespace {

// Every array of a step, one after another: they travel as one piece.
template <class Visit>
void each_array(const HostBatch& host, Batch& batch, const Visit& visit) {
  const int64_t tokens = int64_t(host.token_ids.size()), seqs = int64_t(host.first.size()) - 1;
  visit(host.token_ids, batch.token_ids, {tokens});
  visit(host.positions, batch.positions, {tokens});
  visit(host.sequence, batch.sequence, {tokens});
  visit(host.first, batch.first, {seqs + 1});
  for (const Pool pool : {Pool::full, Pool::sliding})
    visit(host.pages[int(pool)], batch.pages[int(pool)], {seqs, host.width});
  visit(host.sampled, batch.sampled, {int64_t(host.sampled.size())});
}

using Dims = std::initializer_list<int64_t>;

}  // namespace

Batch upload(Stream& stream, const HostBatch& host) {
  int64_t count = 0;
  Batch batch;
  batch.tokens = int(host.token_ids.size());
  batch.seqs = int(host.first.size()) - 1;
  each_array(host, batch,
             [&](const auto& values, Tensor&, Dims) { count += int64_t(values.size()); });
  int32_t* at = stream.scratch->take(DType::i32, {count}).as<int32_t>();
  each_array(host, batch, [&](const auto& values, Tensor& tensor, Dims dims) {
    tensor = Tensor(at, DType::i32, dims);
    ROSE_CHECK(tensor.elements() == int64_t(values.size()), "batch: %zu values for %s",
               values.size(), show(tensor).c_str());
    at += values.size();
  });
  upload(stream, host, batch);
  return batch;
}

void upload(Stream& stream, const HostBatch& host, const Batch& to) {
  std::vector<int32_t> all;
  Batch unused = to;
  each_array(host, unused, [&](const auto& values, Tensor& tensor, Dims) {
    ROSE_CHECK(tensor.elements() == int64_t(values.size()), "batch: %zu values for %s",
               values.size(), show(tensor).c_str());
    all.insert(all.end(), values.begin(), values.end());
  });
  stream.device->upload(stream, to.token_ids.data, all.data(),
                        int64_t(all.size() * sizeof(int32_t)));
}

}  // namespace rose
