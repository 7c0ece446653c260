// allOf: several schemas that must all hold, as one schema that says the same. Also oneOf: whether its
// schemas exclude each other, so that "exactly one" is "any".
#pragma once
#include <deque>

#include "base/json_fwd.h"
#include "base/result.h"

namespace rose::grammar {

class SchemaMerger {
 public:
  // `root`: where $refs lead. It must outlive this.
  explicit SchemaMerger(const Json& root) : root_(root) {}
  ~SchemaMerger();

  // A schema with allOf, what stands beside it included. The result lives as long as this.
  Result<const Json*> merge(const Json& schema);

  // False: not known to.
  bool exclude_each_other(const Json& one, const Json& other) const;

 private:
  Status add(const Json& schema, int depth, Json& into);
  Status add_keyword(const std::string& name, const Json& value, Json& into);
  Status add_properties(const Json& properties, Json& into);
  Status settle_others(Json& into);

  const Json& root_;
  std::deque<Json> merged_;
  int added_ = 0;  // schemas, in all merges
};

}  // namespace rose::grammar
