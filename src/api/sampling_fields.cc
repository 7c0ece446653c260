#include "api/sampling_fields.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

constexpr int kInt = std::numeric_limits<int>::max();
constexpr int kMaxChoices = 128;  // OpenAI's
constexpr size_t kMaxStops = 64;  // OpenAI takes 4
constexpr size_t kMaxStopBytes = 1024;

// A token's id in a string, as the keys of a JSON object must be; -1: it is none.
int64_t token_id(const std::string& text) {
  if (text.empty() || text.size() > 9) return -1;
  int64_t id = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    id = id * 10 + (c - '0');
  }
  return id;
}

void read_bias(Fields& fields, int vocab, std::vector<TokenBias>& into) {
  const Json* bias = fields.object("logit_bias");
  if (!bias) return;
  for (const auto& [key, value] : bias->items()) {
    const int64_t token = token_id(key);
    if (token < 0 || token >= vocab)
      return fields.wrong("logit_bias", strf("key '%s' is no token id in 0..%d",
                                             key.substr(0, 40).c_str(), vocab - 1));
    const double number = value.is_number() ? value.get<double>() : 1e9;
    if (!(std::abs(number) <= 100))
      return fields.wrong(
          "logit_bias", strf("the bias of token %d is %s, wanted a number in -100..100", int(token),
                             kind_of(value).c_str()));
    into.push_back({int(token), float(number)});
  }
}

void read_stop_tokens(Fields& fields, int vocab, std::vector<int>& into) {
  const Json* tokens = fields.array("stop_token_ids");
  if (!tokens) return;
  for (const Json& value : *tokens) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= vocab)
      return fields.wrong("stop_token_ids", strf("has %s, wanted token ids in 0..%d",
                                                 kind_of(value).c_str(), vocab - 1));
    into.push_back(value.get<int>());
  }
}

}  // namespace

void read_stops(Fields& fields, const char* name, std::vector<std::string>& into) {
  const Json* stop = fields.find(name);
  if (!stop) return;
  const auto add = [&](const Json& value) {
    if (!value.is_string())
      return fields.wrong(name,
                          "has " + kind_of(value) + ", wanted a string or an array of strings");
    const std::string& text = value.get_ref<const std::string&>();
    if (text.empty()) return fields.wrong(name, "has an empty string");
    if (text.size() > kMaxStopBytes)
      return fields.wrong(name, strf("has a string of %zu bytes, at most %zu are possible",
                                     text.size(), kMaxStopBytes));
    into.push_back(text);
  };
  if (!stop->is_array()) return add(*stop);
  if (stop->size() > kMaxStops)
    return fields.wrong(name,
                        strf("has %zu strings, at most %zu are possible", stop->size(), kMaxStops));
  for (const Json& value : *stop) add(value);
}

void read_generate_fields(Fields& fields, int vocab, GenerateFields& into) {
  Request& request = into.request;
  SamplingParams& sampling = request.sampling;
  fields.read("temperature", sampling.temperature, 0, 2);
  fields.read("top_p", sampling.top_p, 0, 1);
  if (sampling.top_p == 0) {  // nothing but the likeliest token is left
    sampling.temperature = 0;
    sampling.top_p = 1;
  }
  fields.read("top_k", sampling.top_k, -1, kInt);
  fields.read("min_p", sampling.min_p, 0, 1);
  fields.read("presence_penalty", sampling.presence_penalty, -2, 2);
  fields.read("frequency_penalty", sampling.frequency_penalty, -2, 2);
  fields.read("repeat_penalty", sampling.repetition_penalty, 0.01, 100);
  fields.read("repetition_penalty", sampling.repetition_penalty, 0.01, 100);
  fields.read("seed", sampling.seed);
  read_bias(fields, vocab, sampling.logit_bias);

  fields.read("n", request.choices, 1, kMaxChoices);
  fields.read("min_new_tokens", request.min_tokens, 0, kInt);
  fields.read("min_tokens", request.min_tokens, 0, kInt);
  fields.read("priority", request.priority, -kInt, kInt);
  fields.read("cache_salt", request.cache_salt);

  // The names of one limit; where several are given all hold, so the smallest does.
  for (const char* name :
       {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"}) {
    int limit = 0;
    fields.read(name, limit, std::string_view(name) == "n_predict" ? -1 : 1, kInt);
    if (limit > 0)
      request.max_tokens = request.max_tokens ? std::min(request.max_tokens, limit) : limit;
  }
  if (request.max_tokens > 0 && request.min_tokens > request.max_tokens)
    fields.wrong("min_tokens",
                 strf("%d is more than max_tokens, %d", request.min_tokens, request.max_tokens));

  read_stops(fields, "stop", into.stop);
  read_stop_tokens(fields, vocab, request.stop_tokens);
  fields.read("include_stop_str_in_output", into.include_stop);
  fields.read("ignore_eos", into.ignore_eos);
}

}  // namespace rose
