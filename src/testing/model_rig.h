// A model set up for a test, and prompts run through it, cut into steps in any way.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/loader.h"
#include "testing/paging.h"
#include "testing/rig.h"

namespace rose::testing {

using Prompt = std::vector<int>;
using Step = std::vector<Slice>;

// What a pass over prompts gave.
struct Outcome {
  std::vector<Values> logits;   // of each prompt: [tokens, vocab]
  std::vector<Values> watched;  // of the last step, as rose::Pass::watch saw them: [tokens, hidden]
};

class ModelRig {
 public:
  // Stops the test program if the model does not load: `folder` is one of the repository's.
  ModelRig(const Ops& ops, const std::string& recipe, const std::string& folder);
  ModelRig(const Ops& ops, const Recipe& recipe, const LoadOptions& options);

  Model& model() { return *loaded_.model; }
  const ModelConfig& config() const { return loaded_.model->config(); }

  // The same weights under other sizes: what if a field were read wrongly?
  void replace(const ModelConfig& config);

  // Each step feeds its slices; together they must feed every token of every prompt, in order. Page
  // tables are scattered.
  Outcome run(const std::vector<Prompt>& prompts, const std::vector<Step>& steps);
  bool watches = true;  // else the backend may do several layers at once
  Outcome run(const Prompt& prompt) { return run({prompt}, {{{0, 0, int(prompt.size())}}}); }

 private:
  Rig rig_;
  const Recipe recipe_;
  LoadedModel loaded_;
  std::unique_ptr<Model> first_;  // what replace() replaced
};

// Prompt 0 of this length in chunks.
std::vector<Step> chunked(int tokens, int chunk);

int largest(const float* values, int count);  // index of the first largest

}  // namespace rose::testing
