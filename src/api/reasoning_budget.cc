#include "api/reasoning_budget.h"

namespace rose {

namespace {

class LimitedReasoning final : public TokenConstraint {
 public:
  explicit LimitedReasoning(std::shared_ptr<const ReasoningLimit> limit)
      : limit_(std::move(limit)), parser_(limit_->format->parser(limit_->tools)) {
    if (limit_->turn)
      held_ = limit_->turn();
    else
      everything_.assign((size_t(limit_->vocab) + 31) / 32, ~uint32_t(0));
  }

  std::span<const uint32_t> mask() override {
    return held_ ? held_->mask() : std::span<const uint32_t>(everything_);
  }

  void accept(int token) override {
    if (held_) held_->accept(token);
    if (!parser_) return;
    parser_->push(token, events_);
    events_.clear();
    // The token that ends the thought counts as well.
    if (parser_->in_reasoning() && parser_->reasoning_tokens() >= limit_->tokens - 1) {
      held_ = limit_->ending();
      parser_ = nullptr;
    }
  }

  bool complete() override { return held_ && held_->complete(); }

 private:
  const std::shared_ptr<const ReasoningLimit> limit_;
  std::unique_ptr<StreamParser> parser_;  // null once the limit was reached
  std::unique_ptr<TokenConstraint> held_;
  std::vector<uint32_t> everything_;
  std::vector<ChatEvent> events_;
};

}  // namespace

MakeConstraint limit_reasoning(ReasoningLimit limit) {
  const auto shared = std::make_shared<const ReasoningLimit>(std::move(limit));
  return [shared] { return std::make_unique<LimitedReasoning>(shared); };
}

}  // namespace rose
