#include "engine/batch.h"

#include <algorithm>
#include <cstring>

#include "device/arena.h"

namespace rose {

HostBatch make_batch(const Step& step) {
  HostBatch batch;
  for (const Slice& slice : step)
    batch.width = std::max(batch.width, (slice.first + slice.count - 1) / kPageSize + 1);

  batch.first.push_back(0);
  for (size_t seq = 0; seq < step.size(); ++seq) {
    const auto [sequence, first, count, samples, epoch, newest] = step[seq];
    const int known = int(sequence->tokens.size());
    ROSE_CHECK(first + count <= known + (newest >= 0),
               "batch: tokens %d..%d of a sequence that has %d", first, first + count, known);
    for (int position = first; position < first + count; ++position) {
      batch.token_ids.push_back(position < known ? sequence->tokens[size_t(position)]
                                                 : -1 - newest);
      batch.positions.push_back(position);
      batch.sequence.push_back(int32_t(seq));
    }
    batch.first.push_back(int32_t(batch.token_ids.size()));
    if (samples) {
      batch.sampled.push_back(int32_t(batch.token_ids.size()) - 1);
      batch.rows.push_back(sequence->sample_row(first + count));
    }

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

Uniform uniform(const HostBatch& batch) {
  const int seqs = batch.seqs();
  if (seqs <= 0 || batch.tokens() % seqs != 0) return {};
  const int count = batch.tokens() / seqs;
  const bool each = batch.samples() == batch.tokens() && count > 1;
  if (!each && batch.samples() != seqs) return {};
  for (int seq = 0; seq <= seqs; ++seq)
    if (batch.first[size_t(seq)] != seq * count) return {};
  for (int row = 0; row < batch.samples(); ++row)
    if (batch.sampled[size_t(row)] != (each ? row : (row + 1) * count - 1)) return {};
  return {.seqs = seqs, .count = count, .each = each};
}

HostBatch padded(const HostBatch& batch, int seqs, int width) {
  const auto [real, count, each] = uniform(batch);
  ROSE_CHECK(count > 0 && real <= seqs && batch.width <= width,
             "batch: %d sequences of %d pages cannot be filled up to %d of %d", real, batch.width,
             seqs, width);
  HostBatch full = batch;
  full.width = width;
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    auto& rows = full.pages[int(pool)];
    rows.clear();
    for (int seq = 0; seq < seqs; ++seq) {
      const auto row =
          batch.pages[int(pool)].begin() + std::ptrdiff_t(std::min(seq, real - 1)) * batch.width;
      rows.insert(rows.end(), row, row + batch.width);
      rows.resize(size_t(seq + 1) * size_t(width), kNoPage);
    }
  }
  const auto last = size_t(real - 1) * size_t(count);  // its first token
  for (int seq = real; seq < seqs; ++seq) {
    for (int i = 0; i < count; ++i) {
      full.token_ids.push_back(batch.token_ids[last + size_t(i)]);
      full.positions.push_back(batch.positions[last + size_t(i)]);
      full.sequence.push_back(seq);
      if (each || i == count - 1) {
        full.sampled.push_back(seq * count + i);
        full.rows.push_back({.later = true});
      }
    }
    full.first.push_back((seq + 1) * count);
  }
  return full;
}

namespace {

// Every array of a step, one after another: they travel as one piece. `visit` gets a host's array and the
// shape it has on the device.
template <class Visit>
void each_array(const HostBatch& host, Batch& batch, const Visit& visit) {
  const int64_t tokens = host.tokens(), seqs = host.seqs();
  visit(host.token_ids, batch.token_ids, {tokens});
  visit(host.positions, batch.positions, {tokens});
  visit(host.sequence, batch.sequence, {tokens});
  visit(host.first, batch.first, {seqs + 1});
  for (const Pool pool : {Pool::full, Pool::sliding})
    visit(host.pages[int(pool)], batch.pages[int(pool)], {seqs, host.width});
  visit(host.sampled, batch.sampled, {int64_t(host.samples())});
}

using Dims = std::initializer_list<int64_t>;

int64_t row_bytes(const HostBatch& host) { return int64_t(host.rows.size() * sizeof(SampleRow)); }

}  // namespace

int64_t bytes_of(const HostBatch& host) {
  int64_t bytes = row_bytes(host);
  Batch unused;
  each_array(host, unused, [&](const auto& values, Tensor&, Dims) {
    bytes += int64_t(values.size() * sizeof(int32_t));
  });
  return bytes;
}

PlacedBatch place(const HostBatch& host, void* memory) {
  PlacedBatch placed;
  placed.batch.tokens = host.tokens();
  placed.batch.seqs = host.seqs();
  placed.rows = static_cast<const SampleRow*>(memory);
  auto* at = reinterpret_cast<int32_t*>(static_cast<uint8_t*>(memory) + row_bytes(host));
  each_array(host, placed.batch, [&](const auto& values, Tensor& tensor, Dims dims) {
    tensor = Tensor(at, DType::i32, dims);
    ROSE_CHECK(tensor.elements() == int64_t(values.size()), "batch: %zu values for %s",
               values.size(), show(tensor).c_str());
    at += values.size();
  });
  return placed;
}

void write(const HostBatch& host, uint8_t* bytes) {
  const auto append = [&](const auto& values) {
    if (!values.empty()) std::memcpy(bytes, values.data(), values.size() * sizeof(values[0]));
    bytes += values.size() * sizeof(values[0]);
  };
  append(host.rows);
  Batch unused;
  each_array(host, unused, [&](const auto& values, Tensor&, Dims) { append(values); });
}

Batch upload(Stream& stream, const HostBatch& host) {
  std::vector<uint8_t> bytes(size_t(bytes_of(host)));
  write(host, bytes.data());
  void* const there = stream.scratch->take(DType::u8, {int64_t(bytes.size())}).data;
  stream.device->upload(stream, there, bytes.data(), int64_t(bytes.size()));
  stream.device->synchronize(stream);
  return place(host, there).batch;
}

}  // namespace rose
