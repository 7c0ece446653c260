#include "engine/batch.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

TEST(Batch, a_chunk_and_a_decoding_sequence_side_by_side) {
  Sequence decoding, prompt;
  for (int i = 0; i < 200; ++i) decoding.tokens.push_back(i);
  decoding.pages[int(Pool::full)] = {3, 4, 5, 6};
  decoding.pages[int(Pool::sliding)] = {kNoPage, 8, 9, 7};
  prompt.tokens = {50, 51, 52, 53, 54};
  prompt.pages[int(Pool::full)] = {1, 2};  // the second is for later
  prompt.pages[int(Pool::sliding)] = {0};
  const Step step = {{&decoding, 199, 1, true, 0}, {&prompt, 1, 3, false, 0}};

  const HostBatch batch = make_batch(step);
  EXPECT_EQ(batch.token_ids, (std::vector<int32_t>{199, 51, 52, 53}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{199, 1, 2, 3}));
  EXPECT_EQ(batch.sequence, (std::vector<int32_t>{0, 1, 1, 1}));
  EXPECT_EQ(batch.first, (std::vector<int32_t>{0, 1, 4}));
  EXPECT_EQ(batch.sampled, (std::vector<int32_t>{0}));
  EXPECT_EQ(batch.width, 4);
  EXPECT_EQ(batch.pages[int(Pool::full)],
            (std::vector<int32_t>{3, 4, 5, 6, 1, 2, kNoPage, kNoPage}));
  EXPECT_EQ(batch.pages[int(Pool::sliding)],
            (std::vector<int32_t>{kNoPage, 8, 9, 7, 0, kNoPage, kNoPage, kNoPage}));
}

TEST(Batch, tables_are_cut_to_the_pages_in_use) {
  Sequence prompt;
  prompt.tokens.assign(300, 1);
  prompt.pages[int(Pool::full)] = {1, 2, 3, 4, 5};
  prompt.pages[int(Pool::sliding)] = {6};
  const HostBatch batch = make_batch({{&prompt, 0, 64, false, 0}});
  EXPECT_EQ(batch.width, 1);
  EXPECT_EQ(batch.pages[int(Pool::full)], std::vector<int32_t>{1});
  EXPECT_TRUE(batch.sampled.empty());
}

TEST(Batch, a_token_that_is_still_being_drawn) {
  Sequence decoding;
  decoding.tokens = {5, 6};
  decoding.pages[int(Pool::full)] = decoding.pages[int(Pool::sliding)] = {0};
  const HostBatch batch = make_batch({{&decoding, 1, 2, true, 0, 7}});
  EXPECT_EQ(batch.token_ids, (std::vector<int32_t>{6, -8}));
  EXPECT_EQ(batch.rows.size(), 1u);
  EXPECT_EQ(batch.rows[0].position, 3u);
}

// `seqs` sequences that feed `count` tokens each, on two pages.
HostBatch uniform_batch(int seqs, int count, bool each) {
  HostBatch batch = {.first = {0}, .width = 2};
  for (int seq = 0; seq < seqs; ++seq) {
    for (int i = 0; i < count; ++i) {
      batch.token_ids.push_back(10 * seq + i);
      batch.positions.push_back(64 + i);
      batch.sequence.push_back(seq);
      if (each || i == count - 1) {
        batch.sampled.push_back(int(batch.token_ids.size()) - 1);
        batch.rows.push_back({.seed = uint64_t(seq)});
      }
    }
    batch.first.push_back(int(batch.token_ids.size()));
    for (auto& pages : batch.pages) pages.insert(pages.end(), {2 * seq, 2 * seq + 1});
  }
  return batch;
}

TEST(Batch, shapes_that_may_be_recorded) {
  for (const bool each : {false, true}) {
    const Uniform shape = uniform(uniform_batch(3, 4, each));
    EXPECT_EQ(shape.seqs, 3);
    EXPECT_EQ(shape.count, 4);
    EXPECT_EQ(shape.each, each);
  }
  HostBatch one_is_longer = uniform_batch(2, 2, false);
  one_is_longer.first = {0, 3, 4};
  EXPECT_EQ(uniform(one_is_longer).count, 0);
  HostBatch none_samples = uniform_batch(2, 1, false);
  none_samples.sampled = {};
  EXPECT_EQ(uniform(none_samples).count, 0);
  EXPECT_EQ(uniform({.first = {0}}).count, 0);
}

TEST(Batch, filled_up_with_its_last_sequence) {
  for (const bool each : {false, true}) {
    const HostBatch full = padded(uniform_batch(2, 3, each), 4, 16);
    const Uniform shape = uniform(full);
    EXPECT_EQ(shape.seqs, 4);
    EXPECT_EQ(shape.count, 3);
    EXPECT_EQ(full.width, 16);
    EXPECT_EQ(full.token_ids, (std::vector<int32_t>{0, 1, 2, 10, 11, 12, 10, 11, 12, 10, 11, 12}));
    EXPECT_EQ(full.pages[0].size(), 4u * 16u);
    for (const int seq : {1, 2, 3}) {
      EXPECT_EQ(full.pages[1][size_t(seq) * 16], 2);
      EXPECT_EQ(full.pages[1][size_t(seq) * 16 + 1], 3);
      EXPECT_EQ(full.pages[1][size_t(seq) * 16 + 2], kNoPage);
    }
    const int real = each ? 6 : 2;
    for (int row = 0; row < full.samples(); ++row)
      EXPECT_EQ(full.rows[size_t(row)].later, row >= real);
  }
}

// What is written is where `place` looks.
TEST(Batch, arrays_travel_in_one_piece) {
  const HostBatch host = uniform_batch(3, 2, true);
  std::vector<uint64_t> memory(size_t(bytes_of(host) + 7) / 8);
  write(host, reinterpret_cast<uint8_t*>(memory.data()));
  const PlacedBatch placed = place(host, memory.data());
  EXPECT_EQ(placed.batch.tokens, 6);
  EXPECT_EQ(placed.batch.seqs, 3);
  const auto equal = [](const Tensor& tensor, const std::vector<int32_t>& values) {
    return std::vector<int32_t>(tensor.as<int32_t>(), tensor.as<int32_t>() + tensor.elements()) ==
           values;
  };
  EXPECT_TRUE(equal(placed.batch.token_ids, host.token_ids));
  EXPECT_TRUE(equal(placed.batch.positions, host.positions));
  EXPECT_TRUE(equal(placed.batch.sequence, host.sequence));
  EXPECT_TRUE(equal(placed.batch.first, host.first));
  EXPECT_TRUE(equal(placed.batch.pages[1], host.pages[1]));
  EXPECT_TRUE(equal(placed.batch.sampled, host.sampled));
  EXPECT_EQ(placed.rows[4].seed, 2u);
}

}  // namespace
}  // namespace rose
