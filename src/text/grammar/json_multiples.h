// multipleOf: numbers whose remainder is kept from digit to digit.
#pragma once
#include "text/grammar/schema_keywords.h"

namespace rose::grammar {

// `whole`: of type integer. Refuses by name what would make too large a grammar.
Result<Expr> multiples(Grammar& grammar, const Json& of, const Bounds& bounds, bool whole);

}  // namespace rose::grammar
