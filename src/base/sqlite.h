// SQLite behind a few words: open, run, step through rows. A Database may be used from one thread at a
// time.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rose {

using SqlValue = std::variant<int64_t, std::string_view>;

class Database {
 public:
  // A file, which is made where it is missing, or ":memory:". Files are written ahead (WAL) and synced:
  // what a transaction has written survives whatever happens after it.
  static Result<Database> open(const std::string& path);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  // One row of a result; good inside of the callback only.
  class Row {
   public:
    int64_t integer(int column) const;
    std::string_view text(int column) const;

   private:
    friend class Database;
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
    sqlite3_stmt* statement_;
  };

  // A statement with its '?' filled in; `row` sees each row of the result.
  template <class OnRow>
  Status run(const char* sql, std::initializer_list<SqlValue> values, OnRow&& on_row) {
    sqlite3_stmt* statement = TRY(prepare(sql, values));
    for (;;) {
      auto more = step(statement);
      if (!more || !*more) return finish(statement, std::move(more));
      on_row(Row(statement));
    }
  }
  Status run(const char* sql, std::initializer_list<SqlValue> values = {}) {
    return run(sql, values, [](const Row&) {});
  }
  int64_t changes() const;  // rows that the last statement changed

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  Result<sqlite3_stmt*> prepare(const char* sql, std::initializer_list<SqlValue> values);
  Result<bool> step(sqlite3_stmt* statement);  // false: no more rows
  Status finish(sqlite3_stmt* statement, Result<bool> last);
  Error error(const char* doing) const;

  sqlite3* handle_ = nullptr;
};

}  // namespace rose
