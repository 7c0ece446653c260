// Whatever tokens a model says: no error, no special token in any field, the same fields for every way
// of cutting the stream, and each word of a body in exactly one of them.
#include <map>

#include "api/choice.h"
#include "base/check.h"
#include "fuzz/targets.h"
#include "fuzz/vocabularies.h"
#include "text/chat_format.h"
#include "text/utf8.h"

namespace rose::fuzz {

namespace {

constexpr const char* kMarkers[] = {"<|start|>",     "<|end|>",    "<|message|>",
                                    "<|channel|>",   "<|call|>",   "<|constrain|>",
                                    "<|endoftext|>", "<|return|>", "<|reserved_200500|>"};
constexpr const char* kPieces[] = {"assistant", "user",
                                   "analysis",  "commentary",
                                   "final",     " json",
                                   " ",         " to=functions.f",
                                   " to=bare",  "functions.g to=",
                                   "––",        "code",
                                   "to=to=",    "\u202f",
                                   "finalx",    "{",
                                   ".",         "{\"a\":1}",
                                   "shelljson", " to=",
                                   "<|",        "|>",
                                   "café",      "\xF0\x9F\x98\x80"};

// What a model says, and the words in it that must come out: each occurs once.
struct Said {
  struct Word {
    std::string text;
    bool body;
  };
  std::vector<int> tokens;
  std::vector<Word> words;
};

Said said(Choices& choices) {
  const Tokenizer& tokenizer = full_tokenizer();
  Said said;
  bool body = false, waiting = false, done = false;
  const auto push = [&](int token) {
    const bool first = said.tokens.empty();
    said.tokens.push_back(token);
    if (!tokenizer.is_special(token)) return;
    const std::string_view marker = tokenizer.bytes(token);
    // A turn that said something may have ended there; whether it did is not ours to know.
    done |= !first && (marker == "<|return|>" || marker == "<|endoftext|>");
    waiting |= !first && marker == "<|call|>";
    waiting &= marker != "<|start|>";
    if (marker == "<|message|>")
      body = true;
    else if (marker == "<|start|>" || marker == "<|end|>" || marker == "<|channel|>" ||
             marker == "<|call|>" || marker == "<|return|>" || marker == "<|endoftext|>")
      body = false;
  };
  while (!choices.empty() && said.tokens.size() < 4000) {
    const uint8_t kind = choices.byte();
    if (kind < 100) {
      push(*tokenizer.special(kMarkers[kind % std::size(kMarkers)]));
    } else if (kind < 160) {
      for (const int token : tokenizer.encode(kPieces[kind % std::size(kPieces)])) push(token);
    } else if (kind < 220) {
      const std::string word = strf("zqx%zuxqz", said.words.size());
      for (const int token : tokenizer.encode(" " + word)) push(token);
      said.words.push_back({word, body && !done && !waiting});
    } else if (kind < 236) {
      push(choices.byte());  // one byte of text
    } else {
      push(int(choices.byte()) << 16 | int(choices.byte()) << 8 | int(choices.byte()));
    }
  }
  return said;
}

// All that a client gets of a choice.
struct Fields {
  std::string reasoning, content, finish_reason;
  std::vector<std::string> names, arguments;
  std::vector<int> content_tokens;
  bool operator==(const Fields&) const = default;
};

// The fields of an answer that comes in updates of `step` tokens.
Fields fields(const Said& said, size_t step, bool stops) {
  static const auto format = std::move(*make_chat_format("harmony", full_tokenizer()));
  static const std::vector<Tool> tools = {{"bare", "", nullptr}, {"shell", "", nullptr}};
  ChoiceOptions options{.logprobs = true};
  if (stops) options.stop = {"zqx7", "{\"a\""};
  Choice choice(format->parser(tools), full_tokenizer(), options);
  Fields fields;
  std::vector<Delta> deltas;
  const auto take = [&] {
    for (const Delta& delta : deltas) {
      ROSE_CHECK(valid_utf8_prefix(delta.text) == delta.text.size(), "a delta is no UTF-8");
      for (const GeneratedToken& token : delta.tokens) fields.content_tokens.push_back(token.token);
      const size_t tool = size_t(delta.tool_index);
      switch (delta.kind) {
        case ChatEvent::Kind::reasoning: fields.reasoning += delta.text; break;
        case ChatEvent::Kind::content: fields.content += delta.text; break;
        case ChatEvent::Kind::tool_call:
          ROSE_CHECK(tool == fields.names.size(), "call %zu comes after %zu", tool,
                     fields.names.size());
          fields.names.push_back(delta.text);
          fields.arguments.emplace_back();
          break;
        case ChatEvent::Kind::tool_arguments:
          ROSE_CHECK(tool + 1 == fields.names.size(), "arguments of call %zu of %zu", tool,
                     fields.names.size());
          fields.arguments[tool] += delta.text;
      }
    }
    deltas.clear();
  };
  for (size_t i = 0; i < said.tokens.size(); ++i) {
    choice.push({.token = said.tokens[i], .logprob = -1, .top = {}}, deltas);
    if ((i + 1) % step == 0) take();
  }
  choice.finish(Finish::stop, deltas);
  take();
  ROSE_CHECK(choice.finished(), "the choice has not ended");
  fields.finish_reason = choice.finish_reason();
  if (!stops)
    ROSE_CHECK(fields.finish_reason == (fields.names.empty() ? "stop" : "tool_calls"),
               "%zu calls end in %s", fields.names.size(), fields.finish_reason.c_str());
  ROSE_CHECK(
      choice.reasoning_tokens() >= 0 && choice.reasoning_tokens() <= choice.completion_tokens(),
      "%d of %d tokens are reasoning", choice.reasoning_tokens(), choice.completion_tokens());
  return fields;
}

int occurrences(std::string_view text, std::string_view word) {
  int count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) ++count;
  return count;
}

void check_words(const Said& said, const Fields& fields) {
  std::string text = fields.reasoning + "\n" + fields.content;
  for (const std::string& part : fields.names) text += "\n" + part;
  for (const std::string& part : fields.arguments) text += "\n" + part;
  for (const auto& [word, body] : said.words) {
    const int count = occurrences(text, word);
    ROSE_CHECK(count <= 1 && (count == 1 || !body), "%s of a %s comes out %d times", word.c_str(),
               body ? "body" : "header", count);
  }
  std::string ordinary;  // which may spell a marker
  for (const int token : said.tokens)
    if (!full_tokenizer().is_special(token)) ordinary += full_tokenizer().bytes(token);
  for (const char* marker : kMarkers)
    if (ordinary.find(marker) == ordinary.npos)
      ROSE_CHECK(text.find(marker) == text.npos, "%s is in a field", marker);
}

}  // namespace

void harmony(std::string_view input) {
  Choices choices(input);
  const size_t step = 2 + choices.below(30);
  const Said tokens = said(choices);
  const Fields whole = fields(tokens, tokens.tokens.size() + 1, false);
  check_words(tokens, whole);
  ROSE_CHECK(fields(tokens, 1, false) == whole, "token by token the fields differ");
  ROSE_CHECK(fields(tokens, step, false) == whole, "in updates of %zu tokens the fields differ",
             step);
  ROSE_CHECK(fields(tokens, step, true) == fields(tokens, 1, true),
             "with stop strings and updates of %zu tokens the fields differ", step);
}

}  // namespace rose::fuzz
