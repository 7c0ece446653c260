// The keywords of one JSON schema: read, checked, and refused by name where they are unknown, of the
// wrong type, or stand beside others that they cannot be combined with.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "text/grammar/json_rules.h"

namespace rose::grammar {

tl::unexpected<Error> refuse(std::string what);

// What a schema says, in one of these ways.
enum class Form { typed, reference, any_of, one_of, all_of, values };

struct Keywords {
  Form form = Form::typed;
  std::vector<std::string> types;  // none: any
};
Result<Keywords> read_keywords(const Json& schema);

// Says nothing about what is valid: "title".
bool is_note(const std::string& keyword);

bool is_of_type(const Json& value, const std::string& type);

// Counts: minLength and maxLength, minItems and maxItems.
struct Range {
  int low = 0, high = kNoLimit;
  const char* given = nullptr;  // the name of one that is there
};
Result<Range> read_range(const Json& schema, const char* low, const char* high);

struct Bounds {
  std::optional<Bound> low, high;
};
Result<Bounds> read_bounds(const Json& schema);
std::pair<int64_t, int64_t> integers_within(const Bounds& bounds);

// "#", "#/$defs/name", "#/properties/a/items".
Result<const Json*> resolve_reference(const Json& root, const std::string& reference);

}  // namespace rose::grammar
