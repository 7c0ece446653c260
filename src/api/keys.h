// The keys that may call, each with its holder. `--api-key` gives some in clear; `--api-keys-file` is
// JSON that knows only their SHA-256 (keys are long and random, so a plain hash is as good as a slow
// one):
//
//   {"keys": [{"name": "web", "sha256": "9f86…", "scopes": ["infer"],
//              "requests_per_minute": 600, "tokens_per_minute": 100000, "tokens_per_day": 5000000,
//              "concurrent": 32, "max_tokens": 4096, "priority": 0, "share": 2}]}
//
// What a key has used survives a reload, under its name. Every method may be called from any thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/tenant.h"
#include "base/json_fwd.h"
#include "base/result.h"

namespace rose {

struct KeyOptions {
  std::vector<std::string> api_key;
  std::string file;
  TenantLimits
      limits;  // of keys that the file gives none, and of all callers where there are no keys
};

class Keys {
 public:
  static Result<std::unique_ptr<Keys>> open(const KeyOptions& options);

  // Reads the file again; when that fails the old keys stay.
  Status reload();
  bool required() const;

  // Whose key it is; null: nobody's.
  std::shared_ptr<Tenant> find(std::string_view key) const;
  // Who calls where no key is required.
  std::shared_ptr<Tenant> anyone() const { return anyone_; }
  std::vector<std::shared_ptr<Tenant>> tenants() const;

 private:
  struct Entry {
    std::string name, sha256;
    unsigned scopes = kInfer;
    TenantLimits limits;
  };
  explicit Keys(const KeyOptions& options);
  Result<std::vector<Entry>> read() const;
  static Status read_entry(const Json& json, const std::string& place, Entry& entry);

  const KeyOptions options_;
  std::shared_ptr<Tenant> anyone_;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Tenant>> by_hash_;
  std::unordered_map<std::string, std::shared_ptr<Tenant>> by_name_;  // also of keys that are gone
  uint64_t last_id_ = 0;
};

// A new key, "sk-rose-…", and its hash.
std::string new_key();

}  // namespace rose
