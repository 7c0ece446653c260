// One token for each row of logits. In this order: NaN -> -inf; tokens at or past `vocab` and those
// whose bit in `allowed` is 0 or that are `banned` -> -inf; log-probabilities are taken here, of the
// model's own distribution; logit bias; repetition, presence and frequency penalties; temperature; top-k;
// min-p; top-p; then a draw by inverse distribution over what is left, in the order of token ids, with
// random_unit(seed, position) (base/rng.h), so that a row's result does not depend on its neighbours.
// Temperature 0 takes the largest logit, the lowest id where equal.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace rose {

inline constexpr int kMaxLogprobs = 20;

struct TokenBias {
  int token;
  float bias;  // added to the logit
};

struct TokenCount {
  int token;
  int generated;   // times it was generated: presence and frequency penalties
  bool in_prompt;  // repetition penalty counts the prompt too
};

// How one row is sampled. The spans' owner is the sequence.
struct SampleRow {
  float temperature = 1;
  int top_k = 0;  // 0: all
  float top_p = 1;
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  uint64_t seed = 0;
  uint64_t position = 0;
  int logprobs = -1;  // alternatives wanted, up to kMaxLogprobs; -1: not even the token's own
  std::span<const TokenBias> bias = {};
  std::span<const TokenCount> counts = {};
  std::span<const int> banned = {};   // stop tokens while fewer than min_tokens are out
  const uint32_t* allowed = nullptr;  // one bit a token, or none
};

struct TokenLogprob {
  int token;
  float logprob;
};

struct Sampled {
  int token = -1;  // -1: no token was possible (every logit -inf)
  float logprob = 0;
  std::vector<TokenLogprob> top;  // largest first
};

struct Sample {
  Tensor logits;  // [rows, columns]  f32, overwritten
  int vocab = 0;  // tokens that exist; the columns past it are padding
  std::span<const SampleRow> rows;
  std::span<Sampled> results;  // on the host when the stream is synchronised
};

}  // namespace rose
