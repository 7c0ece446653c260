// What a text that is asked for must be: a request's response_format and its kin, whatever they are
// called there.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "text/grammar/grammar.h"

namespace rose {

struct OutputFormat {
  enum class Kind { free, json_object, json_schema, regex, choice, ebnf };
  Kind kind = Kind::free;
  std::string name = {}, description = {};       // of the schema; the model may be told of them
  std::shared_ptr<const Json> schema = nullptr;  // json_schema
  std::string text = {};                         // regex, ebnf
  std::vector<std::string> choices = {};
};

// Any bytes where the format is free.
Result<grammar::Expr> output_expr(grammar::Grammar& grammar, const OutputFormat& format);

}  // namespace rose
