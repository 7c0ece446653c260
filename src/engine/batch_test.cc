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

}  // namespace
}  // namespace rose
