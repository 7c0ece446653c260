#include "cli/table.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

// Cells that read as a number are numbers in JSON.
Json json_of(const std::string& cell) {
  char* end = nullptr;
  const double number = std::strtod(cell.c_str(), &end);
  if (!cell.empty() && end == cell.c_str() + cell.size()) return number;
  return cell;
}

void print_line(const std::vector<std::string>& cells, const char* open, const char* between,
                const char* close) {
  std::fputs(open, stdout);
  for (size_t i = 0; i < cells.size(); ++i) std::printf("%s%s", i ? between : "", cells[i].c_str());
  std::printf("%s\n", close);
}

}  // namespace

Status Table::choose(const std::string& output) {
  for (const char* known : {"table", "md", "csv", "json"})
    if (output == known) {
      output_ = output;
      return Done{};
    }
  return fail(ErrorKind::usage, "--output: '" + output + "', wanted table, md, csv or json");
}

void Table::row(std::vector<std::string> cells) {
  ROSE_CHECK(cells.size() == columns_.size(), "table: %zu cells, %zu columns", cells.size(),
             columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::print(const std::vector<std::pair<std::string, std::string>>& about) const {
  if (output_ == "json") {
    Json json = Json::object();
    for (const auto& [name, value] : about) json[name] = json_of(value);
    for (const auto& cells : rows_) {
      Json row = Json::object();
      for (size_t i = 0; i < columns_.size(); ++i) row[columns_[i]] = json_of(cells[i]);
      json["rows"].push_back(std::move(row));
    }
    std::printf("%s\n", dump_json(json, 2).c_str());
  } else if (output_ == "csv") {
    print_line(columns_, "", ",", "");
    for (const auto& cells : rows_) print_line(cells, "", ",", "");
  } else if (output_ == "md") {
    print_line(columns_, "| ", " | ", " |");
    print_line(std::vector<std::string>(columns_.size(), "---"), "| ", " | ", " |");
    for (const auto& cells : rows_) print_line(cells, "| ", " | ", " |");
  } else {
    for (const auto& [name, value] : about) std::printf("%-14s %s\n", name.c_str(), value.c_str());
    std::vector<size_t> widths;
    for (const std::string& column : columns_) widths.push_back(column.size());
    for (const auto& cells : rows_)
      for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
    const auto print_row = [&](const std::vector<std::string>& cells) {
      for (size_t i = 0; i < cells.size(); ++i)
        std::printf(i ? "  %*s" : "%-*s", int(widths[i]), cells[i].c_str());
      std::printf("\n");
    };
    std::printf("\n");
    print_row(columns_);
    for (const auto& cells : rows_) print_row(cells);
  }
}

}  // namespace rose
