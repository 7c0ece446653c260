#include "api/keys.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"

namespace rose {

namespace {

constexpr std::pair<const char*, unsigned> kScopes[] = {
    {"infer", kInfer}, {"metrics", kMetrics}, {"admin", kAdmin}};

Error at(const std::string& place, const std::string& what) {
  return {ErrorKind::invalid, place + ": " + what};
}

Result<unsigned> read_scopes(const Json& json, const std::string& place) {
  unsigned scopes = 0;
  if (!json.is_array()) return tl::unexpected(at(place, "wanted an array of scopes"));
  for (const Json& item : json) {
    const auto* const known = std::find_if(std::begin(kScopes), std::end(kScopes),
                                           [&](const auto& scope) { return item == scope.first; });
    if (known == std::end(kScopes))
      return tl::unexpected(
          at(place, dump_json(item) + " is no scope, wanted infer, metrics or admin"));
    scopes |= known->second;
  }
  return scopes;
}

Result<int64_t> read_whole(const Json& json, const std::string& place, int64_t low) {
  if (!json.is_number_integer() || json.get<int64_t>() < low ||
      json.get<int64_t>() > int64_t(1) << 53)
    return tl::unexpected(at(place, strf("%s, wanted a whole number from %lld",
                                         dump_json(json).c_str(), (long long)low)));
  return json.get<int64_t>();
}

Result<int> read_int(const Json& json, const std::string& place, int64_t low) {
  const int64_t value = TRY(read_whole(json, place, low));
  if (value > INT32_MAX) return tl::unexpected(at(place, "is too large"));
  return int(value);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

Status Keys::read_entry(const Json& json, const std::string& place, Entry& entry) {
  if (!json.is_object()) return tl::unexpected(at(place, "wanted an object"));
  for (const auto& [field, value] : json.items()) {
    const std::string where = place + "." + field;
    if (field == "name" || field == "sha256") {
      if (!value.is_string()) return tl::unexpected(at(where, "wanted a string"));
      (field == "name" ? entry.name : entry.sha256) = value.get<std::string>();
    } else if (field == "scopes") {
      entry.scopes = TRY(read_scopes(value, where));
    } else if (field == "requests_per_minute") {
      entry.limits.requests_per_minute = TRY(read_whole(value, where, 0));
    } else if (field == "tokens_per_minute") {
      entry.limits.tokens_per_minute = TRY(read_whole(value, where, 0));
    } else if (field == "tokens_per_day") {
      entry.limits.tokens_per_day = TRY(read_whole(value, where, 0));
    } else if (field == "concurrent") {
      entry.limits.concurrent = TRY(read_int(value, where, 0));
    } else if (field == "max_tokens") {
      entry.limits.max_tokens = TRY(read_int(value, where, 0));
    } else if (field == "priority") {
      entry.limits.priority = TRY(read_int(value, where, INT32_MIN));
    } else if (field == "share") {
      if (!value.is_number() || !(value.get<double>() > 0 && value.get<double>() <= 1e6))
        return tl::unexpected(at(where, dump_json(value) + ", wanted a number above 0"));
      entry.limits.share = value.get<double>();
    } else {
      return tl::unexpected(at(where, "no such field"));
    }
  }
  if (entry.name.empty() || entry.name.size() > 64)
    return tl::unexpected(at(place + ".name", "wanted 1 to 64 characters"));
  if (!is_sha256(entry.sha256))
    return tl::unexpected(
        at(place + ".sha256", "wanted the 64 digits that `rose keys new` or sha256sum print"));
  return Done{};
}

Result<std::vector<Keys::Entry>> Keys::read() const {
  std::vector<Entry> entries;
  for (size_t i = 0; i < options_.api_key.size(); ++i) {
    if (options_.api_key[i].empty()) return fail(ErrorKind::usage, "--api-key: it is empty");
    entries.push_back({.name = i == 0 ? "api-key" : strf("api-key-%zu", i + 1),
                       .sha256 = sha256_hex(options_.api_key[i]),
                       .scopes = kAllScopes,
                       .limits = options_.limits});
  }
  if (options_.file.empty()) return entries;
  const std::string doing = "--api-keys-file " + options_.file;
  const Json json = TRY(within(parse_json(TRY(within(read_file(options_.file), doing))), doing));
  const auto list = json.is_object() ? json.find("keys") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array() || json.size() != 1)
    return fail(ErrorKind::invalid, doing + ": wanted {\"keys\": […]}");
  std::set<std::string> names, hashes;
  for (const Entry& entry : entries) names.insert(entry.name), hashes.insert(entry.sha256);
  for (size_t i = 0; i < list->size(); ++i) {
    Entry entry{.limits = options_.limits};
    const std::string place = strf("keys[%zu]", i);
    TRY(within(read_entry((*list)[i], place, entry), doing));
    if (!names.insert(entry.name).second || !hashes.insert(entry.sha256).second)
      return fail(ErrorKind::invalid, doing + ": " + place + ": its name or key is there twice");
    entries.push_back(std::move(entry));
  }
  return entries;
}

Keys::Keys(const KeyOptions& options)
    : options_(options), anyone_(std::make_shared<Tenant>("", 0)) {
  anyone_->configure(kAllScopes, options.limits);
}

Result<std::unique_ptr<Keys>> Keys::open(const KeyOptions& options) {
  auto keys = std::unique_ptr<Keys>(new Keys(options));
  TRY(keys->reload());
  return keys;
}

Status Keys::reload() {
  const std::vector<Entry> entries = TRY(read());
  const std::lock_guard lock(mutex_);
  by_hash_.clear();
  for (const Entry& entry : entries) {
    std::shared_ptr<Tenant>& tenant = by_name_[entry.name];
    if (!tenant) tenant = std::make_shared<Tenant>(entry.name, ++last_id_);
    tenant->configure(entry.scopes, entry.limits);
    by_hash_[entry.sha256] = tenant;
  }
  return Done{};
}

// An empty file lets nobody in; it does not open the door.
bool Keys::required() const { return !options_.api_key.empty() || !options_.file.empty(); }

// Compared are hashes: how long that takes says nothing of the key.
std::shared_ptr<Tenant> Keys::find(std::string_view key) const {
  const std::string hash = sha256_hex(key);
  const std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Tenant>> Keys::tenants() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Tenant>> all;
  for (const auto& [hash, tenant] : by_hash_) all.push_back(tenant);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a->name() < b->name(); });
  return all;
}

std::string new_key() {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string key = "sk-rose-";
  for (const char byte : random_bytes(40)) key += kDigits[uint8_t(byte) % 64];
  return key;
}

}  // namespace rose
