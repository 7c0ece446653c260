// A grammar made ready to run: a push-down machine whose steps read a byte or a special token, branch,
// or call another part and come back. What is told apart nowhere in the grammar is one class, so that
// tables are over a few dozen classes instead of 256 bytes.
#pragma once
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace rose::grammar {

// Calls that may be open at once. Enough for about 80 levels of nested JSON.
inline constexpr int kMaxDepth = 256;

struct Program {
  enum class Op : uint8_t {
    end,    // of a rule or of a repeated part: back to who called
    read,   // something of a set, then `next`
    split,  // any of targets[low .. high)
    call,   // `body`, then `next`
    loop,   // `body` at least `low` and at most `high` times, then `next`
  };
  struct Step {
    Op op;
    int next = 0;
    int body = 0;
    int low = 0, high = 0;  // read: low is the set
    // Calls that the shortest way from here to the end of its rule has open at once; more than
    // kMaxDepth where there is no such way. Keeps the machine from where it could never end.
    int height = kMaxDepth + 1;
  };

  // Fails if the grammar is too large or no text at all satisfies it.
  static Result<Program> compile(const Grammar& grammar, Rule root);

  bool reads(int set, int symbol_class) const {
    return read_table[size_t(set * classes + symbol_class)];
  }

  std::vector<Step> steps;  // [0] is the one `end`
  std::vector<int> targets;
  int start = 0;
  int classes = 0;
  std::array<int16_t, 256> class_of_byte{};
  std::vector<std::pair<int, int>> specials;  // token, class
  std::vector<bool> read_table;               // [sets, classes]
};

}  // namespace rose::grammar
