// Conversations as JSON, and the commands that work on JSON lines: `rose render` and `rose parse`.
//
//   {"messages": [{"role": "user", "name"?, "recipient"?, "channel"?, "content_type"?,
//                  "content": "text" or [{"type": "text" | "system_content" | "developer_content"}]}]}
#pragma once
#include "base/json_fwd.h"
#include "base/result.h"
#include "text/harmony.h"
#include "text/tokenizer.h"

namespace rose {

namespace harmony {
// Members that are not known are passed over; the error says which message is wrong and how.
Result<Conversation> conversation_from_json(const Json& json);
Json message_to_json(const Header& header, const std::string& text);
}  // namespace harmony

// {"conversation", "op": "render" | "completion" | "training", "next_role", "auto_drop_analysis"}
// becomes {"text", "tokens"}, or {"error"} where the line asks for what cannot be rendered. Analysis is
// dropped unless auto_drop_analysis says otherwise. Fails only for a vocabulary without Harmony.
Result<Json> render_json(const Tokenizer& tokenizer, const Json& line);

// {"tokens", "role", "strict"} becomes {"messages", "error"}. A tolerant error is about the line,
// never about the tokens.
Json parse_json_line(const Tokenizer& tokenizer, const Json& line, bool tolerant);

}  // namespace rose
