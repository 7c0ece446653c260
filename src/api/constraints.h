// The constraints of turns, kept by what they say: a schema that comes with every request is compiled
// once, and its masks are found once.
#pragma once
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/request.h"
#include "text/chat_format.h"
#include "text/grammar/matcher.h"

namespace rose {

using MakeConstraint = std::function<std::unique_ptr<TokenConstraint>()>;

class Constraints {
 public:
  // Both must outlive this.
  Constraints(const Tokenizer& tokenizer, const ChatFormat& format)
      : tokenizer_(tokenizer), format_(format) {}

  // What a request takes with it to the engine. From any thread; may take a while.
  Result<MakeConstraint> find(const TurnRules& rules);

 private:
  using Shared = std::shared_ptr<grammar::Constraint>;
  Result<Shared> make(const TurnRules& rules);

  const Tokenizer& tokenizer_;
  const ChatFormat& format_;
  std::once_flag once_;
  std::shared_ptr<const grammar::TokenTrie> trie_;  // made for the first request that needs it

  std::mutex mutex_;                                  // protects what follows
  std::list<std::pair<std::string, Shared>> recent_;  // latest use first
  std::unordered_map<std::string, std::list<std::pair<std::string, Shared>>::iterator> known_;
};

}  // namespace rose
