// What a mask costs over the vocabulary of gpt-oss: new (one walk over it) and known (one look).
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "base/json.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"

namespace rose::grammar {
namespace {

const std::shared_ptr<const TokenTrie>& trie() {
  static const auto tokenizer =
      Tokenizer::load(ROSE_SOURCE_DIR "/tests/data/gpt-oss-tokenizer.json.gz");
  ROSE_CHECK(tokenizer.has_value(), "%s", tokenizer.error().message.c_str());
  static const auto made = std::make_shared<const TokenTrie>(*tokenizer);
  return made;
}

std::shared_ptr<Constraint> constraint() {
  Grammar grammar;
  const auto expr = json_schema(grammar, *parse_json(R"({"type":"object","properties":{
      "name":{"type":"string","maxLength":200},"tags":{"type":"array","items":{"type":"string"}},
      "next":{"$ref":"#"}},"required":["name","tags"]})"));
  const Rule root = grammar.declare();
  grammar.define(root, *expr);
  return *Constraint::make(grammar, root, trie());
}

const char* const kDocument =
    R"({"name": "The quick brown fox jumps over the lazy dog.", "tags": ["a long tag of words", "another"],
 "next": {"name": "again", "tags": []}})";

std::vector<int> tokens() {
  static const auto tokenizer =
      Tokenizer::load(ROSE_SOURCE_DIR "/tests/data/gpt-oss-tokenizer.json.gz");
  return tokenizer->encode(kDocument);
}

void write(Matcher matcher, const std::vector<int>& tokens) {
  for (const int token : tokens) {
    benchmark::DoNotOptimize(matcher.mask());
    ROSE_CHECK(matcher.accept(token), "the document is not allowed");
  }
}

// Time for each token, with nothing known of the grammar before the first.
void BM_mask_cold(benchmark::State& state) {
  const std::vector<int> document = tokens();
  for (auto _ : state) {
    state.PauseTiming();
    const auto made = constraint();
    state.ResumeTiming();
    write(Matcher(made), document);
  }
  state.counters["per_token"] =
      benchmark::Counter(double(document.size()), benchmark::Counter::kIsIterationInvariantRate |
                                                      benchmark::Counter::kInvert);
}
BENCHMARK(BM_mask_cold)->Unit(benchmark::kMillisecond);

void BM_mask_warm(benchmark::State& state) {
  const std::vector<int> document = tokens();
  const auto made = constraint();
  write(Matcher(made), document);
  for (auto _ : state) write(Matcher(made), document);
  state.counters["per_token"] =
      benchmark::Counter(double(document.size()), benchmark::Counter::kIsIterationInvariantRate |
                                                      benchmark::Counter::kInvert);
}
BENCHMARK(BM_mask_warm)->Unit(benchmark::kMicrosecond);

void BM_compile(benchmark::State& state) {
  trie();
  for (auto _ : state) benchmark::DoNotOptimize(constraint());
}
BENCHMARK(BM_compile)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rose::grammar
