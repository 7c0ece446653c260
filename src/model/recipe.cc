#include "model/recipe.h"

#include <string>

namespace rose {

bool keeps(const Ops& ops, const Recipe& recipe) {
  return keeps(ops, recipe.attention) && keeps(ops, recipe.expert) &&
         keeps(ops, recipe.expert_bf16) && keeps(ops, recipe.unembedding);
}

Result<const Recipe*> find_recipe(std::string_view name) {
  std::string names;
  for (const Recipe& recipe : kRecipes) {
    if (name == recipe.name) return &recipe;
    names += std::string(names.empty() ? "" : ", ") + recipe.name;
  }
  return fail(ErrorKind::invalid, "no recipe '" + std::string(name) + "'; there are: " + names);
}

}  // namespace rose
