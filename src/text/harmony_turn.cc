#include "text/harmony_turn.h"

#include "text/grammar/json_schema.h"

namespace rose::harmony {

namespace {

using grammar::Expr;
using grammar::Rule;

class Turn {
 public:
  Turn(grammar::Grammar& grammar, const Specials& specials) : g_(grammar), specials_(specials) {
    const Rule any = g_.declare();
    g_.define(any, g_.star(g_.bytes(0x00, 0xFF)));
    anything_ = g_.call(any);
  }

  Result<Expr> build(const TurnRules& rules) {
    std::vector<Expr> ends;
    if (rules.may_answer) {
      const Expr content = rules.content.kind == OutputFormat::Kind::free
                               ? anything_
                               : TRY(output_expr(g_, rules.content));
      ends.push_back(message("final", content, specials_.return_));
    }
    for (const TurnRules::Call& call : rules.calls) ends.push_back(TRY(this->call(call)));

    std::vector<Expr> before;
    if (rules.thinking == TurnRules::Thinking::free)
      before.push_back(message("analysis", anything_, specials_.end));
    // Words for the user before a call would be part of the content: only where that is free.
    if (rules.content.kind == OutputFormat::Kind::free && !rules.calls.empty())
      before.push_back(message("commentary", anything_, specials_.end));
    const Expr next = g_.sequence({g_.special(specials_.start), g_.literal("assistant")});
    std::vector<Expr> turn;
    if (rules.thinking == TurnRules::Thinking::ends) turn = {g_.special(specials_.end), next};
    if (!before.empty()) turn.push_back(g_.star(g_.sequence({g_.any_of(std::move(before)), next})));
    turn.push_back(g_.any_of(std::move(ends)));
    return g_.sequence(std::move(turn));
  }

 private:
  Expr message(const char* channel, Expr content, int end) {
    return g_.sequence({g_.special(specials_.channel), g_.literal(channel),
                        g_.special(specials_.message), content, g_.special(end)});
  }

  // The recipient after the channel, as models write it, or before, as the history shows it.
  Result<Expr> call(const TurnRules::Call& call) {
    Expr arguments;
    if (call.parameters)
      arguments = TRY(within(grammar::json_schema(g_, *call.parameters),
                             "the parameters of tool '" + call.name + "'"));
    else
      arguments = grammar::json_object(g_);
    const Expr recipient = g_.literal(" to=functions." + call.name);
    const Expr channel = g_.sequence({g_.special(specials_.channel), g_.literal("commentary")});
    return g_.sequence(
        {g_.any_of({g_.sequence({channel, recipient}), g_.sequence({recipient, channel})}),
         g_.optional(g_.literal(" ")), g_.special(specials_.constrain), g_.literal("json"),
         g_.special(specials_.message), arguments, g_.special(specials_.call)});
  }

  grammar::Grammar& g_;
  const Specials& specials_;
  Expr anything_;
};

}  // namespace

Result<grammar::Expr> turn_expr(grammar::Grammar& grammar, const Specials& specials,
                                const TurnRules& rules) {
  return Turn(grammar, specials).build(rules);
}

}  // namespace rose::harmony
