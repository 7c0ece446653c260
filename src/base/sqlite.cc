#include "base/sqlite.h"

#include <sqlite3.h>

#include <utility>

namespace rose {

Result<Database> Database::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Database database(handle);  // also a failed one must be closed
  if (code != SQLITE_OK)
    return fail(ErrorKind::io, "opening the database " + path + ": " + sqlite3_errstr(code));
  sqlite3_busy_timeout(handle, 5000);  // another program may be looking at it
  for (const char* setting : {"PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL",
                              "PRAGMA synchronous = FULL"})
    TRY(within(database.run(setting), "opening the database " + path));
  return database;
}

Database::Database(Database&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Database& Database::operator=(Database&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
Database::~Database() { sqlite3_close(handle_); }

int64_t Database::Row::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string_view Database::Row::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes ? std::string_view(bytes, size_t(sqlite3_column_bytes(statement_, column))) : "";
}

Result<sqlite3_stmt*> Database::prepare(const char* sql, std::initializer_list<SqlValue> values) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr) != SQLITE_OK)
    return tl::unexpected<Error>(error(sql));
  int place = 0;
  for (const SqlValue& value : values) {
    ++place;
    int code;
    if (const auto* number = std::get_if<int64_t>(&value)) {
      code = sqlite3_bind_int64(statement, place, *number);
    } else {
      const std::string_view text = std::get<std::string_view>(value);
      code = sqlite3_bind_text64(statement, place, text.data() ? text.data() : "", text.size(),
                                 SQLITE_TRANSIENT, SQLITE_UTF8);
    }
    if (code != SQLITE_OK) {
      Error bad = error(sql);
      sqlite3_finalize(statement);
      return tl::unexpected<Error>(std::move(bad));
    }
  }
  return statement;
}

Result<bool> Database::step(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected<Error>(error(sqlite3_sql(statement)));
}

Status Database::finish(sqlite3_stmt* statement, Result<bool> last) {
  sqlite3_finalize(statement);
  if (!last) return tl::unexpected<Error>(std::move(last).error());
  return Done{};
}

int64_t Database::changes() const { return sqlite3_changes(handle_); }

Error Database::error(const char* doing) const {
  return {ErrorKind::io, std::string("SQLite: ") + sqlite3_errmsg(handle_) + ", at \"" +
                             std::string(doing ? doing : "").substr(0, 80) + "\""};
}

}  // namespace rose
