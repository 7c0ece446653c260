// What a terminal chat is between two lines: the conversation and how it is held. Slash commands change
// it, a saved chat is made of it.
#pragma once
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "cli/chat_backend.h"

namespace rose {

struct ChatState {
  std::string system;
  ReasoningEffort effort = ReasoningEffort::medium;
  std::vector<ChatMessage> messages;  // without the system's
  ChatSampling sampling;
  bool show_reasoning = true;
  bool show_numbers = true;  // after each answer
  bool keep_history = true;  // of lines, in a file
  bool wrap_words = true;    // on a terminal
  std::string attached;      // files that go with the next message

  // What goes to the model.
  ChatPrompt prompt() const;
};

Result<ReasoningEffort> parse_effort(const std::string& text);
const char* effort_name(ReasoningEffort effort);

// The conversation, its instructions and its effort: {"system", "effort", "messages": as in the API}.
Json chat_to_json(const ChatState& state);
Status chat_from_json(const Json& json, ChatState& state);

// A message and the files that it names: a word @path becomes the path, and the file's text follows the
// message, if there is such a file. An error if it is no text or too large.
Result<std::string> with_files(const std::string& message);
// A file as it stands in a message.
Result<std::string> file_block(const std::string& path);

}  // namespace rose
