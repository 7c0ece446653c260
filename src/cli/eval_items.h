// The items of `rose eval`: what a model is asked, and the answer that is right.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace rose {

struct Item {
  std::string prompt, completion;
};

// JSON lines of {"prompt", "completion"}; "-" reads standard input.
Result<std::vector<Item>> read_items(const std::string& path);

}  // namespace rose
