#include "text/chat_format.h"

#include "text/chatml_format.h"
#include "text/harmony_format.h"
#include "text/plain_format.h"

namespace rose {
namespace {

struct Row {
  std::string_view name;
  Result<std::unique_ptr<ChatFormat>> (*make)(const Tokenizer&);
};

constexpr Row kFormats[] = {
    {"harmony", make_harmony_format},
    {"chatml", make_chatml_format},
    {"plain", make_plain_format},  // last: any tokenizer will do
};

}  // namespace

Result<std::unique_ptr<ChatFormat>> make_chat_format(std::string_view name,
                                                     const Tokenizer& tokenizer) {
  std::string known;
  for (const Row& row : kFormats) {
    if (name == "auto") {
      if (auto made = row.make(tokenizer)) return made;
    }
    if (row.name == name) return row.make(tokenizer);
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return fail(ErrorKind::not_found,
              "no chat format \"" + std::string(name) + "\"; there are: auto, " + known);
}

}  // namespace rose
