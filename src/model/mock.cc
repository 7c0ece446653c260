#include "model/mock.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "device/arena.h"
#include "kernels/sample/sample.h"
#include "model/recipe.h"

namespace rose {

namespace {

std::chrono::nanoseconds seconds(double count) {
  return std::chrono::nanoseconds(int64_t(count * 1e9));
}

bool possible(const SampleRow& row, int token) {
  if (row.allowed && !(row.allowed[token / 32] >> (token % 32) & 1)) return false;
  return std::find(row.banned.begin(), row.banned.end(), token) == row.banned.end();
}

constexpr float kOverwhelming = 1e6f;  // a bias that decides

// `wanted`, unless a bias makes sure of another; or the first possible token from a place that seed and position draw; -1: there is none.
int choose(const SampleRow& row, int wanted, int vocab) {
  for (const TokenBias& bias : row.bias)
    if (bias.bias > kOverwhelming) wanted = bias.token;
  if (possible(row, wanted)) return wanted;
  const int start = int(random_bits(row.seed, row.position) % uint64_t(vocab));
  for (int i = 0; i < vocab; ++i)
    if (const int token = (start + i) % vocab; possible(row, token)) return token;
  return -1;
}

// The "logits" are one column: the script's token.
void sample(Stream&, const Sample& op) {
  for (int i = 0; i < op.logits.dim(0); ++i) {
    const SampleRow& row = op.rows[i];
    if (row.later) continue;
    Sampled result = {.token = choose(row, int(op.logits.as<float>()[i]), op.vocab),
                      .logprob = -0.125f,
                      .top = {}};
    for (; result.tops < row.logprobs; ++result.tops)
      result.top[result.tops] = {(result.token + result.tops) % op.vocab,
                                 -0.125f * float(result.tops + 1)};
    op.tokens.as<int32_t>()[i] = result.token;
    *row.result = result;
  }
}

const Ops& mock_ops() {
  static const Ops kMock = {
      .name = "mock",
      .device = &host_device(),
      .defaults = {.recipe = "f32", .step_tokens = 1 << 16, .kv_bytes = 64 << 20},
      .sample = sample,
  };
  return kMock;
}

class MockModel final : public Model {
 public:
  MockModel(ModelConfig config, std::vector<int> script, const MockOptions& options)
      : config_(std::move(config)),
        script_(std::move(script)),
        step_(options.speed > 0 ? seconds(1 / options.speed) : seconds(0)),
        prompt_token_(options.prefill_speed > 0 ? seconds(1 / options.prefill_speed) : seconds(0)) {
  }

  const ModelConfig& config() const override { return config_; }
  KvSpec kv_spec(DType) const override {
    return {.layers = {{Pool::sliding}, {Pool::full}},
            .kv_heads = 1,
            .head_dim = 1,
            .window = config_.window,
            .dtype = DType::f32};
  }
  std::vector<WeightRow> weights() override { return {}; }
  Status prepare(Stream&) override { return Done{}; }
  Tensor forward(Pass& pass) const override;

 private:
  void keep_pace(int prompt_tokens) const;

  ModelConfig config_;
  std::vector<int> script_;
  std::chrono::nanoseconds step_, prompt_token_;
  mutable Time due_;  // when the last step ended, by its schedule
};

float& cell(const Pass& pass, int layer, int row, int position) {
  const KvLayer& kv = pass.kv.layer(layer);
  const Tensor& table = pass.batch.pages[int(kv.pool)];
  const int64_t seq = pass.batch.sequence.as<int32_t>()[row];
  const int page = table.as<int32_t>()[seq * table.dim(1) + position / kPageSize];
  ROSE_CHECK(page >= 0 && page < kv.pages.dim(0), "mock: position %d is in no page", position);
  return kv.pages.as<float>()[int64_t(page) * 2 * kPageSize + position % kPageSize];
}

// A token that goes on with the script takes it one further, any other begins anew: so the end of a
// prompt stands at the script's beginning, whatever was said before.
Tensor MockModel::forward(Pass& pass) const {
  const Batch& batch = pass.batch;
  for (int row = 0; row < batch.tokens; ++row) {
    const int position = batch.positions.as<int32_t>()[row];
    const int before = position == 0 ? 0 : int(cell(pass, 1, row, position - 1));
    ROSE_CHECK(position == 0 || before == int(cell(pass, 0, row, position - 1)),
               "mock: the pools disagree about position %d", position - 1);
    const bool follows = batch.token_ids.as<int32_t>()[row] == script_[size_t(before)];
    const int now = follows ? (before + 1) % int(script_.size()) : 0;
    for (const int layer : {0, 1}) cell(pass, layer, row, position) = float(now);
  }
  const int samples = int(batch.sampled.dim(0));
  const Tensor wanted = pass.stream.scratch->take(DType::f32, {samples, 1});
  for (int i = 0; i < samples; ++i) {
    const int row = batch.sampled.as<int32_t>()[i];
    const int state = int(cell(pass, 1, row, batch.positions.as<int32_t>()[row]));
    wanted.as<float>()[i] = float(script_[size_t(state)]);
  }
  keep_pace(batch.tokens - batch.seqs);
  return wanted;
}

// Steps end on a schedule of their own, so that one that came late does not delay all after it; after a
// pause the schedule begins anew.
void MockModel::keep_pace(int prompt_tokens) const {
  const std::chrono::nanoseconds step = step_ + prompt_tokens * prompt_token_;
  if (step.count() == 0) return;
  due_ += step;
  const Time now = Clock::now();
  if (due_ + std::max<std::chrono::nanoseconds>(step_, std::chrono::seconds(1)) < now)
    due_ = now + step;
  std::this_thread::sleep_until(due_);
}

Status check(const MockOptions& options) {
  for (const double value : {options.speed, options.prefill_speed, options.load_s})
    if (value < 0)
      return fail(ErrorKind::usage, strf("--mock-…: %g, wanted a number of 0 or more", value));
  if (options.answer_tokens < 0)
    return fail(ErrorKind::usage,
                strf("--mock-answer-tokens: %d, wanted 0 or more", options.answer_tokens));
  return Done{};
}

}  // namespace

std::string mock_answer(const MockOptions& options) {
  if (!options.answer.empty()) return options.answer;
  std::string words = "This is what a model would say.";
  if (options.answer_tokens > 0) words = "word";
  for (int i = 1; i < options.answer_tokens; ++i) words += " word";
  const std::string thoughts =
      options.answer_tokens > 0
          ? ""
          : "<|channel|>analysis<|message|>I have no weights.<|end|><|start|>assistant";
  return thoughts + "<|channel|>final<|message|>" + words + "<|return|>";
}

Result<LoadedModel> make_mock(const std::string& folder, std::vector<int> script,
                              const MockOptions& options,
                              const std::function<void(const LoadProgress&)>& progress) {
  TRY(check(options));
  LoadedModel loaded;
  ModelConfig config = TRY(within(read_config(folder), "the sizes of the mock"));
  if (script.empty()) return fail(ErrorKind::usage, "--mock-answer: no tokens");
  for (const int token : script)
    if (token >= config.vocab)
      return fail(ErrorKind::invalid, strf("--mock-answer: token %d; the model of %s has %d rows",
                                           token, folder.c_str(), config.vocab));
  loaded.model = std::make_unique<MockModel>(std::move(config), std::move(script), options);
  loaded.recipe = TRY(find_recipe("f32"));
  loaded.ops = &mock_ops();
  loaded.folder = folder;

  constexpr int kParts = 100;
  for (int part = 0; part <= kParts && options.load_s > 0; ++part) {
    if (progress)
      progress({.phase = "weights",
                .bytes = part * int64_t(1'000'000),
                .total = kParts * int64_t(1'000'000),
                .seconds = options.load_s * part / kParts});
    if (part < kParts) std::this_thread::sleep_for(seconds(options.load_s / kParts));
  }
  return loaded;
}

}  // namespace rose
