// One token for each row of logits. In this order: NaN -> -inf; tokens at or past `vocab` and those
// whose bit in `allowed` is 0 or that are `banned` -> -inf; log-probabilities are taken here, of the
// model's own distribution; logit bias; repetition, presence and frequency penalties; temperature; top-k;
// min-p; top-p; then a draw by inverse distribution over what is left, in the order of token ids, with
// random_unit(seed, position) (base/rng.h), so that a row's result does not depend on its neighbours.
// Temperature 0 takes the largest logit, the lowest id where equal.
#pragma once
#include <cstdint>
#include <span>

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

struct TokenLogprob {
  int token;
  float logprob;
};

struct Sampled {
  int token = -1;  // -1: no token was possible (every logit -inf)
  float logprob = 0;
  int tops = 0;
  TokenLogprob top[kMaxLogprobs];  // the first `tops`, largest first

  std::span<const TokenLogprob> alternatives() const { return {top, size_t(tops)}; }
};

// How one row is sampled: plain data that waits in the device's memory, so that a recorded step serves
// any wishes. An op finds the lists there too; place_lists takes them along.
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
  Sampled* result = nullptr;          // in host memory that the device may write
  bool later = false;                 // not by this call: nothing of the row is touched
};

struct Sample {
  Tensor tokens;                    // [rows]  i32: what was drawn, for the next step
  Tensor logits;                    // [rows, columns]  f32, overwritten
  const SampleRow* rows = nullptr;  // [rows], in the device's memory
  int vocab = 0;                    // tokens that exist; the columns past it are padding
};

// Bytes of all the rows' lists, of `vocab` tokens.
int64_t list_bytes(std::span<const SampleRow> rows, int vocab);

// Copies the lists into `staging` and lets the rows point into `device`, where it is about to be copied.
void place_lists(std::span<SampleRow> rows, int vocab, uint8_t* staging, const void* device);

}  // namespace rose
