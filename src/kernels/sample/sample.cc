// A row costs a few passes over the vocabulary and never a full sort: filters keep a set of candidates,
// found by selection; the draw walks the kept weights in the order of token ids.
#include "kernels/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/ref.h"

namespace rose {

namespace {

size_t words_of(int vocab) { return size_t(vocab + 31) / 32; }

// Every list of a row, as bytes and a way to say where they are now; pieces stay aligned.
constexpr size_t kAlign = 8;
size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

int64_t list_bytes(std::span<const SampleRow> rows, int vocab) {
  size_t bytes = 0;
  for (const SampleRow& row : rows)
    bytes += aligned(row.bias.size_bytes()) + aligned(row.counts.size_bytes()) +
             aligned(row.banned.size_bytes()) +
             (row.allowed ? aligned(words_of(vocab) * sizeof(uint32_t)) : 0);
  return int64_t(bytes);
}

void place_lists(std::span<SampleRow> rows, int vocab, uint8_t* staging, const void* device) {
  size_t at = 0;
  const auto place = [&]<class T>(std::span<const T>& list) {
    if (list.empty()) return;
    std::memcpy(staging + at, list.data(), list.size_bytes());
    const void* there = static_cast<const uint8_t*>(device) + at;
    at += aligned(list.size_bytes());
    list = {static_cast<const T*>(there), list.size()};
  };
  for (SampleRow& row : rows) {
    place(row.bias);
    place(row.counts);
    place(row.banned);
    std::span<const uint32_t> mask(row.allowed, row.allowed ? words_of(vocab) : 0);
    place(mask);
    row.allowed = mask.data();
  }
}

}  // namespace rose

namespace rose::ref {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Candidate {
  int token;
  float value;  // a logit, or a weight: exp of a logit
};

// The order in which filters keep tokens: a total one, so that a kept set is unique.
bool before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

// NaN is -inf, +inf the largest number.
float comparable(float x) {
  return std::isnan(x) ? kNever : std::min(x, std::numeric_limits<float>::max());
}

// Every number becomes comparable; what may not be sampled is -inf.
void clean(const SampleRow& row, float* logits, int vocab) {
  for (int i = 0; i < vocab; ++i) {
    const bool allowed = !row.allowed || (row.allowed[i / 32] >> (i % 32) & 1);
    logits[i] = allowed ? comparable(logits[i]) : kNever;
  }
  for (const int token : row.banned)
    if (token >= 0 && token < vocab) logits[token] = kNever;
}

// The first of the largest; -1 where all are -inf.
int largest(const float* logits, int vocab) {
  int best = -1;
  for (int i = 0; i < vocab; ++i)
    if (logits[i] > (best < 0 ? kNever : logits[best])) best = i;
  return best;
}

// The `count` first in the order of `before`, sorted. The heap keeps the worst of them on top, so most
// tokens cost one comparison.
std::vector<Candidate> top(const float* logits, int vocab, int count) {
  std::vector<Candidate> heap;
  for (int i = 0; i < vocab; ++i) {
    const Candidate one = {i, logits[i]};
    if (one.value == kNever || (int(heap.size()) == count && !before(one, heap.front()))) continue;
    if (int(heap.size()) == count) {
      std::pop_heap(heap.begin(), heap.end(), before);
      heap.pop_back();
    }
    heap.push_back(one);
    std::push_heap(heap.begin(), heap.end(), before);
  }
  std::sort_heap(heap.begin(), heap.end(), before);
  return heap;
}

// log sum exp(logit), so that logit - this is a log-probability.
double log_total(const float* logits, int vocab, double most) {
  double total = 0;
  for (int i = 0; i < vocab; ++i) total += std::exp(logits[i] - most);
  return most + std::log(total);
}

void penalise(const SampleRow& row, float* logits, int vocab) {
  for (const TokenBias& bias : row.bias)
    if (bias.token >= 0 && bias.token < vocab)
      logits[bias.token] = comparable(logits[bias.token] + bias.bias);
  for (const TokenCount& count : row.counts) {
    if (count.token < 0 || count.token >= vocab) continue;
    float& logit = logits[count.token];
    if (count.in_prompt || count.generated > 0)
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    if (count.generated > 0)
      logit -= row.presence_penalty + row.frequency_penalty * float(count.generated);
    // -inf times a penalty of 0 is NaN: what may not be sampled stays so.
    logit = comparable(logit);
  }
}

double sum(const std::vector<Candidate>& candidates, size_t begin, size_t end) {
  double total = 0;
  for (size_t i = begin; i < end; ++i) total += candidates[i].value;
  return total;
}

// Keeps the first candidates in the order of `before` whose values add up to `mass` or more: halves the
// part where the boundary lies, so the work is linear in the whole.
void keep_mass(std::vector<Candidate>& candidates, double mass) {
  size_t begin = 0, end = candidates.size();
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(candidates.begin() + long(begin), candidates.begin() + long(middle),
                     candidates.begin() + long(end), before);
    const double upper = sum(candidates, begin, middle);
    if (upper >= mass) {
      end = middle;
    } else {
      mass -= upper;
      begin = middle;
    }
  }
  candidates.resize(end);
}

// Top-k, min-p and top-p, on weights exp((logit - most) / temperature).
void filter(const SampleRow& row, std::vector<Candidate>& candidates) {
  if (row.top_k > 0 && size_t(row.top_k) < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + row.top_k, candidates.end(), before);
    candidates.resize(size_t(row.top_k));
  }
  // The largest weight is exp(0) = 1, so min-p is a bound on the weight itself.
  if (row.min_p > 0)
    std::erase_if(candidates,
                  [&](const Candidate& one) { return one.value < std::min(row.min_p, 1.0f); });
  if (row.top_p < 1) {
    const double total = sum(candidates, 0, candidates.size());
    // All those under this bound together weigh less than what top-p leaves out: no need to order them.
    // Half of it, so that rounding never empties the set.
    const double bound = 0.5 * (1 - double(row.top_p)) * total / double(candidates.size());
    std::erase_if(candidates, [&](const Candidate& one) { return one.value < bound; });
    keep_mass(candidates, double(row.top_p) * total);
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

// The token at which the sum of the weights, in the order of ids, passes a random share of the whole.
int draw(const SampleRow& row, const float* logits, int vocab, double most) {
  const bool filters = row.top_k > 0 || row.min_p > 0 || row.top_p < 1;
  std::vector<Candidate> candidates;
  candidates.reserve(size_t(vocab));
  for (int i = 0; i < vocab; ++i) {
    const float weight = std::exp(float((logits[i] - most) / double(row.temperature)));
    if (weight > 0) candidates.push_back({i, weight});
  }
  if (filters) filter(row, candidates);

  const double target =
      double(random_unit(row.seed, row.position)) * sum(candidates, 0, candidates.size());
  double passed = 0;
  for (const Candidate& one : candidates) {
    passed += one.value;
    if (passed > target) return one.token;
  }
  return candidates.back().token;
}

Sampled sample_row(const SampleRow& row, float* logits, int vocab, std::vector<float>& own) {
  Sampled result = {};
  clean(row, logits, vocab);
  int best = largest(logits, vocab);
  if (best < 0) return result;

  own.assign(logits, logits + vocab);  // the model's own, for log-probabilities
  const double own_most = own[size_t(best)];
  penalise(row, logits, vocab);
  best = largest(logits, vocab);
  if (best < 0) return result;
  result.token = row.temperature > 0 ? draw(row, logits, vocab, logits[best]) : best;

  if (row.logprobs >= 0) {
    const double total = log_total(own.data(), vocab, own_most);
    result.logprob = float(own[size_t(result.token)] - total);
    if (row.logprobs > 0)
      for (const Candidate& one : top(own.data(), vocab, std::min(row.logprobs, kMaxLogprobs)))
        result.top[result.tops++] = {one.token, float(one.value - total)};
  }
  return result;
}

}  // namespace

void sample(Stream& stream, const Sample& op) {
  Dim rows("rows"), columns("columns");
  shape_check("sample", op.logits, "logits", {&rows, &columns});
  shape_check("sample", op.tokens, "tokens", {&rows});
  ROSE_CHECK(op.vocab <= columns, "sample: vocab %d, %ld columns", op.vocab, long(columns));

  stream.threads->parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> own;
    for (int64_t i = begin; i < end; ++i) {
      const SampleRow& row = op.rows[i];
      if (row.later) continue;
      const Sampled result = sample_row(row, op.logits.as<float>() + i * columns, op.vocab, own);
      op.tokens.as<int32_t>()[i] = result.token;
      if (row.result) *row.result = result;
    }
  });
}

}  // namespace rose::ref
