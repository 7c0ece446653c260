// A JSON schema as a TypeScript type, as gpt-oss was taught to read the parameters of functions.
//
// The reference's rendering has odd corners (descriptions before the brace, no parentheses around
// the union in `"x" | "y"[]`); they are kept, since the model has seen nothing else.
#pragma once
#include <string>

#include "base/json_fwd.h"
#include "text/harmony.h"

namespace rose::harmony {

void append_typescript(const Json& schema, SchemaStyle style, std::string& out);

}  // namespace rose::harmony
