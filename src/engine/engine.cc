#include "engine/engine.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "device/arena.h"
#include "engine/engine_loop.h"
#include "engine/memory.h"

namespace rose {

namespace {

Status check_options(const EngineOptions& options, const ModelConfig& config) {
  struct AtLeast {
    const char* name;
    int64_t value, least;
  };
  const AtLeast rules[] = {
      {"max_context", options.max_context, 0},
      {"max_seqs", options.max_seqs, 1},
      {"max_tokens_per_step", options.max_tokens_per_step, 1},
      {"max_waiting", options.max_waiting, 1},
      {"max_waiting_tokens", options.max_waiting_tokens, 0},
      {"kv_bytes", options.kv_bytes, 0},
      {"vocab", options.vocab, 0},
  };
  for (const AtLeast& rule : rules)
    if (rule.value < rule.least)
      return fail(ErrorKind::invalid,
                  strf("%s is %lld, must be %lld or more", rule.name,
                       static_cast<long long>(rule.value), static_cast<long long>(rule.least)));
  if (options.max_context > config.max_context)
    return fail(ErrorKind::invalid, strf("max_context is %d, the model can do %d",
                                         options.max_context, config.max_context));
  if (options.max_context == 1)
    return fail(ErrorKind::invalid, "max_context is 1: no room for a prompt and an answer");
  if (options.vocab > config.vocab)
    return fail(ErrorKind::invalid, strf("the tokenizer has %d tokens, the model %d rows",
                                         options.vocab, config.vocab));
  return Done{};
}

// On a device with recorded steps: the largest step there may be, so that its scratch memory is there, and
// all decoding steps recorded, so that no request waits for it.
void warm_up(Launcher& launcher, const EngineOptions& options, const KvMemory& memory,
             const std::function<void(const LoadProgress&)>& progress) {
  if (!launcher.records()) return;
  // Many beginnings of sequences, all in one page: it is nobody's yet, and its numbers do not matter.
  HostBatch step = {.first = {0}, .width = 1};
  for (int token = 0; token < options.max_tokens_per_step; ++token) {
    const int seq = token / kPageSize;
    step.token_ids.push_back(0);
    step.positions.push_back(token % kPageSize);
    step.sequence.push_back(seq);
    if (token % kPageSize == 0)
      for (auto& table : step.pages) table.push_back(0);
    if (token % kPageSize == kPageSize - 1 || token + 1 == options.max_tokens_per_step)
      step.first.push_back(token + 1);
  }
  const int samples = std::min(options.max_seqs, options.max_tokens_per_step);
  step.sampled.resize(size_t(samples));
  std::iota(step.sampled.begin(), step.sampled.end(), 0);
  step.rows.assign(size_t(samples), {.temperature = 0});
  launcher.land(launcher.launch(std::move(step)));

  const Time start = Clock::now();
  const auto tell = [&](int done, int of) {
    if (progress)
      progress({.phase = "steps",
                .bytes = done,
                .total = of,
                .seconds = seconds_since(start),
                .pieces = true});
  };
  if (!options.enforce_eager)
    launcher.graphs().record_ahead(options.max_seqs,
                                   (memory.max_context + kPageSize - 1) / kPageSize, tell);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::start(
    LoadedModel& model, Stream& stream, const EngineOptions& options,
    const std::function<void(const LoadProgress&)>& progress) {
  ROSE_CHECK(stream.scratch && stream.device, "engine: the stream has no device or scratch memory");
  const ModelConfig& config = model.model->config();
  TRY(check_options(options, config));
  const KvSpec spec = model.model->kv_spec(model.recipe->kv);
  KvMemory memory = TRY(plan_kv(spec, options, config.max_context, stream.device->free_bytes()));
  EngineOptions chosen = options;
  if (chosen.vocab == 0) chosen.vocab = config.vocab;
  Runner runner = TRY(Runner::make(model, stream, memory.pages,
                                   {.vocab = chosen.vocab,
                                    .most_samples = chosen.max_seqs,
                                    .enforce_eager = chosen.enforce_eager,
                                    .trace = chosen.trace}));
  warm_up(runner.launcher(), chosen, memory, progress);
  memory.scratch_bytes = stream.scratch->bytes() + runner.launcher().graphs().scratch_bytes();
  return std::make_unique<EngineLoop>(chosen, memory, std::max(spec.window, 1), std::move(runner));
}

}  // namespace rose
