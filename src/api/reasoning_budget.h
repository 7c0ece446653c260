// A hard limit on reasoning: when so many of its tokens are said, the masks leave nothing but the legal
// end of the thought, and after it an answer or a call.
#pragma once
#include <vector>

#include "api/constraints.h"

namespace rose {

// Of a message of reasoning, its header and its end are tokens too: less than this is none at all.
inline constexpr int kLeastReasoning = 8;

struct ReasoningLimit {
  int tokens;
  int vocab;  // tokens that exist
  const ChatFormat* format;
  std::vector<Tool> tools;
  MakeConstraint turn;    // what the turn is held to until then; empty: nothing
  MakeConstraint ending;  // from inside of reasoning on (TurnRules::Thinking::ends)
};

MakeConstraint limit_reasoning(ReasoningLimit limit);

}  // namespace rose
