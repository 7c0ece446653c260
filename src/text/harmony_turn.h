// A whole turn of the assistant as grammar: channel headers that are always well formed, analysis
// left free, and the bodies that the request binds.
#pragma once
#include "text/chat_format.h"
#include "text/harmony.h"

namespace rose::harmony {

// What follows <|start|>assistant, up to the token that ends the turn.
Result<grammar::Expr> turn_expr(grammar::Grammar& grammar, const Specials& specials,
                                const TurnRules& rules);

}  // namespace rose::harmony
