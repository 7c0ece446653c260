#include "text/grammar/output.h"

#include "text/grammar/ebnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex.h"

namespace rose {

Result<grammar::Expr> output_expr(grammar::Grammar& grammar, const OutputFormat& format) {
  switch (format.kind) {
    case OutputFormat::Kind::free: break;
    case OutputFormat::Kind::json_object: return grammar::json_object(grammar);
    case OutputFormat::Kind::json_schema: return grammar::json_schema(grammar, *format.schema);
    case OutputFormat::Kind::regex:
      return grammar::regex(grammar, format.text, grammar::Extent::whole, grammar::Writing::plain);
    case OutputFormat::Kind::choice: return grammar.literals(format.choices);
    case OutputFormat::Kind::ebnf: return grammar::ebnf(grammar, format.text);
  }
  return grammar.star(grammar.bytes(0x00, 0xFF));
}

}  // namespace rose
