// The lines of a terminal chat that begin with '/': what Ollama's users know, and what is rose's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/chat_state.h"

namespace rose {

// What commands act on.
struct ChatHost {
  ChatState& state;
  std::unique_ptr<ChatBackend>& backend;
  std::function<Result<std::unique_ptr<ChatBackend>>(const std::string& model)> open;
  std::string folder;  // of saved chats
};

struct SlashResult {
  std::string text = {};  // for the user: whole lines
  bool leave = false;
};

SlashResult slash_command(ChatHost& host, const std::string& line);

// The commands that begin so, for completion.
std::vector<std::string> slash_commands(const std::string& beginning);

}  // namespace rose
