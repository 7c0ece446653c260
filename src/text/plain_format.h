// Plain text: for models that were taught no chat format, and for prompts that are written by hand.
#pragma once
#include <memory>

#include "text/chat_format.h"

namespace rose {

// A prompt is the texts of its messages with blank lines between them; there are no tools. Any
// tokenizer has this format.
Result<std::unique_ptr<ChatFormat>> make_plain_format(const Tokenizer& tokenizer);

// All that is generated is content. Special tokens are left out, or written as their names.
std::unique_ptr<StreamParser> make_plain_parser(const Tokenizer& tokenizer,
                                                bool show_specials = false);

// Special tokens that end a text, as widely used vocabularies call them.
std::vector<int> end_tokens(const Tokenizer& tokenizer);

}  // namespace rose
