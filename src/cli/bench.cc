// rose bench: how fast this computer runs a model. `latency` times steps of the model alone, from
// feeding the tokens to the sampled ids; `throughput` times whole requests through the engine.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/check.h"
#include "base/json.h"
#include "base/rng.h"
#include "cli/bench_kernels.h"
#include "cli/bench_serve.h"
#include "cli/bench_startup.h"
#include "cli/command.h"
#include "cli/completions.h"
#include "cli/draw_options.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/step_times.h"
#include "cli/table.h"

namespace rose {

namespace {

struct LatencyOptions {
  ModelOptions model;
  std::vector<int> prefill = {512};
  std::vector<int> batch = {1, 8};
  std::vector<int> context = {1024};
  int repeats = 5;
  int warmup = 1;
  std::string output = "table";

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--prefill,--input-len", prefill, "lengths of one prompt to time, with commas between");
    visit("--batch,--batch-size", batch, "sequences that decode together");
    visit("--context", context, "tokens in the cache of each decoding sequence");
    visit("--repeats,--num-iters", repeats, "timed runs of each point; the median is shown");
    visit("--warmup,--num-iters-warmup", warmup, "runs before them");
    visit("--output,-o", output, "table, md, csv or json");
  }
};

struct ThroughputOptions {
  ModelOptions model;
  std::vector<int> concurrency = {1, 8, 64};
  int prompts = 0;
  int input_tokens = 128;
  int output_tokens = 128;
  DrawOptions draw;
  std::string output = "table";

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--concurrency,--max-concurrency", concurrency, "requests that run together");
    visit("--num-prompts", prompts, "requests of each point; 0: twice the concurrency");
    visit("--input-len,--random-input-len", input_tokens, "tokens of each prompt, at random");
    visit("--output-len,--random-output-len", output_tokens, "tokens of each answer");
    draw.each(visit);
    visit("--output,-o", output, "table, md, csv or json");
  }
};

Status check_positive(const std::vector<int>& values, const char* name) {
  for (const int value : values)
    if (value < 1) return fail(ErrorKind::usage, strf("%s: %d, wanted 1 or more", name, value));
  return Done{};
}

Status bench_latency(Arguments arguments) {
  LatencyOptions options;
  const CommandHelp help = {"bench latency", "The time of single steps: prompts and decoding.",
                            "  rose bench latency\n"
                            "  rose bench latency config-of-20b/ --load-format dummy --prefill 512 "
                            "--batch 1,8\n"
                            "  rose bench latency --output json > latency.json\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  TRY(check_positive(options.prefill, "--prefill"));
  TRY(check_positive(options.batch, "--batch"));
  TRY(check_positive(options.context, "--context"));
  TRY(check_positive({options.repeats}, "--repeats"));
  Table table(
      {"test", "tokens", "ms", "device ms", "spread", "tokens/s", "GB/s", "of read", "GFLOP/s"});
  TRY(table.choose(options.output));

  // Before the model is in memory, so that both fit where it alone does.
  double read = measure_read_bandwidth(options.model.threads);
  const std::unique_ptr<Runtime> runtime = TRY(open_runtime(options.model));
  const Device& device = *runtime->stream.device;
  if (device.measure_read) read = device.measure_read(runtime->stream);

  const auto add = [&](const std::string& name, int tokens, const StepTimes& times) {
    const double median = times.median_s();
    const double bytes_per_s = double(times.cost.bytes) / median;
    table.row({name, std::to_string(tokens), strf("%.3f", median * 1e3),
               times.median_device_s() > 0 ? strf("%.3f", times.median_device_s() * 1e3) : "-",
               strf("%.1f %%", times.spread() * 100), strf("%.1f", tokens / median),
               strf("%.2f", bytes_per_s / 1e9), strf("%.0f %%", bytes_per_s / read * 100),
               strf("%.0f", double(times.cost.flops) / median / 1e9)});
  };
  for (const int tokens : options.prefill)
    add(strf("prefill %d", tokens), tokens,
        TRY(time_prefill(*runtime, tokens, step_tokens(options.model, *runtime->loaded.ops),
                         options.warmup, options.repeats)));
  for (const int context : options.context)
    for (const int batch : options.batch)
      add(strf("decode %d @ %d", batch, context), batch,
          TRY(time_decode(*runtime, batch, context, options.warmup, options.repeats)));
  table.print({{"model", runtime->loaded.folder},
               {"backend", runtime->loaded.ops->name},
               {"recipe", runtime->loaded.recipe->name},
               {"threads", std::to_string(runtime->threads->threads())},
               {"weights_gb", strf("%.2f", double(runtime->loaded.weight_bytes) / 1e9)},
               {"read_gb_per_s", strf("%.1f", read / 1e9)}});
  return Done{};
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[size_t(share * double(values.size() - 1) + 0.5)];
}

Status bench_throughput(Arguments arguments) {
  ThroughputOptions options;
  const CommandHelp help = {
      "bench throughput", "Whole requests through the engine: many at a time.",
      "  rose bench throughput --concurrency 1,64\n"
      "  rose bench throughput openai/gpt-oss-20b --input-len 512 --output-len 128 -o md\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  TRY(check_positive(options.concurrency, "--concurrency"));
  TRY(check_positive({options.input_tokens, options.output_tokens}, "--input-len, --output-len"));
  Table table({"concurrency", "requests", "seconds", "output tokens/s", "all tokens/s",
               "tokens/s each", "first token ms", "p99 ms"});
  TRY(table.choose(options.output));

  const std::unique_ptr<Session> session = TRY(open_session(options.model));
  const int vocab = session->runtime->config().vocab;
  const SampleRow row = options.draw.row();
  uint64_t drawn = 0;
  for (const int concurrency : options.concurrency) {
    const int count = options.prompts > 0 ? options.prompts : 2 * concurrency;
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) {
      Request request;
      for (int token = 0; token < options.input_tokens; ++token)
        request.prompt.push_back(int(random_bits(1, drawn++) % uint64_t(vocab)));
      request.sampling = {.temperature = row.temperature,
                          .top_k = row.top_k,
                          .top_p = row.top_p,
                          .min_p = row.min_p};
      request.max_tokens = options.output_tokens;  // and no stop tokens: all are as long
      requests.push_back(std::move(request));
    }
    CountLine line(strf("%d together", concurrency), count);
    const auto completions = TRY(complete_all(*session->engine, std::move(requests), concurrency,
                                              [&](int done) { line.show(done); }));
    line.finish();
    std::vector<double> first, each;
    int64_t output = 0;
    for (const auto& choices : completions)
      for (const Completion& completion : choices) {
        output += int64_t(completion.tokens.size());
        first.push_back(completion.first_token_seconds * 1e3);
        const double decoding = completion.seconds - completion.first_token_seconds;
        if (decoding > 0) each.push_back(double(completion.tokens.size() - 1) / decoding);
      }
    const double seconds = line.seconds();
    table.row({std::to_string(concurrency), std::to_string(count), strf("%.2f", seconds),
               strf("%.1f", double(output) / seconds),
               strf("%.1f", double(output + int64_t(count) * options.input_tokens) / seconds),
               strf("%.1f", percentile(each, .5)), strf("%.1f", percentile(first, .5)),
               strf("%.1f", percentile(first, .99))});
  }
  table.print({{"model", session->name},
               {"backend", session->runtime->loaded.ops->name},
               {"recipe", session->runtime->loaded.recipe->name},
               {"threads", std::to_string(session->runtime->threads->threads())}});
  return Done{};
}

constexpr Command kBenches[] = {
    {"latency", "the time of single steps: prompts and decoding", bench_latency},
    {"kernels", "the ops of a step, each by itself", bench_kernels},
    {"throughput", "whole requests through the engine, many at a time", bench_throughput},
    {"startup", "from the command to the first token, and the memory it takes", bench_startup},
    {"serve", "a running server: many streams over HTTP", bench_serve},
};

}  // namespace

Status bench_command(Arguments arguments) {
  for (const Command& bench : kBenches)
    if (!arguments.empty() && arguments[0] == bench.name) return bench.run(arguments.subspan(1));
  std::string usage = "usage: rose bench NAME [options]\n";
  for (const Command& bench : kBenches) usage += strf("\n  %-11s %s", bench.name, bench.about);
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::printf("%s\n", usage.c_str());
    return Done{};
  }
  return fail(ErrorKind::usage, arguments.empty()
                                    ? "no benchmark named\n" + usage
                                    : "no benchmark '" + arguments[0] + "'\n" + usage);
}

}  // namespace rose
