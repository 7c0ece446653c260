// Regular expressions as grammar: what is regular in them, read as ECMAScript (which JSON Schema
// names) and most others do. Groups, classes, alternatives, counts, and ^ and $ at the ends of the
// whole pattern or of its alternatives. What is not (look-around, back references, boundaries, flags)
// is refused by name.
#pragma once
#include <string_view>

#include "base/result.h"
#include "text/grammar/chars.h"

namespace rose::grammar {

enum class Extent {
  whole,     // the pattern is all of the text
  anywhere,  // it occurs in the text, where ^ and $ do not say otherwise: `pattern` of JSON Schema
};

Result<Expr> regex(Grammar& grammar, std::string_view pattern, Extent extent, Writing writing);

}  // namespace rose::grammar
