#include "text/plain_format.h"

namespace rose {

namespace {

class PlainStream final : public StreamParser {
 public:
  PlainStream(const Tokenizer& tokenizer, bool show_specials)
      : tokenizer_(tokenizer), show_specials_(show_specials) {}

  void push(int token, std::vector<ChatEvent>& events) override {
    if (show_specials_ || !tokenizer_.is_special(token))
      emit(utf8_.push(tokenizer_.bytes(token)), events);
  }
  void finish(std::vector<ChatEvent>& events) override { emit(utf8_.finish(), events); }
  int reasoning_tokens() const override { return 0; }
  bool in_reasoning() const override { return false; }

 private:
  static void emit(std::string text, std::vector<ChatEvent>& events) {
    if (!text.empty()) events.push_back({ChatEvent::Kind::content, std::move(text), 0});
  }

  const Tokenizer& tokenizer_;
  const bool show_specials_;
  Utf8Stream utf8_;
};

class PlainFormat final : public ChatFormat {
 public:
  explicit PlainFormat(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), ends_(end_tokens(tokenizer)) {}

  Result<std::vector<int>> render(const ChatPrompt& prompt) const override {
    if (!prompt.tools.empty())
      return fail(ErrorKind::invalid, "the plain chat format has no tools");
    std::string text;
    for (const ChatMessage& message : prompt.messages) {
      if (message.content.empty()) continue;
      if (!text.empty()) text += kMessageJoint;
      text += message.content;
    }
    std::vector<int> tokens = tokenizer_.encode(text);
    if (tokens.empty()) return fail(ErrorKind::invalid, "the prompt is empty");
    return tokens;
  }

  std::unique_ptr<StreamParser> parser(std::span<const Tool>) const override {
    return make_plain_parser(tokenizer_);
  }

  Result<grammar::Expr> turn(grammar::Grammar& grammar, const TurnRules& rules) const override {
    const grammar::Expr text = TRY(output_expr(grammar, rules.content));
    if (ends_.empty()) return text;
    std::vector<grammar::Expr> ends;
    for (const int token : ends_) ends.push_back(grammar.special(token));
    return grammar.sequence({text, grammar.any_of(std::move(ends))});
  }

  std::vector<int> stop_tokens() const override { return ends_; }

 private:
  const Tokenizer& tokenizer_;
  const std::vector<int> ends_;
};

}  // namespace

std::vector<int> end_tokens(const Tokenizer& tokenizer) {
  std::vector<int> tokens;
  for (const char* name : {"<|endoftext|>", "<|return|>", "<|im_end|>", "<|end_of_text|>",
                           "<|eot_id|>", "</s>", "<eos>"})
    if (const std::optional<int> token = tokenizer.special(name)) tokens.push_back(*token);
  return tokens;
}

std::unique_ptr<StreamParser> make_plain_parser(const Tokenizer& tokenizer, bool show_specials) {
  return std::make_unique<PlainStream>(tokenizer, show_specials);
}

Result<std::unique_ptr<ChatFormat>> make_plain_format(const Tokenizer& tokenizer) {
  return std::make_unique<PlainFormat>(tokenizer);
}

}  // namespace rose
