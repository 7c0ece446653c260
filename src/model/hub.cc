// Names to folders, as the Hugging Face cache keeps them on disk:
//
//   hub/models--openai--gpt-oss-20b/refs/main             the name of a commit
//                                  /snapshots/<commit>/   the files (links into blobs/)
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "model/loader.h"

namespace rose {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// $HF_HUB_CACHE wins over $HF_HOME, that over the default: the library's own order.
fs::path hub_folder() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "huggingface" / "hub";
  return fs::path(environment("HOME")) / ".cache" / "huggingface" / "hub";
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool has_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored);
}

// A folder that someone named: a model, or one whose only model is in `original/`.
Result<std::string> model_in(const fs::path& folder) {
  if (has_config(folder)) return folder.string();
  if (has_config(folder / "original")) return (folder / "original").string();
  return fail(ErrorKind::not_found,
              strf("%s has no config.json, nor has its folder original/", folder.c_str()));
}

// One path component of a name: letters, digits, '-', '_', '.', and no "..".
bool is_component(std::string_view text) {
  for (const char c : text)
    if (!std::isalnum(uint8_t(c)) && c != '-' && c != '_' && c != '.') return false;
  return !text.empty() && text != "." && text.find("..") == text.npos;
}

bool is_revision(std::string_view text) {  // "main", "v1.0", a commit, "refs/pr/3"
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    if (!is_component(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

Result<std::string> resolve_model(const std::string& name) {
  if (is_folder(name)) return model_in(name);
  std::error_code ignored;
  if (const fs::path path = name; path.filename() == "config.json" && fs::exists(path, ignored))
    return path.has_parent_path() ? path.parent_path().string() : ".";

  const size_t at = name.find('@');
  const std::string repository = name.substr(0, at);
  const std::string revision = at == name.npos ? "main" : name.substr(at + 1);
  const size_t slash = repository.find('/');
  if (slash == repository.npos || !is_component(repository.substr(0, slash)) ||
      !is_component(repository.substr(slash + 1)) || !is_revision(revision))
    return fail(ErrorKind::not_found,
                strf("'%s' is neither a folder nor a name like openai/gpt-oss-20b[@revision]",
                     name.c_str()));

  const fs::path hub = hub_folder();
  const fs::path cached =
      hub / ("models--" + repository.substr(0, slash) + "--" + repository.substr(slash + 1));
  const std::string download = strf("`hf download %s%s` gets it", repository.c_str(),
                                    at == name.npos ? "" : (" --revision " + revision).c_str());
  if (!is_folder(cached))
    return fail(ErrorKind::not_found,
                strf("%s is neither a folder nor in the Hugging Face cache (looked for %s); %s",
                     name.c_str(), cached.c_str(), download.c_str()));

  // A revision is a commit, or a ref whose file names one.
  std::string commit = revision;
  if (fs::is_regular_file(cached / "refs" / revision, ignored)) {
    commit = TRY(read_file(cached / "refs" / revision));
    while (!commit.empty() && std::isspace(uint8_t(commit.back()))) commit.pop_back();
  }
  const fs::path snapshot = cached / "snapshots" / commit;
  if (!is_component(commit) || !is_folder(snapshot))
    return fail(ErrorKind::not_found,
                strf("%s: the Hugging Face cache has no revision '%s' of it (looked for %s); %s",
                     name.c_str(), revision.c_str(), snapshot.c_str(), download.c_str()));
  return within(model_in(snapshot), name);
}

}  // namespace rose
