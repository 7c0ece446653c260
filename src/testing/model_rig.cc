#include "testing/model_rig.h"

#include <algorithm>

namespace rose::testing {

namespace {

const Recipe& recipe_named(const std::string& name) {
  const Result<const Recipe*> found = find_recipe(name);
  ROSE_CHECK(found.has_value(), "%s", found.error().message.c_str());
  return **found;
}

}  // namespace

ModelRig::ModelRig(const Ops& ops, const std::string& recipe, const std::string& folder)
    : ModelRig(ops, recipe_named(recipe), {.model = folder}) {}

ModelRig::ModelRig(const Ops& ops, const Recipe& recipe, const LoadOptions& options)
    : rig_(ops, 2), recipe_(recipe) {
  Result<LoadedModel> loaded = load_model(options, recipe_, rig_.stream(), ops);
  ROSE_CHECK(loaded.has_value(), "loading %s: %s", options.model.c_str(),
             loaded.error().message.c_str());
  loaded_ = std::move(*loaded);
}

void ModelRig::replace(const ModelConfig& config) {
  std::unique_ptr<Model> from = std::move(loaded_.model);
  loaded_.model = std::move(*make_model(config));
  const std::vector<WeightRow> old = from->weights(), now = loaded_.model->weights();
  ROSE_CHECK(old.size() == now.size(), "replace: %zu weights, had %zu", now.size(), old.size());
  for (size_t i = 0; i < now.size(); ++i) {
    if (const auto* plain = std::get_if<PlainWeight>(&now[i].into))
      *plain->into = *std::get<PlainWeight>(old[i].into).into;
    else
      *std::get<PackedWeight>(now[i].into).into = *std::get<PackedWeight>(old[i].into).into;
  }
  const Status prepared = loaded_.model->prepare(rig_.stream());
  ROSE_CHECK(prepared.has_value(), "replace: %s", prepared.error().message.c_str());
  if (!first_) first_ = std::move(from);
}

Outcome ModelRig::run(const std::vector<Prompt>& prompts, const std::vector<Step>& steps) {
  size_t longest = 0;
  Outcome result;
  std::vector<int> fed(prompts.size());
  for (const Prompt& prompt : prompts) {
    longest = std::max(longest, prompt.size());
    result.logits.push_back({{int64_t(prompt.size()), config().vocab}, {}});
  }
  const Paging paging(int(prompts.size()), int(longest), config().window, 17);
  const Result<KvCache> cache = KvCache::allocate(*rig_.ops().device, model().kv_spec(recipe_.kv),
                                                  {paging.pages(), paging.pages()});
  ROSE_CHECK(cache.has_value(), "%s", cache.error().message.c_str());

  for (const Step& step : steps) {
    rig_.stream().scratch->reset();
    const Batch batch = paging.step(rig_, step, prompts);
    result.watched.clear();
    rose::Pass pass = {.ops = rig_.ops(),
                       .stream = rig_.stream(),
                       .kv = *cache,
                       .batch = batch,
                       .activations = recipe_.activations};
    if (watches) pass.watch = [&](const Tensor& x) { result.watched.push_back(rig_.read(x)); };
    const Values logits = rig_.read(model().forward(pass));
    auto at = logits.at.begin();
    for (const Slice& slice : step) {
      ROSE_CHECK(slice.first == fed[size_t(slice.seq)], "run: prompt %d from %d on, %d were fed",
                 slice.seq, slice.first, fed[size_t(slice.seq)]);
      fed[size_t(slice.seq)] += slice.count;
      std::vector<float>& to = result.logits[size_t(slice.seq)].at;
      to.insert(to.end(), at, at + int64_t(slice.count) * config().vocab);
      at += int64_t(slice.count) * config().vocab;
    }
  }
  for (size_t i = 0; i < prompts.size(); ++i)
    ROSE_CHECK(fed[i] == int(prompts[i].size()), "run: %d of %zu tokens of prompt %zu were fed",
               fed[i], prompts[i].size(), i);
  return result;
}

std::vector<Step> chunked(int tokens, int chunk) {
  std::vector<Step> steps;
  for (int first = 0; first < tokens; first += chunk)
    steps.push_back({{0, first, std::min(chunk, tokens - first)}});
  return steps;
}

int largest(const float* values, int count) {
  return int(std::max_element(values, values + count) - values);
}

}  // namespace rose::testing
