// JSON Schema as grammar. Every text of the grammar is valid under the schema; what of a schema
// cannot be kept is refused by name, never ignored. Keywords:
//
//   type (also a list), enum, const, anyOf, $ref within the schema (also recursive)
//   oneOf whose schemas exclude each other, allOf whose schemas can be merged (schema_merge.h)
//   properties, required, additionalProperties
//   items, prefixItems, minItems, maxItems
//   minLength, maxLength, or pattern, or format (json_format.h)
//   minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (json_multiples.h)
//
// Properties come in the order of the schema, and others only where additionalProperties says so: as
// in the strict mode of OpenAI's API, an object that lists properties has no more unless it asks.
#pragma once
#include "base/json_fwd.h"
#include "base/result.h"
#include "text/grammar/grammar.h"

namespace rose::grammar {

// `schema` is read now and not needed later.
Result<Expr> json_schema(Grammar& grammar, const Json& schema);

// Any object.
Expr json_object(Grammar& grammar);

}  // namespace rose::grammar
