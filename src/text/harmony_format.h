// Harmony's row in the table of chat formats.
#pragma once
#include <memory>

#include "base/result.h"
#include "text/chat_format.h"

namespace rose {

// How a prompt becomes a conversation: one system message of ours; what opens the prompt as system
// or developer, and the tools, as the developer message; tool calls and their results on commentary;
// reasoning on analysis until its turn is answered.
Result<std::unique_ptr<ChatFormat>> make_harmony_format(const Tokenizer& tokenizer);

}  // namespace rose
