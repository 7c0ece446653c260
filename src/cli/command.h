// What `rose NAME …` runs: a row of the table in main.cc.
#pragma once
#include <span>
#include <string>

#include "base/result.h"

namespace rose {

using Arguments = std::span<const std::string>;

struct Command {
  const char* name;
  const char* about;
  Status (*run)(Arguments arguments);
};

Status serve_command(Arguments);
Status chat_command(Arguments);
Status generate_command(Arguments);
Status eval_command(Arguments);
Status logits_command(Arguments);
Status tokenize_command(Arguments);
Status render_command(Arguments);
Status parse_command(Arguments);
Status bench_command(Arguments);
Status keys_command(Arguments);
Status top_command(Arguments);

}  // namespace rose
