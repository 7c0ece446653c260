#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/check.h"

namespace rose {

namespace {

// "128k" -> 131072. Only what fits an int64 and is written in digits.
Result<int64_t> parse_whole(const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  const std::string suffix = end;
  int shift = 0;
  if (suffix == "k" || suffix == "K")
    shift = 10;
  else if (suffix == "m" || suffix == "M")
    shift = 20;
  else if (suffix == "g" || suffix == "G")
    shift = 30;
  else if (!suffix.empty())
    end = nullptr;
  if (!end || end == text.c_str() || errno != 0 || std::llabs(value) > (INT64_MAX >> shift))
    return fail(ErrorKind::invalid, strf("'%s' is not a whole number", text.c_str()));
  return int64_t(value) * (int64_t(1) << shift);
}

template <class Int>
Status set_whole(Int& field, const std::string& text) {
  const int64_t value = TRY(parse_whole(text));
  if (!std::in_range<Int>(value))
    return fail(ErrorKind::invalid, strf("%s is too large or negative", text.c_str()));
  field = Int(value);
  return Done{};
}

Status set_bool(bool& field, const std::string& text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes" || text == "enabled")
    field = true;
  else if (text == "false" || text == "0" || text == "off" || text == "no" || text == "disabled")
    field = false;
  else
    return fail(ErrorKind::invalid, strf("'%s' is neither true nor false", text.c_str()));
  return Done{};
}

std::string first_long_name(const std::string& names) {
  const size_t at = names.find("--");
  if (at == std::string::npos) return "";
  return names.substr(at + 2, names.find(',', at) - at - 2);
}

std::string environment_name(const std::string& names) {
  std::string name = "ROSE_" + first_long_name(names);
  for (char& c : name) c = c == '-' ? '_' : char(std::toupper(c));
  return name;
}

// Those of the names that are variables of the environment, or the others, without the $.
std::vector<std::string> names_in(const std::string& names, bool variables) {
  std::vector<std::string> found;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    if ((names[at] == '$') == variables)
      found.push_back(names.substr(at + variables, end - at - variables));
    at = end + 1;
  }
  return found;
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

// --max_model_len is --max-model-len; the value after '=' stays as it is.
std::string with_hyphens(std::string argument) {
  if (argument.rfind("--", 0) != 0) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + long(end), '_', '-');
  return argument;
}

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = int(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = int(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

void OptionList::operator()(const char* names, std::string& field, const char* help) {
  options_.push_back(
      {names, help, field, false, false, [&field](const std::string& text) -> Status {
         field = text;
         return Done{};
       }});
}

void OptionList::operator()(const char* names, int& field, const char* help) {
  options_.push_back({names, help, std::to_string(field), false, false,
                      [&field](const std::string& text) { return set_whole(field, text); }});
}

void OptionList::operator()(const char* names, int64_t& field, const char* help) {
  options_.push_back({names, help, std::to_string(field), false, false,
                      [&field](const std::string& text) { return set_whole(field, text); }});
}

void OptionList::operator()(const char* names, uint64_t& field, const char* help) {
  options_.push_back({names, help, std::to_string(field), false, false,
                      [&field](const std::string& text) { return set_whole(field, text); }});
}

void OptionList::operator()(const char* names, double& field, const char* help) {
  options_.push_back(
      {names, help, strf("%g", field), false, false, [&field](const std::string& text) -> Status {
         char* end = nullptr;
         const double value = std::strtod(text.c_str(), &end);
         if (end == text.c_str() || *end || !std::isfinite(value))
           return fail(ErrorKind::invalid, strf("'%s' is not a number", text.c_str()));
         field = value;
         return Done{};
       }});
}

void OptionList::operator()(const char* names, bool& field, const char* help) {
  options_.push_back({names, help, field ? "true" : "false", true, false,
                      [&field](const std::string& text) { return set_bool(field, text); }});
}

void OptionList::operator()(const char* names, std::vector<std::string>& field, const char* help) {
  options_.push_back({names, help, "", false, true, [&field](const std::string& text) -> Status {
                        field.push_back(text);
                        return Done{};
                      }});
}

void OptionList::operator()(const char* names, std::vector<int>& field, const char* help) {
  std::string value;
  for (const int number : field) value += (value.empty() ? "" : ",") + std::to_string(number);
  options_.push_back(
      {names, help, value, false, false, [&field](const std::string& text) -> Status {
         std::vector<int> numbers;
         for (size_t at = 0; at <= text.size();) {
           const size_t end = std::min(text.find(',', at), text.size());
           TRY(set_whole(numbers.emplace_back(), text.substr(at, end - at)));
           at = end + 1;
         }
         field = std::move(numbers);
         return Done{};
       }});
}

std::string nearest(const std::string& word, std::span<const std::string> candidates) {
  std::string best;
  const size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  int best_distance = int(letters) / 3 + 2;  // one more than the farthest that still counts
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

namespace {

using Bound = std::vector<std::pair<CLI::Option*, const OptionList::Option*>>;

// "-n" and "--n" are one name to CLI11 from 2.2 on, and to people: two options may not share it.
void check_no_name_twice(const OptionList& list) {
  std::map<std::string, const OptionList::Option*> owners;
  for (const OptionList::Option& option : list.options())
    for (const std::string& name : names_in(option.names, false)) {
      const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
      const auto [owner, is_first] = owners.emplace(bare, &option);
      ROSE_CHECK(is_first || owner->second == &option, "options: '%s' and '%s' share the name %s",
                 owner->second->names.c_str(), option.names.c_str(), bare.c_str());
    }
}

std::string help_of(const OptionList::Option& option) {
  std::string help = option.help + (option.value.empty() ? "" : " [" + option.value + "]");
  for (const std::string& variable : names_in(option.names, true)) help += ", or $" + variable;
  return help;
}

Bound bind(CLI::App& app, const OptionList& list) {
  check_no_name_twice(list);
  Bound bound;
  for (const OptionList::Option& option : list.options()) {
    const std::string help = help_of(option);
    const std::string flags = joined(names_in(option.names, false), ",");
    const std::string name = first_long_name(option.names);
    CLI::Option* added = nullptr;
    if (option.is_flag) {
      added = app.add_flag(flags + ",--no-" + name + "{false}", help);
    } else {
      added = app.add_option(flags, help);
      added->type_size(1)->expected(1);
    }
    added->multi_option_policy(option.is_list ? CLI::MultiOptionPolicy::TakeAll
                                              : CLI::MultiOptionPolicy::TakeLast);
    if (!name.empty()) added->envname(environment_name(option.names));
    bound.emplace_back(added, &option);
  }
  return bound;
}

Status set_fields(const Bound& bound) {
  for (const auto& [parsed, option] : bound) {
    std::vector<std::string> given;
    if (parsed->count() > 0) given = parsed->reduced_results();
    for (const std::string& variable : names_in(option->names, true))
      if (const char* value = std::getenv(variable.c_str()); value && given.empty())
        given.push_back(value);
    for (const std::string& text : given) {
      const Status status = option->set(text);
      if (status) continue;
      const std::string name = first_long_name(option->names);
      return fail(ErrorKind::usage,
                  (name.empty() ? option->names : "--" + name) + ": " + status.error().message);
    }
  }
  return Done{};
}

// What to say of an argument that no option took.
std::string about_surplus(const std::string& argument, const Bound& bound) {
  const std::string word = argument.substr(0, argument.find('='));
  if (word.rfind('-', 0) != 0) return "an argument too many: '" + word + "'";
  std::vector<std::string> names = {"--help"};
  for (const auto& [parsed, option] : bound)
    for (const std::string& name : parsed->get_lnames()) names.push_back("--" + name);
  const std::string meant = nearest(word, names);
  return "no option " + word + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

}  // namespace

Result<Parsed> parse_list(const CommandHelp& command, const OptionList& list,
                          std::span<const std::string> arguments) {
  CLI::App app(command.about, std::string("rose ") + command.name);
  app.footer(std::string("Examples:\n") + command.examples);
  app.allow_extras();
  const Bound bound = bind(app, list);

  std::vector<std::string> reversed;  // CLI11 takes the last argument first
  for (const std::string& argument : arguments)
    reversed.insert(reversed.begin(), with_hyphens(argument));
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::string help = app.help();
    for (size_t at; (at = help.find("{false}")) != std::string::npos;) help.erase(at, 7);
    std::fputs(help.c_str(), stdout);
    return Parsed::help;
  } catch (const CLI::Error& problem) {
    return fail(ErrorKind::usage, problem.what());
  }
  TRY(set_fields(bound));
  if (const std::vector<std::string> surplus = app.remaining(); !surplus.empty())
    return fail(ErrorKind::usage, about_surplus(surplus.front(), bound));
  return Parsed::run;
}

}  // namespace rose
