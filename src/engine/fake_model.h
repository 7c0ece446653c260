// A model for tests of the engine: its "keys" are the token ids themselves, and its logits are a hash
// of every token that it sees in the pages. A wrong page, a page that was given away too early or a
// window that is off by one changes the tokens that come out.
#pragma once
#include <functional>

#include "base/rng.h"
#include "device/arena.h"
#include "model/loader.h"

namespace rose::testing {

inline constexpr int kFakeVocab = 61;
inline constexpr int kFakeWindow = 128;

// Two views of a sequence, as hashes: all of it, and its last window.
inline uint64_t hash_token(uint64_t hash, int position, int token) {
  return hash + scatter(uint64_t(position) * 1000003 + uint64_t(token) + 1);
}
inline float fake_logit(uint64_t all, uint64_t window, int token) {
  return 8 * random_unit(all ^ scatter(window), uint64_t(token));
}

// The token with the largest logit.
inline int fake_choice(uint64_t all, uint64_t window) {
  int best = 0;
  for (int token = 1; token < kFakeVocab; ++token)
    if (fake_logit(all, window, token) > fake_logit(all, window, best)) best = token;
  return best;
}

// What greedy decoding must give after `tokens`, computed without pages.
inline int fake_next(const std::vector<int>& tokens) {
  uint64_t all = 0, window = 0;
  const int size = int(tokens.size());
  for (int i = 0; i < size; ++i) {
    all = hash_token(all, i, tokens[size_t(i)]);
    if (i > size - 1 - kFakeWindow) window = hash_token(window, i, tokens[size_t(i)]);
  }
  return fake_choice(all, window);
}
inline std::vector<int> fake_answer(std::vector<int> tokens, int count) {
  const size_t prompt = tokens.size();
  for (int i = 0; i < count; ++i) tokens.push_back(fake_next(tokens));
  return {tokens.begin() + std::ptrdiff_t(prompt), tokens.end()};
}

class FakeModel final : public Model {
 public:
  FakeModel() {
    config_.architecture = "Fake";
    config_.vocab = kFakeVocab;
    config_.max_context = 1 << 20;
    config_.window = kFakeWindow;
  }
  const ModelConfig& config() const override { return config_; }
  KvSpec kv_spec(DType) const override {
    return {.layers = {{Pool::sliding}, {Pool::full}},
            .kv_heads = 1,
            .head_dim = 1,
            .window = kFakeWindow,
            .dtype = DType::f32};
  }
  std::vector<WeightRow> weights() override { return {}; }
  Status prepare(Stream&) override { return Done{}; }

  Tensor forward(Pass& pass) const override {
    if (before_step) before_step();
    const Batch& batch = pass.batch;
    const auto cell = [&](int layer, int token, int position) -> float& {
      const KvLayer& kv = pass.kv.layer(layer);
      const Tensor& table = batch.pages[int(kv.pool)];
      const int seq = batch.sequence.as<int32_t>()[token];
      const int page = table.as<int32_t>()[seq * table.dim(1) + position / kPageSize];
      ROSE_CHECK(page >= 0 && page < kv.pages.dim(0), "fake model: position %d is in no page",
                 position);
      return kv.pages.as<float>()[int64_t(page) * 2 * kPageSize + position % kPageSize];
    };
    const auto token_id = [&](int t) {
      const int id = batch.token_ids.as<int32_t>()[t];
      return id < 0 ? std::max(batch.newest.as<int32_t>()[-1 - id], 0) : id;
    };
    for (int layer = 0; layer < 2; ++layer)
      for (int t = 0; t < batch.tokens; ++t)
        cell(layer, t, batch.positions.as<int32_t>()[t]) = float(token_id(t));

    const int samples = batch.sampled.dim(0);
    const Tensor logits = pass.stream.scratch->take(DType::f32, {samples, kFakeVocab});
    for (int row = 0; row < samples; ++row) {
      const int t = batch.sampled.as<int32_t>()[row];
      const int position = batch.positions.as<int32_t>()[t];
      uint64_t all = 0, window = 0;
      for (int i = 0; i <= position; ++i) all = hash_token(all, i, int(cell(1, t, i)));
      for (int i = std::max(0, position - kFakeWindow + 1); i <= position; ++i)
        window = hash_token(window, i, int(cell(0, t, i)));
      for (int token = 0; token < kFakeVocab; ++token)
        logits.as<float>()[row * kFakeVocab + token] = fake_logit(all, window, token);
      if (change_logits) change_logits(token_id(t), logits.as<float>() + row * kFakeVocab);
    }
    return logits;
  }

  std::function<void()> before_step;                              // on the engine's thread
  std::function<void(int last_token, float* row)> change_logits;  // of one row

 private:
  ModelConfig config_;
};

// The host as a device that works on its own: launches are there to be waited for, so that the engine
// stays one step ahead, as with a GPU.
inline const Device& late_device() {
  static const Device device = [] {
    Device late = host_device();
    late.name = "late";
    late.make_event = [] { return static_cast<Event*>(nullptr); };
    late.record_event = [](Stream&, Event*) {};
    late.await_event = [](Event*) {};
    late.seconds_between = [](Event*, Event*) { return 0.0; };
    late.release_event = [](Event*) {};
    return late;
  }();
  return device;
}

// All that an engine needs around it.
struct FakeHost {
  explicit FakeHost(const Device& device = host_device())
      : scratch(device), stream{.device = &device, .threads = &threads, .scratch = &scratch} {
    auto owned = std::make_unique<FakeModel>();
    model = owned.get();
    loaded.model = std::move(owned);
    loaded.recipe = &kRecipes[0];
    loaded.ops = &reference_ops();
  }
  FakeModel* model;
  LoadedModel loaded;
  ThreadPool threads{1};
  Arena scratch;
  Stream stream;
};

// As many bytes as give these pools: of the fake model's pages, full and sliding.
inline int64_t fake_page_bytes() { return 2 * kPageSize * 4; }

}  // namespace rose::testing
