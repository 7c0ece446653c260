#include "api/completions_answer.h"

#include <cmath>

#include "api/answer_json.h"
#include "api/chunk_stream.h"
#include "api/intake.h"
#include "api/json_text.h"
#include "base/check.h"

namespace rose {

namespace {

std::string completion_head(const CompletionsAnswerOptions& options) {
  std::string head = "{";
  append_field(head, "id", options.id);
  head += strf(",\"object\":\"text_completion\",\"created\":%ld", long(options.created));
  append_field(head, "model", options.model);
  append_field(head, "system_fingerprint", options.fingerprint);
  return head + ",\"choices\":[";
}

// {"tokens","token_logprobs","top_logprobs","text_offset"}, the offsets from `offset` on. Every token is
// there, also those that show nothing: clients count them.
void append_columns(std::string& out, const Tokenizer& tokenizer, bool shows_specials,
                    const std::vector<GeneratedToken>& tokens, int64_t& offset) {
  std::string names, values, tops, offsets;
  for (const GeneratedToken& token : tokens) {
    const char* comma = names.empty() ? "" : ",";
    const std::string_view bytes = tokenizer.bytes(token.token);
    append_json_string(names += comma, bytes);
    values += comma + logprob_text(token.logprob);
    offsets += comma + std::to_string(offset);
    if (shows_specials || !tokenizer.is_special(token.token)) offset += int64_t(bytes.size());
    tops += comma;
    if (std::isnan(token.logprob)) {
      tops += "null";
      continue;
    }
    tops += '{';
    for (size_t i = 0; i < token.top.size(); ++i) {
      append_json_string(tops += i ? "," : "", tokenizer.bytes(token.top[i].token));
      tops += ':' + logprob_text(token.top[i].logprob);
    }
    tops += '}';
  }
  out += "{\"tokens\":[" + names + "],\"token_logprobs\":[" + values + "],\"top_logprobs\":[" +
         tops + "],\"text_offset\":[" + offsets + "]}";
}

class Writer {
 public:
  Writer(const Tokenizer& tokenizer, CompletionsAnswerOptions options)
      : options_(std::move(options)), tokenizer_(tokenizer), offsets_(size_t(options_.choices)) {}

  // {"index","text","logprobs","finish_reason","stop_reason"}; `ended`: null while it goes on.
  void append_choice(std::string& out, int index, std::string_view text,
                     const std::vector<GeneratedToken>& tokens, const Choice* ended) {
    out += strf("{\"index\":%d", index);
    append_field(out, "text", text);
    out += ",\"logprobs\":";
    if (options_.logprobs)
      append_columns(out, tokenizer_, options_.shows_specials, tokens, offsets_[size_t(index)]);
    else
      out += "null";
    out += ",\"finish_reason\":";
    if (ended)
      out += ending_json(*ended);
    else
      out += "null,\"stop_reason\":null";
    out += '}';
  }
  std::string echoed(int index) const {
    return options_.echo ? options_.prompts[size_t(index)] : "";
  }

  const CompletionsAnswerOptions options_;

 private:
  const Tokenizer& tokenizer_;
  std::vector<int64_t> offsets_;
};

class CompletionsBody final : public Answer {
 public:
  CompletionsBody(Exchange exchange, Writer writer)
      : exchange_(std::move(exchange)),
        writer_(std::move(writer)),
        collected_(size_t(writer_.options_.choices)) {}

  void accepted(Generation&) override {}
  void tokens(const Generation&, int choice, std::span<const GeneratedToken> tokens) override {
    std::vector<GeneratedToken>& into = collected_[size_t(choice)].tokens;
    if (writer_.options_.logprobs) into.insert(into.end(), tokens.begin(), tokens.end());
  }
  void deltas(const Generation&, int choice, std::vector<Delta> deltas) override {
    for (const Delta& delta : deltas) collected_[size_t(choice)].text += delta.text;
  }
  void choice_ended(const Generation&, int) override {}
  void ended(const Generation& generation) override {
    std::string body = completion_head(writer_.options_);
    for (int i = 0; i < writer_.options_.choices; ++i) {
      if (i) body += ',';
      const Collected& choice = collected_[size_t(i)];
      writer_.append_choice(body, i, writer_.echoed(i) + choice.text, choice.tokens,
                            &generation.choice(i));
    }
    body += "],\"usage\":" + usage_json(generation.usage()) + "}";
    exchange_.respond({.body = std::move(body), .headers = writer_.options_.headers});
  }
  void failed(const ApiError& error) override { exchange_.respond(error_response(error)); }

 private:
  struct Collected {
    std::string text;
    std::vector<GeneratedToken> tokens;
  };

  Exchange exchange_;
  Writer writer_;
  std::vector<Collected> collected_;
};

// For each choice: its prompt where it is echoed, pieces of text, the finish reason.
class CompletionsStream final : public Answer {
 public:
  CompletionsStream(Exchange exchange, Writer writer)
      : writer_(std::move(writer)),
        stream_(std::move(exchange), {.head = completion_head(writer_.options_),
                                      .include_usage = writer_.options_.include_usage,
                                      .continuous_usage = writer_.options_.continuous_usage,
                                      .headers = writer_.options_.headers}),
        unsent_(size_t(writer_.options_.choices)) {}

  void accepted(Generation& generation) override {
    stream_.begin();
    for (int i = 0; writer_.options_.echo && i < writer_.options_.choices; ++i)
      chunk(generation, i, writer_.echoed(i), nullptr);
  }
  // They go with the text that comes next.
  void tokens(const Generation&, int choice, std::span<const GeneratedToken> tokens) override {
    std::vector<GeneratedToken>& into = unsent_[size_t(choice)];
    if (writer_.options_.logprobs) into.insert(into.end(), tokens.begin(), tokens.end());
  }
  void deltas(const Generation& generation, int choice, std::vector<Delta> deltas) override {
    for (const Delta& delta : deltas) chunk(generation, choice, delta.text, nullptr);
  }
  void choice_ended(const Generation& generation, int choice) override {
    chunk(generation, choice, "", &generation.choice(choice));
  }
  void ended(const Generation& generation) override { stream_.end(generation); }
  void failed(const ApiError& error) override { stream_.fail(error); }

 private:
  void chunk(const Generation& generation, int choice, std::string_view text, const Choice* ended) {
    std::string rest;
    writer_.append_choice(rest, choice, text, std::exchange(unsent_[size_t(choice)], {}), ended);
    stream_.chunk(generation, rest += ']');
  }

  Writer writer_;
  ChunkStream stream_;
  std::vector<std::vector<GeneratedToken>> unsent_;  // of each choice, with logprobs
};

}  // namespace

std::unique_ptr<Answer> make_completions_body(Exchange exchange, const Tokenizer& tokenizer,
                                              CompletionsAnswerOptions options) {
  return std::make_unique<CompletionsBody>(std::move(exchange),
                                           Writer(tokenizer, std::move(options)));
}

std::unique_ptr<Answer> make_completions_stream(Exchange exchange, const Tokenizer& tokenizer,
                                                CompletionsAnswerOptions options) {
  return std::make_unique<CompletionsStream>(std::move(exchange),
                                             Writer(tokenizer, std::move(options)));
}

}  // namespace rose
