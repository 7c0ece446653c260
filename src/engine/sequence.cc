#include "engine/sequence.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/rng.h"

namespace rose {

namespace {

constexpr float kSure = 1e30f;  // no logit comes near

}  // namespace

void Sequence::count(int token, bool in_prompt) {
  const auto [place, added] = count_of_.try_emplace(token, counts_.size());
  if (added) counts_.push_back({.token = token, .generated = 0, .in_prompt = false});
  TokenCount& counted = counts_[place->second];
  if (in_prompt)
    counted.in_prompt = true;
  else
    ++counted.generated;
}

Finish Sequence::append(int token) {
  const bool given = is_given(int(tokens.size()));
  tokens.push_back(token);
  length = std::max(length, int(tokens.size()));
  if (penalized()) count(token, given);
  if (given) return int(tokens.size()) >= max_length ? Finish::length : Finish::none;
  if (constraint) constraint->accept(token);
  if (std::find(stop_tokens.begin(), stop_tokens.end(), token) != stop_tokens.end())
    return Finish::stop;
  if (constraint && constraint->complete()) return Finish::stop;
  return int(tokens.size()) >= max_length ? Finish::length : Finish::none;
}

SampleRow Sequence::sample_row(int position) const {
  SampleRow row = {
      .temperature = sampling.temperature,
      .top_k = std::max(sampling.top_k, 0),
      .top_p = sampling.top_p,
      .min_p = sampling.min_p,
      .presence_penalty = sampling.presence_penalty,
      .frequency_penalty = sampling.frequency_penalty,
      .repetition_penalty = sampling.repetition_penalty,
      .seed = seed,
      .position = uint64_t(position),
      .logprobs = sampling.logprobs,
      .bias = sampling.logit_bias,
      .counts = counts_,
      .later = constraint != nullptr,
  };
  ROSE_CHECK(!depends_on_tokens() || position == int(tokens.size()),
             "sequence: token %d depends on those before, of which %zu are known", position,
             tokens.size());
  if (is_given(position))  // log-probabilities are taken before the bias
    return {.temperature = 0,
            .logprobs = sampling.logprobs,
            .bias = {&opening[size_t(position - prompt)], 1}};
  if (position < min_length && !constraint) row.banned = stop_tokens;
  return row;
}

void Sequence::constrain(SampleRow& row) const {
  const std::span<const uint32_t> allowed = constraint->mask();
  row.allowed = allowed.data();
  row.later = false;
  if (int(row.position) < min_length && may_go_on(allowed)) row.banned = stop_tokens;
}

// A token that does not stop is possible.
bool Sequence::may_go_on(std::span<const uint32_t> allowed) const {
  for (size_t word = 0; word < allowed.size(); ++word)
    for (uint32_t bits = allowed[word]; bits; bits &= bits - 1) {
      const int token = int(word) * 32 + std::countr_zero(bits);
      if (std::find(stop_tokens.begin(), stop_tokens.end(), token) == stop_tokens.end())
        return true;
    }
  return false;
}

std::unique_ptr<Sequence> make_sequence(const Request& request, uint64_t id, int choice,
                                        uint64_t seed, int max_context) {
  auto sequence = std::make_unique<Sequence>();
  const int prompt = int(request.prompt.size());
  sequence->request = id;
  sequence->choice = choice;
  sequence->priority = request.priority;
  sequence->tenant = request.tenant;
  sequence->share = request.share;
  sequence->sampling = request.sampling;
  sequence->seed = choice == 0 ? seed : random_bits(seed, uint64_t(choice));
  sequence->stop_tokens = request.stop_tokens;
  sequence->prompt = prompt;
  const int room = max_context - prompt;
  sequence->max_length =
      prompt + (request.max_tokens > 0 ? std::min(request.max_tokens, room) : room);
  sequence->min_length = prompt + std::min(request.min_tokens, room);
  sequence->salt = request.cache_salt;
  if (request.constraint) sequence->constraint = request.constraint();
  for (const int token : request.opening) sequence->opening.push_back({token, kSure});
  sequence->tokens = request.prompt;
  sequence->length = prompt;
  if (sequence->penalized())
    for (const int token : request.prompt) sequence->count(token, true);
  return sequence;
}

namespace {

Status refuse(std::string message) { return fail(ErrorKind::invalid, std::move(message)); }

Status check_tokens(const char* what, const std::vector<int>& tokens, int vocab) {
  for (const int token : tokens)
    if (token < 0 || token >= vocab)
      return refuse(strf("%s has token %d; the vocabulary ends at %d", what, token, vocab - 1));
  return Done{};
}

Status check_sampling(const SamplingParams& sampling, int vocab) {
  struct Range {
    const char* name;
    float value, low, high;
  };
  constexpr float kBig = 1e30f;
  const Range ranges[] = {
      {"temperature", sampling.temperature, 0, kBig},
      {"top_p", sampling.top_p, 0, 1},
      {"min_p", sampling.min_p, 0, 1},
      {"presence_penalty", sampling.presence_penalty, -kBig, kBig},
      {"frequency_penalty", sampling.frequency_penalty, -kBig, kBig},
      {"repetition_penalty", sampling.repetition_penalty, 1e-30f, kBig},
  };
  for (const Range& range : ranges)
    if (!(range.value >= range.low && range.value <= range.high))  // a NaN is in no range
      return refuse(strf("%s is %g, must be from %g to %g", range.name, double(range.value),
                         double(range.low), double(range.high)));
  if (sampling.top_p == 0) return refuse("top_p is 0, must be more");
  if (sampling.top_k < -1)
    return refuse(strf("top_k is %d, must be a count, or 0 or -1 for all", sampling.top_k));
  if (sampling.logprobs < -1 || sampling.logprobs > kMaxLogprobs)
    return refuse(
        strf("%d alternatives asked for, at most %d can be had", sampling.logprobs, kMaxLogprobs));
  for (const TokenBias& bias : sampling.logit_bias) {
    TRY(check_tokens("logit_bias", {bias.token}, vocab));
    if (!std::isfinite(bias.bias))
      return refuse(strf("logit_bias of token %d is not a finite number", bias.token));
  }
  return Done{};
}

}  // namespace

Status check_request(const Request& request, int max_context, int vocab) {
  constexpr int kMaxChoices = 128;
  if (request.prompt.empty()) return refuse("the prompt is empty, it needs one token at least");
  const size_t known = request.prompt.size() + request.opening.size();
  if (known >= size_t(max_context))
    return refuse(
        strf("the prompt has %zu tokens; the context is %d tokens, one of which must be "
             "left for the answer",
             known, max_context));
  TRY(check_tokens("the prompt", request.prompt, vocab));
  TRY(check_tokens("the opening", request.opening, vocab));
  TRY(check_tokens("the list of stop tokens", request.stop_tokens, vocab));
  if (request.choices < 1 || request.choices > kMaxChoices)
    return refuse(strf("%d choices asked for, must be from 1 to %d", request.choices, kMaxChoices));
  if (request.max_tokens < 0)
    return refuse(
        strf("max_tokens is %d, must be 1 or more, or 0 for no limit", request.max_tokens));
  if (request.min_tokens < 0)
    return refuse(strf("min_tokens is %d, must be 0 or more", request.min_tokens));
  if (request.max_tokens > 0 && request.opening.size() > size_t(request.max_tokens))
    return refuse(strf("max_tokens is %d, the opening alone has %zu", request.max_tokens,
                       request.opening.size()));
  if (request.max_tokens > 0 && request.min_tokens > request.max_tokens)
    return refuse(strf("min_tokens is %d, more than max_tokens, which is %d", request.min_tokens,
                       request.max_tokens));
  if (!(request.share > 0)) return refuse("the tenant's share is not above 0");
  return check_sampling(request.sampling, vocab);
}

}  // namespace rose
