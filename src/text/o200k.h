// What every o200k_harmony tokenizer has in common: the vocabulary that gpt-oss is trained with.
#pragma once
#include <string>
#include <string_view>

namespace rose::o200k {

inline constexpr int kOrdinaryTokens = 199998;  // ids from 0
inline constexpr int kLastToken = 201088;       // special tokens up to here

// The name of a special token, kOrdinaryTokens to kLastToken. Those without a purpose are called
// <|reserved_ID|>.
std::string special_name(int id);

inline constexpr std::string_view kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace rose::o200k
