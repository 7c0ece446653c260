// rose eval --against: two models fed the same text, what they expect next compared.
#pragma once
#include <span>
#include <string>

#include "cli/eval_items.h"
#include "cli/session.h"

namespace rose {

struct EvalAgainst {
  ModelOptions model;
  std::string against;   // recipe; empty: the model's own
  std::string device;    // empty: the model's own
  bool prompts = false;  // their tokens count too
  bool json = false;
};

Status eval_against(const EvalAgainst& options, std::span<const Item> items);

}  // namespace rose
