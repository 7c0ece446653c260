// Objects whose properties are known, in their order, and others after them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/grammar/json_rules.h"

namespace rose::grammar {

struct Property {
  std::string name;
  Expr value;
  bool required;
};

// `others`: the value of properties that are not listed, if there may be such.
Expr object_of(Grammar& grammar, JsonRules& json, const std::vector<Property>& properties,
               std::optional<Expr> others);

}  // namespace rose::grammar
