// What the model says as items of the Responses API: reasoning, messages and calls, and the events that
// tell of their growth. Streamed or not, it is this one path that makes the items.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "api/custom_input.h"
#include "api/turn_parts.h"
#include "base/json_fwd.h"

namespace rose {

class ResponseItems final : public TurnParts {
 public:
  // An event: its type, and its other fields as JSON text, each with a comma before it.
  using Emit = std::function<void(std::string_view type, std::string_view fields)>;

  struct Options {
    bool logprobs = false;
    bool encrypted_reasoning = false;  // reasoning comes a second time, in a form for sending back
    std::set<std::string> custom_tools = {};  // names of those that take text
  };

  ResponseItems(const Tokenizer& tokenizer, const Options& options, Emit emit);
  ~ResponseItems() override;

  const Json& items() const;

 private:
  void begin(Kind kind, const Delta& delta) override;
  void grow(std::string_view text, const Delta& delta) override;
  void end(bool complete) override;

  void grow_input(std::string_view text);
  void end_call(Json& item);
  void end_text(Json& item);
  std::string where() const;  // ,"item_id":…,"output_index":…
  void emit(std::string_view type, const std::string& fields) { emit_(type, fields); }
  void emit_item(const char* type);

  const Tokenizer& tokenizer_;
  const Options options_;
  const Emit emit_;
  std::unique_ptr<Json> items_;
  // Of the open item:
  std::string id_;
  std::string logprobs_;  // of its text, as JSON
  bool custom_ = false;   // a call whose arguments are a text
  CustomInput unwrap_;
  std::string input_;  // that text
};

// The text of reasoning in the form that goes to the client and comes back.
std::string seal_reasoning(std::string_view text);
// Empty if it is no such form.
std::string unseal_reasoning(std::string_view sealed);

}  // namespace rose
