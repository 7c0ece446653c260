#include "text/chat_format.h"

#include "text/harmony_format.h"

namespace rose {
namespace {

struct Row {
  std::string_view name;
  Result<std::unique_ptr<ChatFormat>> (*make)(const Tokenizer&);
};

constexpr Row kFormats[] = {
    {"harmony", make_harmony_format},
};

}  // namespace

Result<std::unique_ptr<ChatFormat>> make_chat_format(std::string_view name,
                                                     const Tokenizer& tokenizer) {
  std::string known;
  for (const Row& row : kFormats) {
    if (row.name == name) return row.make(tokenizer);
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return fail(ErrorKind::not_found,
              "no chat format \"" + std::string(name) + "\"; there are: " + known);
}

}  // namespace rose
