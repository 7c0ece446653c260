// Finished (and, in the background, unfinished) responses, kept so that clients can ask for them again and
// go on from them. SQLite holds them, in a file or in memory; the oldest go when they are too old or all
// together too large.
//
// What put() has returned for survives a kill of the process. From any thread; may wait for the disk.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/sqlite.h"

namespace rose {

struct StoreOptions {
  std::string path = ":memory:";
  int64_t max_bytes = 256 << 20;
  int64_t max_age_s = 30 * 24 * 3600;
};

struct StoredResponse {
  std::string id;
  int64_t created = 0;      // seconds since 1970
  std::string previous;     // the response it goes on from, or empty
  std::string owner;        // whose it is: nobody else sees it
  std::string response;     // JSON, as it is shown
  std::string input_items;  // JSON array: what came with this request
  bool running = false;
};

class ResponseStore {
 public:
  // What still runs according to the file ran in a process that is gone: it becomes failed.
  static Result<std::unique_ptr<ResponseStore>> open(const StoreOptions& options);

  // Adds it, or replaces the one of this id, and drops what no longer fits.
  Status put(const StoredResponse& response, int64_t now_s);
  Result<std::optional<StoredResponse>> find(const std::string& id, const std::string& owner);
  // False: there was none.
  Result<bool> remove(const std::string& id, const std::string& owner);
  // The response and all those that it goes on from, oldest first; not_found names what is missing.
  Result<std::vector<StoredResponse>> chain(const std::string& id, const std::string& owner);
  // An item of a response, or one that came with its request, by its own id; the newest of that id.
  Result<std::optional<std::string>> item(const std::string& id, const std::string& owner);

  int64_t count();

 private:
  ResponseStore(Database database, const StoreOptions& options)
      : options_(options), database_(std::move(database)) {}
  Status set_up();
  Status make_room(int64_t now_s);
  Result<std::optional<StoredResponse>> look_up(const std::string& id, const std::string& owner);

  const StoreOptions options_;
  std::mutex mutex_;  // protects what follows
  Database database_;
  int64_t bytes_ = 0;  // of all responses
};

}  // namespace rose
