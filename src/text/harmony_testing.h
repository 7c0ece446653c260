// What the tests of Harmony share: the vocabulary, the recorded examples, and a turn of a model as
// its three fields.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "text/chat_format.h"
#include "text/harmony.h"
#include "text/tokenizer.h"

namespace rose::harmony::testing {

inline const Tokenizer& tokenizer() {
  static const auto loaded = Tokenizer::load(ROSE_SOURCE_DIR "/tests/data/o200k_base.tiktoken");
  if (!loaded) ADD_FAILURE() << loaded.error().message;
  return *loaded;
}

inline const Specials& specials() {
  static const Specials found = *find_specials(tokenizer());
  return found;
}

inline const ChatFormat& format() {
  static const auto made = *make_chat_format("harmony", tokenizer());
  return *made;
}

// The lines of this kind of a file in tests/golden.
inline std::vector<Json> goldens(const std::string& file, const std::string& kind) {
  std::vector<Json> out;
  const auto text = read_file(ROSE_SOURCE_DIR "/tests/golden/" + file);
  EXPECT_TRUE(text) << text.error().message;
  for (size_t at = 0; text && at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    Json line = *parse_json(std::string_view(*text).substr(at, end - at));
    if (line["kind"] == kind) out.push_back(std::move(line));
    at = end + 1;
  }
  EXPECT_FALSE(out.empty()) << file << " has no line of kind " << kind;
  return out;
}

inline std::vector<int> ids(std::string_view text) { return tokenizer().encode_special(text); }

inline std::vector<Tool> tools(std::vector<std::string> names) {
  std::vector<Tool> out;
  for (std::string& name : names) out.push_back({std::move(name), "", nullptr});
  return out;
}

// All that a client gets of one turn.
struct Turn {
  std::string reasoning, content;
  std::vector<std::string> calls;  // "name(arguments)"
  bool operator==(const Turn&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Turn& turn) {
  out << "reasoning \"" << turn.reasoning << "\", content \"" << turn.content << "\", calls";
  for (const std::string& call : turn.calls) out << ' ' << call;
  return out;
}

inline Turn join(const std::vector<ChatEvent>& events) {
  Turn turn;
  for (const ChatEvent& event : events) switch (event.kind) {
      case ChatEvent::Kind::reasoning: turn.reasoning += event.text; break;
      case ChatEvent::Kind::content: turn.content += event.text; break;
      case ChatEvent::Kind::tool_call:
        EXPECT_EQ(event.tool_index, int(turn.calls.size()));
        turn.calls.push_back(event.text + "(");
        break;
      case ChatEvent::Kind::tool_arguments:
        turn.calls.at(size_t(event.tool_index)) += event.text;
        break;
    }
  for (std::string& call : turn.calls) call += ")";
  return turn;
}

inline std::vector<ChatEvent> events_of(const std::vector<int>& tokens,
                                        const std::vector<Tool>& listed = {}) {
  std::vector<ChatEvent> events;
  const auto parser = format().parser(listed);
  for (const int token : tokens) parser->push(token, events);
  parser->finish(events);
  return events;
}

inline Turn read(const std::vector<int>& tokens) { return join(events_of(tokens)); }
inline Turn read(std::string_view text, const std::vector<std::string>& listed = {}) {
  return join(events_of(ids(text), tools(listed)));
}

}  // namespace rose::harmony::testing
