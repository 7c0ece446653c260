// `rose tokenize`, one line of JSON to another.
#pragma once
#include "base/json_fwd.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace rose {

// {"text": "…"} becomes {"tokens": […]}; with "special": true names of special tokens are those.
// {"tokens": […]} becomes {"text": "…"}; where their bytes are no UTF-8, the text has U+FFFD in
// their place and "bytes": […] are the bytes. A line with both is a text whose tokens are known, and
// other members are passed over, so that recorded examples can be given as they are.
Result<Json> tokenize_json(const Tokenizer& tokenizer, const Json& line);

}  // namespace rose
