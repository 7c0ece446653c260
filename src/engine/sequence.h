// One choice of a request: its tokens, its pages, and how its next token is drawn. Owned by the
// scheduler; touched by the engine's thread alone.
//
//   tokens    0 ........ prompt ............ tokens.size() .... length .... max_length
//             | asked    | generated, known  | being sampled    | may come
//   fed       0 ......................... computed
//             | keys and values are in pages, or will be when the steps under way are done
#pragma once
#include <memory>
#include <unordered_map>

#include "base/clock.h"
#include "cache/kv_cache.h"
#include "engine/request.h"

namespace rose {

struct Sequence {
  // Set on arrival.
  uint64_t request = 0;
  int choice = 0;
  int priority = 0;
  uint64_t tenant = 0;
  double share = 1;
  uint64_t arrival = 0;  // by the scheduler: earlier ones go first
  SamplingParams sampling;
  uint64_t seed = 0;
  std::vector<int> stop_tokens;
  std::vector<TokenBias>
      opening;         // tokens that are given, each with the bias that makes sure of it
  int prompt = 0;      // tokens
  int min_length = 0;  // no stop token before the sequence has as many tokens
  int max_length = 0;
  std::string salt;
  bool remember = true;  // its pages go into the prefix cache
  std::unique_ptr<TokenConstraint> constraint = {};

  std::vector<int> tokens;
  int length = 0;
  int computed = 0;
  std::vector<int> pages[kPools];   // kNoPage: the window has left it
  int remembered = 0;               // pages that the prefix cache has been told of
  int cached_tokens = 0;            // of the prompt, found there on arrival
  bool admitted = false;            // at least once
  Time submitted = {}, began = {};  // began: when admitted first
  Finish finish = Finish::none;

  int sample = -1;     // which of the newest step's samples is its own
  uint32_t epoch = 0;  // raised when it gives up its pages: results of older steps do not count
  int steps_under_way = 0;

  // The other choices, which wait until the prompt is computed and then share its pages.
  std::vector<std::unique_ptr<Sequence>> siblings;

  // To be fed. The last token of all never is: nothing comes after it.
  int pending() const { return (length < max_length ? length : max_length - 1) - computed; }
  // The token at `position` is given: not drawn, but told.
  bool is_given(int position) const { return position - prompt < int(opening.size()); }
  int generated() const { return int(tokens.size()) - prompt; }
  bool penalized() const {
    return sampling.presence_penalty != 0 || sampling.frequency_penalty != 0 ||
           sampling.repetition_penalty != 1;
  }

  // How a token is drawn depends on those before: such a sequence cannot be planned a step ahead.
  bool depends_on_tokens() const { return constraint != nullptr || penalized(); }

  // Appends a sampled token and says whether it was the last.
  Finish append(int token);
  // How the token at `position` is drawn. The views are into this sequence. Under a constraint the row is
  // `later`: what it allows takes a while to find out, so a device may begin without it.
  SampleRow sample_row(int position) const;
  void constrain(SampleRow& row) const;

 private:
  friend std::unique_ptr<Sequence> make_sequence(const Request&, uint64_t id, int choice,
                                                 uint64_t seed, int max_context);
  void count(int token, bool in_prompt);
  bool may_go_on(std::span<const uint32_t> allowed) const;
  std::vector<TokenCount> counts_;            // of tokens that penalties look at
  std::unordered_map<int, size_t> count_of_;  // token -> place in counts_
};

// One choice of a checked request. Choice 0 draws with the seed itself, the others with seeds derived
// from it, so that each can be had again.
std::unique_ptr<Sequence> make_sequence(const Request& request, uint64_t id, int choice,
                                        uint64_t seed, int max_context);

// What no request may ask for, in words for the client.
Status check_request(const Request& request, int max_context, int vocab);

}  // namespace rose
