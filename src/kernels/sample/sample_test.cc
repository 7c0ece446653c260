#include "kernels/sample/sample.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/rng.h"
#include "device/host_buffer.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Sends the rows to the device, with their lists; the results come through host memory.
std::vector<Sampled> sample_rows(Rig& rig, const Tensor& logits, std::vector<SampleRow> rows,
                                 int vocab) {
  const Device& device = *rig.ops().device;
  Stream& stream = rig.stream();
  HostBuffer staging(device), results(device);
  const int64_t row_bytes = int64_t(rows.size() * sizeof(SampleRow));
  const int64_t bytes = row_bytes + list_bytes(rows, vocab);
  EXPECT_TRUE(staging.reserve(bytes) && results.reserve(int64_t(rows.size() * sizeof(Sampled))));
  uint8_t* there = stream.scratch->take(DType::u8, {bytes}).as<uint8_t>();
  const Tensor tokens = rig.empty(DType::i32, {int64_t(rows.size())});
  auto* const to = reinterpret_cast<Sampled*>(results.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    to[i] = {.token = -7, .top = {}};  // poison
    rows[i].result = to + i;
  }
  place_lists(rows, vocab, staging.data() + row_bytes, there + row_bytes);
  std::memcpy(staging.data(), rows.data(), size_t(row_bytes));
  device.upload(stream, there, staging.data(), bytes);
  rig.run(rig.ops().sample, Sample{.tokens = tokens,
                                   .logits = logits,
                                   .rows = reinterpret_cast<const SampleRow*>(there),
                                   .vocab = vocab});
  const Values drawn = rig.read(tokens);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(drawn.at[i], rows[i].later ? -1.f : float(to[i].token));  // `empty` is all -1
    EXPECT_EQ(to[i].token == -7, rows[i].later);
  }
  return {to, to + rows.size()};
}

Sampled sampled(const Ops& ops, const std::vector<float>& logits, const SampleRow& row,
                int vocab = 0) {
  Rig rig(ops);
  const int64_t columns = int64_t(logits.size());
  return sample_rows(rig, rig.put(DType::f32, {1, columns}, logits), {row},
                     vocab ? vocab : int(columns))[0];
}

// Small problems, side by side: what a row lacks of the common width is -inf, which never comes. A GPU spreads few
// rows in another way than many, so some are solved again by themselves.
struct Problem {
  std::vector<float> logits;
  SampleRow row;
  int want;
};

void solve(const Ops& ops, std::vector<Problem> problems) {
  size_t width = 0;
  for (const Problem& problem : problems) width = std::max(width, problem.logits.size());
  while (true) {
    std::vector<float> all;
    std::vector<SampleRow> rows;
    for (Problem& problem : problems) {
      problem.logits.resize(width, -kInf);
      all.insert(all.end(), problem.logits.begin(), problem.logits.end());
      rows.push_back(problem.row);
    }
    Rig rig(ops);
    const auto got = sample_rows(
        rig, rig.put(DType::f32, {int64_t(rows.size()), int64_t(width)}, all), rows, int(width));
    for (size_t i = 0; i < problems.size(); ++i)
      EXPECT_EQ(got[i].token, problems[i].want) << "problem " << i << " of " << problems.size();
    if (problems.size() <= 3) return;
    problems.erase(problems.begin(), problems.end() - 3);
  }
}

// Which tokens come out for each wish, over many positions.
std::vector<std::vector<int>> drawn(const Ops& ops, const std::vector<float>& logits,
                                    const std::vector<SampleRow>& wishes) {
  constexpr size_t kDraws = 100;
  std::vector<SampleRow> rows;
  std::vector<float> all;
  for (const SampleRow& wish : wishes)
    for (size_t i = 0; i < kDraws; ++i) {
      rows.push_back(wish);
      rows.back().position = i;
      all.insert(all.end(), logits.begin(), logits.end());
    }
  Rig rig(ops);
  const int columns = int(logits.size());
  const std::vector<Sampled> results =
      sample_rows(rig, rig.put(DType::f32, {int64_t(rows.size()), columns}, all), rows, columns);
  std::vector<std::vector<int>> tokens(wishes.size());
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<int>& seen = tokens[i / kDraws];
    if (std::find(seen.begin(), seen.end(), results[i].token) == seen.end())
      seen.push_back(results[i].token);
  }
  for (std::vector<int>& seen : tokens) std::sort(seen.begin(), seen.end());
  return tokens;
}

class Sampling : public ::testing::TestWithParam<const Ops*> {};
INSTANTIATE_TEST_SUITE_P(, Sampling, ::testing::ValuesIn(available_ops()), [](const auto& info) {
  std::string name = info.param->name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST_P(Sampling, greedy_takes_the_largest_and_the_lowest_id_where_equal) {
  const Ops& ops = *GetParam();
  const SampleRow greedy = {.temperature = 0};
  solve(ops, {{{1, 3, 2, 3}, greedy, 1},
              {{-5}, greedy, 0},
              {{kNan, -4, kNan, -3}, greedy, 3},
              {{1, kInf, kInf}, greedy, 1}});
  EXPECT_EQ(sampled(ops, {-5}, greedy).token, 0);
  EXPECT_EQ(sampled(ops, {1, 2, 9, 9}, greedy, 2).token, 1);  // columns past the vocabulary
}

TEST_P(Sampling, no_token_where_none_is_possible) {
  const uint32_t allowed = 0b100;
  const int banned[] = {0, 1};
  const TokenBias never[] = {{0, -kInf}};
  std::vector<Problem> problems;
  for (const float temperature : {0.0f, 1.0f}) {
    problems.push_back({{-kInf, kNan}, {.temperature = temperature}, -1});
    problems.push_back({{1, 2}, {.temperature = temperature, .banned = banned}, -1});
    problems.push_back({{1, 2}, {.temperature = temperature, .allowed = &allowed}, -1});
    problems.push_back({{1}, {.temperature = temperature, .bias = never}, -1});
  }
  solve(*GetParam(), problems);
}

TEST_P(Sampling, infinite_and_huge_logits_still_give_a_token) {
  const TokenCount counts[] = {{1, 3, true}};
  const TokenBias always[] = {{1, kInf}};
  std::vector<Problem> problems = {
      {{9, 1}, {.bias = always}, 1},
      {{9, -kInf}, {.bias = always}, 0},
      {{0, 3e38f}, {.repetition_penalty = 1e-30f, .counts = counts}, 1},
      {{0, -kInf}, {.repetition_penalty = 0, .counts = counts}, 0}};
  for (const float temperature : {1e-6f, 1.0f, 100.0f}) {
    problems.push_back({{1, kInf, 2}, {.temperature = temperature}, 1});
    problems.push_back({{-3e38f, 3e38f}, {.temperature = temperature}, 1});
  }
  solve(*GetParam(), problems);
}

TEST_P(Sampling, masks) {
  std::vector<float> logits(70);
  for (int i = 0; i < 70; ++i) logits[size_t(i)] = float(i);
  const uint32_t allowed[3] = {1u << 3, 1u << 7, 0};
  const int banned[] = {39, -1, 70, 1 << 30};  // those that are no tokens are let be
  solve(*GetParam(), {{logits, {.temperature = 0, .allowed = allowed}, 39},
                      {logits, {.temperature = 0, .banned = banned, .allowed = allowed}, 3}});
}

TEST_P(Sampling, bias_and_penalties_by_hand) {
  const TokenBias bias[] = {{0, 2.5f}, {-1, 100}, {9, 100}};
  // Token 1 was generated twice, token 2 is in the prompt alone.
  const TokenCount counts[] = {{1, 2, false}, {2, 0, true}, {-7, 1, true}, {99, 1, true}};
  std::vector<Problem> problems = {
      {{1, 3}, {.bias = bias}, 0},
      {{0.4f, 3}, {.bias = bias}, 1},
      {{1, 1.4f, 0}, {.presence_penalty = 0.5f, .counts = counts}, 0},
      {{1, 1.6f, 0}, {.presence_penalty = 0.5f, .counts = counts}, 1},
      {{1, 1.9f, 0}, {.frequency_penalty = 0.5f, .counts = counts}, 0},
      {{1, 2.1f, 0}, {.frequency_penalty = 0.5f, .counts = counts}, 1},
      {{1, 0, 1.4f}, {.presence_penalty = 9, .frequency_penalty = 9, .counts = counts}, 2},
      // Positive logits are divided, negative ones multiplied; the prompt counts.
      {{1, 0, 1.9f}, {.repetition_penalty = 2, .counts = counts}, 0},
      {{1, 0, 2.1f}, {.repetition_penalty = 2, .counts = counts}, 2},
      {{-1, -9, -0.6f}, {.repetition_penalty = 2, .counts = counts}, 0},
      {{-1, -9, -0.4f}, {.repetition_penalty = 2, .counts = counts}, 2},
      // The repetition penalty comes before the others: 4 / 2 - 1 = 1, not (4 - 1) / 2.
      {{1.2f, 4}, {.presence_penalty = 1, .repetition_penalty = 2, .counts = counts}, 0}};
  for (Problem& problem : problems) problem.row.temperature = 0;
  solve(*GetParam(), problems);
}

// Probabilities 1/2, 1/4, 1/8, 1/16, 1/16.
std::vector<float> halves() {
  std::vector<float> logits;
  for (const float p : {1 / 8.f, 1 / 2.f, 1 / 16.f, 1 / 4.f, 1 / 16.f})
    logits.push_back(std::log(p));
  return logits;
}

TEST_P(Sampling, filters_keep_exactly_their_tokens) {
  const Ops& ops = *GetParam();
  using Tokens = std::vector<int>;
  const std::pair<SampleRow, Tokens> cases[] = {
      {{}, {0, 1, 2, 3, 4}},
      {{.top_k = 1}, {1}},
      {{.top_k = 2}, {1, 3}},
      {{.top_k = 4}, {0, 1, 2, 3}},  // of equals the lower id
      {{.top_k = 99}, {0, 1, 2, 3, 4}},
      {{.top_p = 0}, {1}},
      {{.top_p = .45f}, {1}},
      {{.top_p = .55f}, {1, 3}},
      {{.top_p = .8f}, {0, 1, 3}},
      {{.top_p = .9f}, {0, 1, 2, 3}},
      {{.min_p = .6f}, {1}},
      {{.min_p = .4f}, {1, 3}},
      {{.min_p = 1}, {1}},
      // Top-p is of what top-k left: 1/2 of 3/4 is .67.
      {{.top_k = 2, .top_p = .6f}, {1}},
      {{.top_k = 2, .top_p = .7f}, {1, 3}},
      // Filters come after the temperature: at 1/2 the shares are 64, 16, 4, 1, 1 of 86.
      {{.temperature = .5f, .top_p = .7f}, {1}}};
  std::vector<SampleRow> wishes;
  for (const auto& [wish, tokens] : cases) wishes.push_back(wish);
  const std::vector<Tokens> got = drawn(ops, halves(), wishes);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], cases[i].second) << "case " << i;
  EXPECT_EQ(drawn(ops, std::vector<float>(7, 1.5f), {{.top_p = .5f}})[0], (Tokens{0, 1, 2, 3}));
}

// The share of each token is its probability, within four standard deviations.
TEST_P(Sampling, draws_follow_the_distribution) {
  const Ops& ops = *GetParam();
  const std::vector<float> logits = halves();
  constexpr int kDraws = 4000;
  for (const float temperature : {1.0f, 2.0f}) {
    double total = 0;
    std::vector<double> want;
    for (const float logit : logits) want.push_back(std::exp(double(logit) / double(temperature)));
    for (const double weight : want) total += weight;
    std::vector<SampleRow> rows(kDraws, SampleRow{.temperature = temperature, .seed = 11});
    for (int i = 0; i < kDraws; ++i) rows[size_t(i)].position = uint64_t(i);
    std::vector<float> all;
    for (int i = 0; i < kDraws; ++i) all.insert(all.end(), logits.begin(), logits.end());
    Rig rig(ops);
    const std::vector<Sampled> results =
        sample_rows(rig, rig.put(DType::f32, {kDraws, 5}, all), rows, 5);
    for (size_t token = 0; token < 5; ++token) {
      const double p = want[token] / total;
      const auto count = std::count_if(results.begin(), results.end(),
                                       [&](const Sampled& one) { return one.token == int(token); });
      EXPECT_NEAR(double(count), kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p))) << token;
    }
  }
}

// The distribution is the model's own: before bias, penalties, temperature and filters, after masks.
TEST_P(Sampling, log_probabilities) {
  const Ops& ops = *GetParam();
  std::vector<float> logits = halves();
  logits.push_back(50);  // no token
  const TokenBias bias[] = {{3, 100}};
  const Sampled one =
      sampled(ops, logits, {.temperature = 0.3f, .top_k = 1, .logprobs = 3, .bias = bias}, 5);
  EXPECT_EQ(one.token, 3);
  EXPECT_NEAR(double(one.logprob), std::log(.25), 1e-6);
  ASSERT_EQ(one.tops, 3);
  EXPECT_EQ(one.top[0].token, 1);
  EXPECT_EQ(one.top[1].token, 3);
  EXPECT_EQ(one.top[2].token, 0);
  EXPECT_NEAR(double(one.top[0].logprob), std::log(.5), 1e-6);
  EXPECT_NEAR(double(one.top[2].logprob), std::log(.125), 1e-6);

  const int banned[] = {1};
  const Sampled masked =
      sampled(ops, halves(), {.temperature = 0, .logprobs = 20, .banned = banned});
  EXPECT_EQ(masked.token, 3);
  EXPECT_NEAR(double(masked.logprob), std::log(.5), 1e-6);
  ASSERT_EQ(masked.tops, 4);          // what cannot come is no alternative
  EXPECT_EQ(masked.top[2].token, 2);  // of equals the lower id first
  EXPECT_EQ(masked.top[3].token, 4);

  EXPECT_EQ(sampled(ops, halves(), {.temperature = 0, .logprobs = 0}).tops, 0);
  EXPECT_NEAR(double(sampled(ops, halves(), {.temperature = 0, .logprobs = 0}).logprob),
              std::log(.5), 1e-6);
}

TEST_P(Sampling, a_row_does_not_depend_on_its_neighbours) {
  const Ops& ops = *GetParam();
  constexpr int kRows = 5, kVocab = 1000;
  Rig rig(ops);
  std::vector<SampleRow> rows;
  for (int i = 0; i < kRows; ++i)
    rows.push_back(
        {.temperature = 1, .top_k = i * 10, .seed = uint64_t(i), .position = 3, .logprobs = 2});
  const Tensor logits = rig.normal(DType::f32, {kRows, kVocab}, 1, 3);
  const std::vector<Sampled> together = sample_rows(rig, logits, rows, kVocab);
  const Tensor again = rig.normal(DType::f32, {kRows, kVocab}, 1, 3);
  for (int i = 0; i < kRows; ++i) {
    const Sampled alone = sample_rows(rig, again.rows(i, 1), {rows[size_t(i)]}, kVocab)[0];
    EXPECT_EQ(alone.token, together[size_t(i)].token) << i;
    EXPECT_EQ(alone.logprob, together[size_t(i)].logprob) << i;
  }
}

TEST_P(Sampling, rows_for_later_are_let_be) {
  const Ops& ops = *GetParam();
  Rig rig(ops);
  const Tensor logits = rig.put(DType::f32, {3, 4}, {1, 2, 3, 4, 4, 3, 2, 1, 1, 9, 1, 1});
  const uint32_t allowed = 0b0110;
  const SampleRow greedy = {.temperature = 0}, later = {.temperature = 0, .later = true};
  const SampleRow masked = {.temperature = 0, .allowed = &allowed};
  const auto first = sample_rows(rig, logits, {greedy, later, greedy}, 4);
  EXPECT_EQ(first[0].token, 3);
  EXPECT_EQ(first[2].token, 1);
  const auto second = sample_rows(rig, logits, {later, masked, later}, 4);
  EXPECT_EQ(second[1].token, 1);
}

std::vector<float> normal_numbers(int count, float size) {
  std::vector<float> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(size * normal_number(5, uint64_t(i)));
  return numbers;
}

// The same logits for each wish. With a row more, for later, there are too many for the way of few.
std::vector<Sampled> for_each(const std::vector<SampleRow>& wishes,
                              const std::vector<float>& logits, const Ops& ops, bool one_more) {
  std::vector<SampleRow> rows = wishes;
  if (one_more) rows.insert(rows.begin(), SampleRow{.later = true});
  std::vector<float> all;
  for (size_t i = 0; i < rows.size(); ++i) all.insert(all.end(), logits.begin(), logits.end());
  Rig rig(ops);
  const int vocab = int(logits.size());
  auto results =
      sample_rows(rig, rig.put(DType::f32, {int64_t(rows.size()), vocab}, all), rows, vocab);
  return {results.end() - long(wishes.size()), results.end()};
}

// Wider than any block: every part of a row is looked at, and the model's own width.
TEST_P(Sampling, wide_rows) {
  const Ops& ops = *GetParam();
  const std::vector<SampleRow> wishes = {
      {.temperature = 0, .logprobs = 2},
      {.temperature = 1, .seed = 7, .position = 3},
      {.temperature = 0.7f, .top_k = 50, .top_p = 0.9f, .seed = 8, .position = 4},
      {.temperature = 30, .top_p = 0.9f, .seed = 9, .position = 5}};
  for (const int vocab : {4097, 201088}) {
    const std::vector<float> row = normal_numbers(vocab, 3);
    const std::vector<Sampled> want = for_each(wishes, row, reference_ops(), false);
    EXPECT_EQ(want[0].token, std::max_element(row.begin(), row.end()) - row.begin());
    for (const bool one_more : {false, true}) {
      const std::vector<Sampled> got = for_each(wishes, row, ops, one_more);
      for (size_t i = 0; i < wishes.size(); ++i) {
        EXPECT_EQ(got[i].token, want[i].token) << i;
        EXPECT_NEAR(double(got[i].logprob), double(want[i].logprob), 1e-5);
      }
    }
  }
}

// Logits that are all equal, nearly so, or far apart: the cuts lie among tens of thousands of tokens. An odd width:
// rows begin at any multiple of four bytes.
TEST_P(Sampling, filters_on_wide_rows) {
  const Ops& ops = *GetParam();
  const std::vector<SampleRow> wishes = {
      {.top_p = 0.9f, .seed = 1},
      {.top_k = 30000, .seed = 2},
      {.top_k = 1000, .top_p = 0.3f, .seed = 3},
      {.top_k = 39000, .top_p = 0.95f, .min_p = 0.05f, .seed = 4}};
  const std::pair<float, bool> spreads[] = {
      {0, false}, {0, true}, {1e-3f, false}, {1, true}, {9, false}};
  for (const auto& [size, one_more] : spreads) {
    const std::vector<float> logits = normal_numbers(40003, size);
    const std::vector<Sampled> want = for_each(wishes, logits, reference_ops(), false);
    const std::vector<Sampled> got = for_each(wishes, logits, ops, one_more);
    for (size_t i = 0; i < wishes.size(); ++i)
      EXPECT_EQ(got[i].token, want[i].token) << "size " << size << ", wish " << i;
  }
}

// The definition, with a full sort.
int by_sorting(std::vector<float> logits, const SampleRow& row) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return logits[size_t(a)] > logits[size_t(b)]; });
  const double most = double(logits[size_t(order[0])]);
  const auto weight = [&](int token) {
    return double(
        std::exp(float((double(logits[size_t(token)]) - most) / double(row.temperature))));
  };
  if (row.top_k > 0 && size_t(row.top_k) < order.size()) order.resize(size_t(row.top_k));
  std::erase_if(order, [&](int token) { return weight(token) < double(row.min_p); });
  double total = 0;
  for (const int token : order) total += weight(token);
  if (row.top_p < 1) {
    double kept = 0;
    size_t count = 0;
    while (count < order.size() && (count == 0 || kept < double(row.top_p) * total))
      kept += weight(order[count++]);
    order.resize(count);
    total = kept;
  }
  std::sort(order.begin(), order.end());
  const double target = double(random_unit(row.seed, row.position)) * total;
  double passed = 0;
  for (const int token : order)
    if ((passed += weight(token)) > target) return token;
  return order.back();
}

// All parameters at random, on vocabularies with many equal logits and without: 400 problems.
TEST_P(Sampling, agrees_with_the_definition) {
  const Ops& ops = *GetParam();
  uint64_t i = 0;
  for (const int vocab : {1, 3, 40, 900, 2, 17, 255, 256, 511, 770}) {
    const size_t count = i < 16 ? 4 : 64;
    std::vector<SampleRow> rows;
    std::vector<float> all;
    for (size_t k = 0; k < count; ++k, ++i) {
      const auto unit = [&](uint64_t which) { return random_unit(i, which); };
      for (int t = 0; t < vocab; ++t) {
        const float logit = 4 * normal_number(i + 1000, uint64_t(t));
        all.push_back(unit(1) < 0.3f ? std::round(logit) : logit);
      }
      SampleRow row = {.temperature = 0.2f + 2 * unit(2), .seed = i, .position = i * i};
      if (unit(3) < 0.5f) row.top_k = 1 + int(unit(4) * 100);
      if (unit(5) < 0.7f) row.top_p = 0.3f + 0.69f * unit(6);
      if (unit(7) < 0.3f) row.min_p = 0.2f * unit(8);
      rows.push_back(row);
    }
    Rig rig(ops);
    const auto results =
        sample_rows(rig, rig.put(DType::f32, {int64_t(count), vocab}, all), rows, vocab);
    for (size_t k = 0; k < count; ++k) {
      const auto logits = all.begin() + long(k) * vocab;
      EXPECT_EQ(results[k].token, by_sorting({logits, logits + vocab}, rows[k]))
          << "problem " << i - count + k;
    }
  }
}

}  // namespace
}  // namespace rose
