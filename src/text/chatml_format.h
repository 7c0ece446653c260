// ChatML: messages between <|im_start|>ROLE and <|im_end|>, as many open models were taught. What is
// special besides is written as tags: <think>, <tool_call>, <tool_response>.
#pragma once
#include <memory>

#include "text/chat_format.h"

namespace rose {

// Fails for a tokenizer without the two special tokens.
Result<std::unique_ptr<ChatFormat>> make_chatml_format(const Tokenizer& tokenizer);

}  // namespace rose
