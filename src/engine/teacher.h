// A model fed a text that is known: the logits of its tokens, not only of those that are drawn. For
// comparing models, recipes and backends; requests go through the engine.
#pragma once
#include <span>

#include "cache/kv_cache.h"
#include "model/loader.h"

namespace rose {

// Rows of logits that one step gave, on the host until the next.
struct TaughtRows {
  int first = 0;  // the token of the first row
  int count = 0;
  const float* logits = nullptr;  // [count, vocab]
};

class Teacher {
 public:
  // Room for texts of up to `tokens`; steps of at most `step_tokens`. `model` and `stream` must outlive it.
  static Result<Teacher> make(const LoadedModel& model, Stream& stream, int tokens,
                              int step_tokens);

  // From now on this text, whose rows from `first` on are wanted: row i predicts token i + 1.
  void begin(std::span<const int> text, int first);
  // The next of the wanted rows, as many as a step gives; count 0: there are no more. Two teachers with
  // the same text and step size cut it alike.
  TaughtRows next();

 private:
  Teacher(const LoadedModel& model, Stream& stream, int step_tokens, KvCache kv)
      : model_(&model), stream_(&stream), step_tokens_(step_tokens), kv_(std::move(kv)) {}

  void step(int count, int rows);

  const LoadedModel* model_;
  Stream* stream_;
  int step_tokens_;
  KvCache kv_;
  std::vector<int> text_;
  int at_ = 0;     // tokens fed
  int first_ = 0;  // of the wanted rows
  std::vector<float> logits_;
};

}  // namespace rose
