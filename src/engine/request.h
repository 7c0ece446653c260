// What the engine is asked and what it answers: token ids only, no text and no chat format.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/sample/sample.h"

namespace rose {

struct SamplingParams {
  float temperature = 1;
  int top_k = 0;  // 0 or -1: all
  float top_p = 1;
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  std::vector<TokenBias> logit_bias;
  std::optional<uint64_t> seed;  // none: one is drawn when the request arrives
  int logprobs = -1;             // alternatives for each token, up to kMaxLogprobs; -1: none
};

// What a choice may say, by a rule that the engine need not understand. Asked and told on the engine's
// thread, one token after another.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // One bit a token, as in SampleRow::allowed, for all tokens that exist; good until the next accept().
  virtual std::span<const uint32_t> mask() = 0;
  virtual void accept(int token) = 0;
  virtual bool complete() = 0;  // nothing may follow: the choice ends
};

struct Request {
  std::vector<int> prompt;
  SamplingParams sampling;
  // The first tokens of each choice, given instead of drawn: told like those that are, with the model's
  // log-probabilities. They count as generated in max_tokens and min_tokens, as prompt in penalties.
  std::vector<int> opening = {};
  int choices = 1;               // n: they share the prompt's pages
  int max_tokens = 0;            // to generate; 0: as many as the context holds
  int min_tokens = 0;            // stop tokens are not possible before
  std::vector<int> stop_tokens;  // the token is given out, then the choice ends
  int priority = 0;              // smaller goes first among the waiting
  uint64_t tenant = 0;           // who asks: the waiting of different ones take turns,
  double share = 1;              // by tokens computed for each part of its share
  std::string cache_salt;        // prompts share cached prefixes only with equal salts
  // Makes the constraint of each choice; empty: none. Where it allows nothing but stop tokens,
  // min_tokens gives way.
  std::function<std::unique_ptr<TokenConstraint>()> constraint = {};
};

enum class Finish : uint8_t {
  none,       // goes on
  stop,       // a stop token
  length,     // max_tokens or the end of the context
  cancelled,  // by the client
  failed,     // no token was possible: every logit was masked or NaN
};

struct GeneratedToken {
  int token;
  float logprob = 0;
  std::vector<TokenLogprob> top;  // as many as asked for
};

// News of one choice. Called on the engine's thread, in order: be quick, never block.
struct Update {
  int choice = 0;
  std::vector<GeneratedToken> tokens = {};
  Finish finish = Finish::none;
  int cached_tokens = 0;  // of the prompt, found in the prefix cache
  double waited_s = 0;    // from submit to its first step
};
using Sink = std::function<void(const Update&)>;

}  // namespace rose
