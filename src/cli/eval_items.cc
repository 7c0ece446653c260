#include "cli/eval_items.h"

#include <fstream>
#include <iostream>

#include "base/check.h"
#include "base/json.h"

namespace rose {

Result<std::vector<Item>> read_items(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) return fail(ErrorKind::not_found, "cannot read " + path);
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::vector<Item> items;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string at = strf("%s, line %d", path.c_str(), number);
    const Json value = TRY(within(parse_json(line), at));
    if (!value.is_object() || !value.contains("prompt") || !value.contains("completion") ||
        !value["prompt"].is_string() || !value["completion"].is_string())
      return fail(ErrorKind::invalid, at + ": wanted an object with strings prompt and completion");
    items.push_back({value["prompt"], value["completion"]});
  }
  if (items.empty()) return fail(ErrorKind::invalid, path + ": no items");
  return items;
}

}  // namespace rose
