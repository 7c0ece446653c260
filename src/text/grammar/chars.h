// Sets of characters as grammar over their bytes: as they stand in UTF-8, and as they are written in
// a JSON string.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "text/grammar/grammar.h"

namespace rose::grammar {

// Ranges of code points, both ends included; of a normal set they are in order and apart, without
// the surrogates, which are no characters.
using CharSet = std::vector<std::pair<uint32_t, uint32_t>>;

CharSet normal(CharSet set);
CharSet complement(const CharSet& normal_set);
inline CharSet all_chars() { return complement({}); }

// How the characters of a text are written.
enum class Writing {
  plain,
  json_string,  // between the quotes, each in one way: escaped only where it must be
};

Expr chars(Grammar& grammar, const CharSet& normal_set, Writing writing);
Expr text(Grammar& grammar, std::string_view utf8, Writing writing);

}  // namespace rose::grammar
