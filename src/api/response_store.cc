#include "api/response_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

constexpr int kFormat = 2;  // of the tables; 1 had no items
constexpr size_t kLongestChain = 10'000;

int64_t size_of(const StoredResponse& response) {
  return int64_t(response.response.size() + response.input_items.size()) + 200;
}

StoredResponse read(const Database::Row& row) {
  return {.id = std::string(row.text(0)),
          .created = row.integer(1),
          .previous = std::string(row.text(2)),
          .owner = std::string(row.text(3)),
          .response = std::string(row.text(4)),
          .input_items = std::string(row.text(5)),
          .running = row.integer(6) != 0};
}

constexpr const char* kSelect =
    "SELECT id, created, previous, owner, response, input_items, running FROM responses "
    "WHERE id = ? AND owner = ?";

// Which response an item is in. The items themselves are in the responses' JSON and nowhere else; this
// follows them by itself.
#define ROSE_ITEM_IDS(row)                                       \
  "SELECT json_extract(value, '$.id') AS id FROM json_each(" row \
  ".input_items) WHERE type = 'object' UNION ALL "               \
  "SELECT json_extract(value, '$.id') FROM json_each(" row       \
  ".response, '$.output') WHERE type = 'object'"
constexpr const char* kItemIndex[] = {
    "CREATE TABLE IF NOT EXISTS items (owner TEXT, id TEXT, serial INTEGER, "
    "PRIMARY KEY (owner, id)) WITHOUT ROWID",
    "CREATE TRIGGER IF NOT EXISTS add_items AFTER INSERT ON responses BEGIN "
    "INSERT OR REPLACE INTO items SELECT NEW.owner, id, NEW.serial FROM (" ROSE_ITEM_IDS(
        "NEW") ") WHERE id IS NOT NULL; END",
    "CREATE TRIGGER IF NOT EXISTS forget_items AFTER DELETE ON responses BEGIN "
    "DELETE FROM items WHERE owner = OLD.owner AND serial = OLD.serial AND id IN (" ROSE_ITEM_IDS(
        "OLD") "); END"};
#undef ROSE_ITEM_IDS

constexpr const char* kSelectItem =
    "SELECT item.value FROM items JOIN responses USING (serial), "
    "json_each('[' || input_items || ',' || coalesce(json_extract(response, '$.output'), '[]') || "
    "']') AS list, json_each(list.value) AS item WHERE items.owner = ? AND items.id = ? AND "
    "CASE item.type WHEN 'object' THEN json_extract(item.value, '$.id') END = items.id";

}  // namespace

Result<std::unique_ptr<ResponseStore>> ResponseStore::open(const StoreOptions& options) {
  Database database = TRY(Database::open(options.path));
  std::unique_ptr<ResponseStore> store(new ResponseStore(std::move(database), options));
  TRY(within(store->set_up(), "the response store " + options.path));
  return store;
}

Status ResponseStore::set_up() {
  int64_t format = 0;
  TRY(database_.run("PRAGMA user_version", {},
                    [&](const Database::Row& row) { format = row.integer(0); }));
  if (format < 0 || format > kFormat)
    return fail(
        ErrorKind::unsupported,
        strf("its tables are of version %ld, this program's of version %d", long(format), kFormat));
  TRY(database_.run(
      "CREATE TABLE IF NOT EXISTS responses (serial INTEGER PRIMARY KEY, id TEXT UNIQUE, "
      "created INTEGER, previous TEXT, owner TEXT, response TEXT, input_items TEXT, "
      "running INTEGER, bytes INTEGER)"));
  TRY(database_.run("CREATE INDEX IF NOT EXISTS by_age ON responses (created)"));
  for (const char* part : kItemIndex) TRY(database_.run(part));
  if (format == 1) TRY(database_.run("INSERT OR REPLACE INTO responses SELECT * FROM responses"));
  TRY(database_.run(strf("PRAGMA user_version = %d", kFormat).c_str()));

  std::vector<StoredResponse> orphans;
  TRY(
      database_.run("SELECT id, created, previous, owner, response, input_items, running FROM "
                    "responses WHERE running = 1",
                    {}, [&](const Database::Row& row) { orphans.push_back(read(row)); }));
  for (const StoredResponse& orphan : orphans) {
    Json response = parse_json(orphan.response).value_or(Json::object());
    response["status"] = "failed";
    response["error"] = {{"code", "server_error"},
                         {"message", "the server ended before the response was complete"}};
    const std::string text = dump_json(response);
    TRY(database_.run("UPDATE responses SET response = ?, running = 0 WHERE id = ?",
                      {text, orphan.id}));
  }
  return database_.run("SELECT COALESCE(SUM(bytes), 0) FROM responses", {},
                       [&](const Database::Row& row) { bytes_ = row.integer(0); });
}

Status ResponseStore::put(const StoredResponse& response, int64_t now_s) {
  const std::lock_guard lock(mutex_);
  TRY(database_.run("SELECT bytes FROM responses WHERE id = ?", {response.id},
                    [&](const Database::Row& row) { bytes_ -= row.integer(0); }));
  TRY(database_.run(
      "INSERT OR REPLACE INTO responses (id, created, previous, owner, response, "
      "input_items, running, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      {response.id, response.created, response.previous, response.owner, response.response,
       response.input_items, int64_t(response.running), size_of(response)}));
  bytes_ += size_of(response);
  return make_room(now_s);
}

// The newest stays, however large it is. What runs will be written again: it stays as well.
Status ResponseStore::make_room(int64_t now_s) {
  TRY(database_.run(
      "SELECT COALESCE(SUM(bytes), 0) FROM responses WHERE created < ? AND running = 0",
      {now_s - options_.max_age_s}, [&](const Database::Row& row) { bytes_ -= row.integer(0); }));
  TRY(database_.run("DELETE FROM responses WHERE created < ? AND running = 0",
                    {now_s - options_.max_age_s}));
  if (bytes_ <= options_.max_bytes) return Done{};
  // A tenth more than needed goes, so that this is rare.
  std::vector<std::string> oldest;
  int64_t left = bytes_;
  TRY(
      database_.run("SELECT id, bytes FROM responses WHERE running = 0 ORDER BY serial LIMIT "
                    "(SELECT MAX(COUNT(*) - 1, 0) FROM responses)",
                    {}, [&](const Database::Row& row) {
                      if (left <= options_.max_bytes - options_.max_bytes / 10) return;
                      oldest.emplace_back(row.text(0));
                      left -= row.integer(1);
                    }));
  TRY(database_.run("BEGIN"));
  for (const std::string& id : oldest)
    TRY(database_.run("DELETE FROM responses WHERE id = ?", {id}));
  TRY(database_.run("COMMIT"));
  bytes_ = left;
  return database_.run("PRAGMA incremental_vacuum");
}

Result<std::optional<StoredResponse>> ResponseStore::look_up(const std::string& id,
                                                             const std::string& owner) {
  std::optional<StoredResponse> found;
  TRY(database_.run(kSelect, {id, owner}, [&](const Database::Row& row) { found = read(row); }));
  return found;
}

Result<std::optional<StoredResponse>> ResponseStore::find(const std::string& id,
                                                          const std::string& owner) {
  const std::lock_guard lock(mutex_);
  return look_up(id, owner);
}

Result<std::optional<std::string>> ResponseStore::item(const std::string& id,
                                                       const std::string& owner) {
  const std::lock_guard lock(mutex_);
  std::optional<std::string> found;
  TRY(database_.run(kSelectItem, {owner, id},
                    [&](const Database::Row& row) { found = row.text(0); }));
  return found;
}

Result<bool> ResponseStore::remove(const std::string& id, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  const std::optional<StoredResponse> found = TRY(look_up(id, owner));
  if (!found) return false;
  TRY(database_.run("DELETE FROM responses WHERE id = ?", {id}));
  bytes_ -= size_of(*found);
  return true;
}

Result<std::vector<StoredResponse>> ResponseStore::chain(const std::string& id,
                                                         const std::string& owner) {
  const std::lock_guard lock(mutex_);
  std::vector<StoredResponse> chain;
  for (std::string next = id; !next.empty();) {
    std::optional<StoredResponse> found = TRY(look_up(next, owner));
    if (!found || chain.size() == kLongestChain)
      return fail(ErrorKind::not_found, "response '" + next.substr(0, 80) + "' is not stored here" +
                                            (next == id ? "" : " any more"));
    next = found->previous;
    chain.push_back(std::move(*found));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

int64_t ResponseStore::count() {
  const std::lock_guard lock(mutex_);
  int64_t count = 0;
  (void)database_.run("SELECT COUNT(*) FROM responses", {},
                      [&](const Database::Row& row) { count = row.integer(0); });
  return count;
}

}  // namespace rose
