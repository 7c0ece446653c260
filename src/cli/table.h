// A table of results: aligned on a terminal, or as markdown, CSV or JSON.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rose {

class Table {
 public:
  explicit Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  Status choose(const std::string& output);  // "table", "md", "csv", "json"
  void row(std::vector<std::string> cells);
  // To standard output. `about`: what holds for all rows (model, backend, …).
  void print(const std::vector<std::pair<std::string, std::string>>& about) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::string output_ = "table";
};

}  // namespace rose
