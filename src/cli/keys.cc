// rose keys new NAME: makes a key for --api-keys-file.
#include <cstdio>

#include "api/keys.h"
#include "base/check.h"
#include "base/json.h"
#include "base/sha256.h"
#include "cli/command.h"
#include "cli/options.h"

namespace rose {

namespace {

struct KeysOptions {
  std::string what;
  std::string name;
  std::vector<std::string> scopes;

  template <class Visit>
  void each(Visit&& visit) {
    visit("what", what, "new");
    visit("name", name, "who it is for");
    visit("--scope", scopes, "infer, metrics or admin; may be repeated; none: infer");
  }
};

}  // namespace

Status keys_command(Arguments arguments) {
  KeysOptions options;
  const CommandHelp help = {
      "keys",
      "Make an API key: the key on stderr, shown once; its entry for the keys "
      "file on stdout.",
      "  rose keys new web\n"
      "  rose keys new prometheus --scope metrics\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  if (options.what != "new" || options.name.empty())
    return fail(ErrorKind::usage, "wanted: rose keys new NAME");
  if (options.scopes.empty()) options.scopes.push_back("infer");
  const std::string key = new_key();
  std::fprintf(stderr, "%s\n", key.c_str());
  const Json entry = {
      {"name", options.name}, {"sha256", sha256_hex(key)}, {"scopes", options.scopes}};
  std::printf("%s\n", dump_json(entry).c_str());
  return Done{};
}

}  // namespace rose
