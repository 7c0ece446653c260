#include "cli/chat_commands.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace rose {

namespace {

namespace fs = std::filesystem;

struct Words {
  std::string first, rest;
};
Words split(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const size_t end = std::min(text.find_first_of(" \t", begin), text.size());
  const size_t rest = std::min(text.find_first_not_of(" \t", end), text.size());
  return {text.substr(begin, end - begin), text.substr(rest)};
}

using Outcome = Result<SlashResult>;
Outcome say(std::string text) { return SlashResult{.text = std::move(text)}; }
tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorKind::usage, std::move(message));
}

// One row of a table of words: "temperature" or "/save".
struct Row {
  const char* name;
  const char* arguments;
  const char* help;
  Outcome (*run)(ChatHost& host, const std::string& rest);
};

template <size_t size>
std::string listed(const Row (&rows)[size], const char* before) {
  std::string text;
  for (const Row& row : rows)
    if (row.help[0])
      text +=
          strf("  %-28s %s\n", strf("%s%s %s", before, row.name, row.arguments).c_str(), row.help);
  return text;
}

template <size_t size>
const Row* find(const Row (&rows)[size], const std::string& name) {
  for (const Row& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

// --- /set

// temperature, top_p, num_predict, …: the names of the command's options, with either line.
Outcome set_parameter(ChatHost& host, const std::string& rest) {
  OptionList list;
  host.state.sampling.each(list);
  auto [name, value] = split(rest);
  std::string known;
  std::replace(name.begin(), name.end(), '_', '-');
  if (name == "num-ctx") return wrong("the context's length is set at the start: --max-model-len");
  for (const OptionList::Option& option : list.options()) {
    const std::string names = "," + option.names + ",";
    const size_t at = names.find(",--" + name + ",");
    if (!name.empty() && at != names.npos) {
      if (value.empty()) return wrong("/set parameter " + name + ": a value is missing");
      if (option.is_list) host.state.sampling.stop.clear();
      if (const Status set = option.set(value); !set)
        return wrong(name + ": " + set.error().message);
      return say("");
    }
    known += " " + option.names.substr(2, option.names.find(',') - 2);
  }
  return wrong(strf("no parameter '%s'; there are%s", name.c_str(), known.c_str()));
}
Outcome set_system(ChatHost& host, const std::string& rest) {
  host.state.system = rest;
  return say("");
}
Outcome set_effort(ChatHost& host, const std::string& rest) {
  host.state.effort = TRY(parse_effort(rest));
  return say("");
}
Outcome set_think(ChatHost& host, const std::string& rest) {
  if (!rest.empty()) host.state.effort = TRY(parse_effort(rest));
  host.state.show_reasoning = true;
  return say("");
}
Outcome set_format(ChatHost& host, const std::string& rest) {
  if (rest != "json") return wrong("/set format: '" + rest + "', wanted json");
  host.state.sampling.json = true;
  return say("");
}

// Switches: what they set, and to what.
template <auto field, bool value>
Outcome turn(ChatHost& host, const std::string&) {
  host.state.*field = value;
  return say("");
}

// clang-format off
constexpr Row kSet[] = {
    {"parameter", "NAME VALUE",  "how answers are drawn: temperature, top_p, seed, num_predict, stop …", set_parameter},
    {"system",    "TEXT",        "instructions that stand before the conversation", set_system},
    {"effort",    "LEVEL",       "of reasoning: low, medium or high", set_effort},
    {"think",     "[LEVEL]",     "show the reasoning", set_think},
    {"nothink",   "",            "hide the reasoning", turn<&ChatState::show_reasoning, false>},
    {"format",    "json",        "answers are JSON objects", set_format},
    {"noformat",  "",            "answers are free", [](ChatHost& host, const std::string&) -> Outcome {
       host.state.sampling.json = false;
       return say("");
     }},
    {"verbose",   "",            "show numbers after each answer", turn<&ChatState::show_numbers, true>},
    {"quiet",     "",            "show no numbers", turn<&ChatState::show_numbers, false>},
    {"history",   "",            "keep the lines that you type", turn<&ChatState::keep_history, true>},
    {"nohistory", "",            "keep none", turn<&ChatState::keep_history, false>},
    {"wordwrap",  "",            "lines break between words", turn<&ChatState::wrap_words, true>},
    {"nowordwrap", "",           "lines break where the terminal ends", turn<&ChatState::wrap_words, false>},
};
// clang-format on

// --- /show

Outcome show_info(ChatHost& host, const std::string&) { return say(host.backend->about()); }
Outcome show_system(ChatHost& host, const std::string&) {
  return say(host.state.system.empty() ? "no instructions\n" : host.state.system + "\n");
}
Outcome show_parameters(ChatHost& host, const std::string&) {
  OptionList list;
  host.state.sampling.each(list);
  std::string text;
  for (const OptionList::Option& option : list.options()) {
    std::string name = option.names.substr(2, option.names.find(',') - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    text +=
        strf("  %-20s %s\n", name.c_str(), option.value.empty() ? "none" : option.value.c_str());
  }
  return say(text + strf("  %-20s %s\n  %-20s %s\n", "effort", effort_name(host.state.effort),
                         "format", host.state.sampling.json ? "json" : "none"));
}
Outcome show_messages(ChatHost& host, const std::string&) {
  std::string text;
  for (const ChatMessage& message : host.state.messages)
    text += (message.role == ChatMessage::Role::user ? ">>> " : "") + message.content + "\n";
  return say(text.empty() ? "nothing was said\n" : text);
}

constexpr Row kShow[] = {
    {"info", "", "the model, and what it runs on", show_info},
    {"parameters", "", "how answers are drawn", show_parameters},
    {"system", "", "the instructions", show_system},
    {"messages", "", "the conversation", show_messages},
};

// --- the rest

template <size_t size>
Outcome run_word(ChatHost& host, const char* command, const Row (&rows)[size],
                 const std::string& rest) {
  const auto [word, value] = split(rest);
  if (const Row* row = find(rows, word)) return row->run(host, value);
  const std::string list = listed(rows, strf("%s ", command).c_str());
  if (word.empty()) return say(list);
  return wrong(strf("%s has no '%s':\n", command, word.c_str()) + list);
}

// A name, or a path if it looks like one.
Result<std::string> chat_file(const ChatHost& host, const std::string& name) {
  if (name.empty()) return fail(ErrorKind::usage, "a name is missing");
  if (name.find('/') != name.npos || name.ends_with(".json")) return name;
  if (name[0] == '.') return fail(ErrorKind::usage, "a name may not begin with a dot");
  return host.folder + "/" + name + ".json";
}

Outcome save(ChatHost& host, const std::string& name) {
  const std::string path = TRY(chat_file(host, name));
  std::error_code error;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, error);
  TRY(write_file(path, dump_json(chat_to_json(host.state), 1) + "\n"));
  return say("saved as " + path + "\n");
}

// A saved chat of this name, or else a model.
Outcome load(ChatHost& host, const std::string& name) {
  const std::string path = TRY(chat_file(host, name));
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    const std::string text = TRY(read_file(path));
    TRY(within(chat_from_json(TRY(within(parse_json(text), path)), host.state), path));
    return say(strf("%s: %zu messages\n", path.c_str(), host.state.messages.size()));
  }
  host.backend = TRY(within(host.open(name), "neither a saved chat nor a model"));
  host.state.messages.clear();
  return say(host.backend->name() + "\n");
}

Outcome clear(ChatHost& host, const std::string&) {
  host.state.messages.clear();
  host.state.attached.clear();
  return say("the conversation is forgotten\n");
}

Outcome attach(ChatHost& host, const std::string& path) {
  if (path.empty()) return wrong("/file: a path is missing");
  host.state.attached += TRY(file_block(path));
  return say(path + " goes with your next message\n");
}

Outcome system_anew(ChatHost& host, const std::string& rest) {
  host.state.messages.clear();
  return set_system(host, rest);
}

Outcome leave(ChatHost&, const std::string&) { return SlashResult{.leave = true}; }
Outcome help(ChatHost& host, const std::string& rest);

// clang-format off
constexpr Row kCommands[] = {
    {"/set",    "…",            "change how the chat is held; alone: the list",
     [](ChatHost& host, const std::string& rest) { return run_word(host, "/set", kSet, rest); }},
    {"/show",   "…",            "look at the model and the chat; alone: the list",
     [](ChatHost& host, const std::string& rest) { return run_word(host, "/show", kShow, rest); }},
    {"/load",   "NAME",         "a saved chat, or another model", load},
    {"/save",   "NAME",         "this chat, under a name or in a file", save},
    {"/clear",  "",             "forget the conversation", clear},
    {"/file",   "PATH",         "a file goes with the next message (also: @PATH in a message)", attach},
    {"/system", "TEXT",         "new instructions; the conversation starts over", system_anew},
    {"/effort", "LEVEL",        "low, medium or high", set_effort},
    {"/bye",    "",             "leave (also Ctrl-D)", leave},
    {"/exit",   "",             "", leave},
    {"/quit",   "",             "", leave},
    {"/?",      "[COMMAND]",    "this list; /? shortcuts: the keys", help},
    {"/help",   "[COMMAND]",    "", help},
};

constexpr const char* kShortcuts =
    "  \"\"\"            begins and ends a message of several lines\n"
    "  Up, Down       earlier lines; Ctrl-R searches them\n"
    "  Ctrl-A, Ctrl-E to the beginning and the end of the line\n"
    "  Ctrl-K, Ctrl-U, Ctrl-W  delete to the end, all, a word\n"
    "  Tab            completes a command\n"
    "  Ctrl-C         ends the answer; at the prompt gives up the line\n"
    "  Ctrl-D         leaves\n";
// clang-format on

Outcome help(ChatHost&, const std::string& rest) {
  if (rest == "shortcuts") return say(kShortcuts);
  const std::string name = rest.starts_with('/') ? rest : "/" + rest;
  if (name == "/set") return say(listed(kSet, "/set "));
  if (name == "/show") return say(listed(kShow, "/show "));
  if (const Row* row = find(kCommands, name); row && !rest.empty() && row->help[0])
    return say(strf("  %s %s  %s\n", row->name, row->arguments, row->help));
  return say(listed(kCommands, "") +
             "  \"\"\"                          begins and ends a message of several lines\n");
}

}  // namespace

SlashResult slash_command(ChatHost& host, const std::string& line) {
  const auto [name, rest] = split(line);
  const Row* row = find(kCommands, name);
  if (!row) return {.text = "no command " + name + ":\n" + listed(kCommands, "")};
  Outcome outcome = row->run(host, rest);
  if (!outcome)
    return {.text =
                outcome.error().message + (outcome.error().message.ends_with('\n') ? "" : "\n")};
  return std::move(*outcome);
}

std::vector<std::string> slash_commands(const std::string& beginning) {
  std::vector<std::string> found;
  const auto add = [&](const auto& rows, const std::string& before) {
    for (const Row& row : rows)
      if (row.help[0] && (before + row.name).starts_with(beginning))
        found.push_back(before + row.name);
  };
  add(kCommands, "");
  add(kSet, "/set ");
  add(kShow, "/show ");
  return found;
}

}  // namespace rose
