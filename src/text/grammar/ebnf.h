// Grammars as text, in the EBNF that llama.cpp (GBNF), XGrammar and vLLM take:
//
//   root   ::= "yes" | "no" reason?      # the first rule, where none is called root
//   reason ::= ", because " [a-z ]{1,80}
//
// Literals in double or single quotes, classes, '.', groups, '|', * + ? {m,n}, comments.
#pragma once
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace rose::grammar {

Result<Expr> ebnf(Grammar& grammar, std::string_view text);

}  // namespace rose::grammar
