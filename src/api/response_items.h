// What the model says as items of the Responses API: reasoning, messages and function calls, and the
// events that tell of their growth. Streamed or not, it is this one path that makes the items.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "api/choice.h"
#include "base/json_fwd.h"

namespace rose {

class ResponseItems {
 public:
  // An event: its type, and its other fields as JSON text, each with a comma before it.
  using Emit = std::function<void(std::string_view type, std::string_view fields)>;

  struct Options {
    bool logprobs = false;
    bool encrypted_reasoning = false;  // reasoning comes a second time, in a form for sending back
  };

  ResponseItems(const Tokenizer& tokenizer, const Options& options, Emit emit);
  ~ResponseItems();

  void add(const Delta& delta);
  // The last item ends: whole, or cut short.
  void close(bool complete);
  const Json& items() const;

 private:
  enum class Kind { none, reasoning, message, call };

  void open(Kind kind, const Delta& delta);
  void add_text(const Delta& delta);
  std::string where() const;  // ,"item_id":…,"output_index":…
  void emit(std::string_view type, const std::string& fields) { emit_(type, fields); }

  const Tokenizer& tokenizer_;
  const Options options_;
  const Emit emit_;
  std::unique_ptr<Json> items_;
  Kind open_ = Kind::none;
  std::string id_, text_;  // of the open item
  std::string logprobs_;   // of its text, as JSON
  bool seen_[4] = {};      // kinds that there were
  size_t joint_ = 0;       // bytes to come that only join it to the one before
};

// The text of reasoning in the form that goes to the client and comes back.
std::string seal_reasoning(std::string_view text);
// Empty if it is no such form.
std::string unseal_reasoning(std::string_view sealed);

}  // namespace rose
