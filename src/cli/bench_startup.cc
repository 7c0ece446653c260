#include "cli/bench_startup.h"

#include <cstdio>

#include "base/check.h"
#include "base/clock.h"
#include "cli/completions.h"
#include "cli/session.h"
#include "cli/table.h"

namespace rose {

namespace {

struct StartupOptions {
  ModelOptions model;
  int input_tokens = 128;
  std::string output = "table";

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--input-len", input_tokens, "tokens of the first prompt");
    visit("--output,-o", output, "table, md, csv or json");
  }
};

}  // namespace

Status bench_startup(Arguments arguments) {
  StartupOptions options;
  const CommandHelp help = {"bench startup", "From the command to the first token.",
                            "  rose bench startup openai/gpt-oss-20b\n"
                            "  rose bench startup config-of-120b/ --load-format dummy\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  Table table({"until", "seconds", "GB"});
  TRY(table.choose(options.output));

  const Time start = Clock::now();
  double loaded = 0;  // the last that is heard of the weights
  const std::unique_ptr<Session> session =
      TRY(open_session(options.model, [&](const LoadProgress& progress) {
        if (!progress.pieces) loaded = seconds_since(start);
      }));
  const double ready = seconds_since(start);

  Request request;
  const int vocab = session->runtime->config().vocab;
  for (int i = 0; i < options.input_tokens; ++i) request.prompt.push_back(i * 7919 % vocab);
  request.sampling.temperature = 0;
  request.max_tokens = 1;
  TRY(complete_all(*session->engine, {std::move(request)}, 1));

  const auto gigabytes = [](int64_t bytes) { return strf("%.2f", double(bytes) / 1e9); };
  const MemoryReport& memory = session->memory;
  table.row({"weights are in place", strf("%.2f", loaded), gigabytes(memory.weights)});
  table.row({"ready: cache, steps", strf("%.2f", ready), gigabytes(memory.kv + memory.scratch)});
  table.row({"first token", strf("%.2f", seconds_since(start)), ""});
  table.print({{"model", session->name},
               {"backend", session->runtime->loaded.ops->name},
               {"recipe", session->runtime->loaded.recipe->name},
               {"reckoned_gb", gigabytes(memory.reckoned())},
               {"taken_gb", gigabytes(memory.taken)}});
  // A report that is wrong would let a server start that then runs out of memory.
  const double off = memory.taken > 0 ? double(memory.taken) / double(memory.reckoned()) - 1 : 0;
  if (off > 0.03 || off < -0.03)
    return fail(ErrorKind::corrupt,
                strf("memory: %.2f GB were taken, %.2f GB reckoned: %.1f %% off, wanted 3 %%",
                     double(memory.taken) / 1e9, double(memory.reckoned()) / 1e9, off * 100));
  return Done{};
}

}  // namespace rose
