// A request while the engine works on it. The engine's news travel to the connection's thread, where
// choices turn them into deltas and an Answer turns those into what its API sends. A client that leaves
// cancels the request; an answer that is complete before the engine is (a stop string) does too.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "api/choice.h"
#include "api/context.h"
#include "base/clock.h"

namespace rose {

struct Usage {
  int prompt_tokens = 0, completion_tokens = 0;
  int cached_tokens = 0;     // of the prompt
  int reasoning_tokens = 0;  // of the completion
};

class Generation;

// What an API makes of a generation. Called on the connection's thread.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void accepted(Generation& generation) = 0;  // first
  // The tokens that came, whatever they mean; then what they made certain, if anything.
  virtual void tokens(const Generation&, int /*choice*/, std::span<const GeneratedToken>) {}
  virtual void deltas(const Generation& generation, int choice, std::vector<Delta> deltas) = 0;
  virtual void choice_ended(const Generation& generation, int choice) = 0;
  // One of these is last.
  virtual void ended(const Generation& generation) = 0;
  virtual void failed(const ApiError& error) = 0;
};

struct GenerationPlan {
  std::vector<Request> requests;  // their choices are numbered through
  ChoiceOptions choice;
  std::function<std::unique_ptr<StreamParser>()> parser;
  bool outlives_client = false;  // a client that leaves does not end it
  // Each choice begins with its prompt: all of it but the first token, of which there is no
  // log-probability, is the opening of its request.
  bool says_prompt = false;
  Time arrived;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Submits; what goes wrong is told to `answer`. On the connection's thread.
  static void start(ApiContext& context, Exchange exchange, GenerationPlan plan,
                    std::unique_ptr<Answer> answer);

  Generation(ApiContext& context, Exchange exchange, const GenerationPlan& plan,
             std::unique_ptr<Answer> answer);

  const Choice& choice(int index) const { return choices_[size_t(index)]; }
  int choices() const { return int(choices_.size()); }
  Usage usage() const;

  // Ends it early: the answer is told that it failed with this. On the connection's thread.
  void stop(const ApiError& error);
  // From any thread: runs `work` on the connection's thread.
  void post(std::function<void()> work) const { exchange_.post(std::move(work)); }

 private:
  void submit(std::vector<Request> requests);
  void say_first_tokens();
  void update(int choice, const Update& news);
  void observe_time(int choice, const Update& news);
  bool enter(std::vector<Request>& requests);
  void add_timing();
  void arm();
  void wake_at(Time when);
  void expired();
  void fail(const ApiError& error, const char* reason);
  void client_left();
  void settle(std::string_view reason);

  ApiContext& context_;
  Exchange exchange_;
  std::unique_ptr<Answer> answer_;  // null once it is complete
  std::vector<Choice> choices_;
  int running_;  // choices that the engine has not ended
  int open_;     // choices that the answer still waits for
  const bool outlives_client_;
  std::vector<RequestId> ids_;
  std::shared_ptr<Tenant> tenant_;  // whose place this takes; null: it has none (yet)
  RequestOutcome outcome_;
  std::vector<int> cached_tokens_;  // of each request's prompt
  std::vector<int> first_tokens_;   // of each choice's prompt, where these are said
  std::vector<Delta> deltas_;

  Time arrived_, first_token_, last_token_;
  Time last_moment_;                // for its end; none: no limit
  std::vector<Time> choice_token_;  // when each choice got its last
};

}  // namespace rose
