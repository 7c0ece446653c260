#include "api/constraints.h"

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

constexpr size_t kKept = 64;

class MatchedTokens final : public TokenConstraint {
 public:
  explicit MatchedTokens(std::shared_ptr<grammar::Constraint> constraint)
      : matcher_(std::move(constraint)) {}

  std::span<const uint32_t> mask() override {
    mask_ = matcher_.mask();
    return *mask_;
  }
  void accept(int token) override {
    ROSE_CHECK(matcher_.accept(token), "constraint: token %d was sampled but not allowed", token);
  }
  bool complete() override { return matcher_.must_end(); }

 private:
  grammar::Matcher matcher_;
  grammar::Mask mask_;  // the one that is in use
};

// Everything that makes one constraint differ from another.
std::string key_of(const TurnRules& rules) {
  const OutputFormat& content = rules.content;
  Json key = {int(rules.thinking), rules.may_answer, int(content.kind),
              content.text,        content.choices,  content.schema ? *content.schema : Json()};
  for (const TurnRules::Call& call : rules.calls)
    key.push_back({call.name, call.parameters ? *call.parameters : Json()});
  return dump_json(key);
}

}  // namespace

Result<Constraints::Shared> Constraints::make(const TurnRules& rules) {
  std::call_once(once_, [&] { trie_ = std::make_shared<const grammar::TokenTrie>(tokenizer_); });
  grammar::Grammar grammar;
  const grammar::Expr turn = TRY(format_.turn(grammar, rules));
  const grammar::Rule root = grammar.declare();
  grammar.define(root, turn);
  Shared made = TRY(grammar::Constraint::make(grammar, root, trie_));
  grammar::Matcher(made).mask();  // here rather than on the engine's thread
  return made;
}

Result<MakeConstraint> Constraints::find(const TurnRules& rules) {
  const std::string key = key_of(rules);
  Shared found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) {
      recent_.splice(recent_.begin(), recent_, known->second);
      found = known->second->second;
    }
  }
  if (!found) {
    found = TRY(make(rules));
    const std::lock_guard lock(mutex_);
    if (!known_.contains(key)) {
      recent_.emplace_front(key, found);
      known_[key] = recent_.begin();
    }
    if (recent_.size() > kKept) {
      known_.erase(recent_.back().first);
      recent_.pop_back();
    }
  }
  return [found] { return std::make_unique<MatchedTokens>(found); };
}

}  // namespace rose
