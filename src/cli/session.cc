#include "cli/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/check.h"
#include "cli/census.h"
#include "cli/progress.h"

namespace rose {

namespace {

namespace fs = std::filesystem;

// The demo model travels with the program: beside it in a bundle, one folder up in a checkout, under
// share/ when installed.
Result<std::string> demo_model() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"models/demo", "../models/demo", "../share/rose/models/demo"}) {
    const fs::path folder = program / place;
    if (fs::exists(folder / "config.json", error)) return fs::weakly_canonical(folder).string();
  }
  return fail(ErrorKind::not_found, "no model named, and no demo model beside " + program.string());
}

Result<std::string> model_folder(const std::string& model) {
  std::error_code error;
  if (fs::is_regular_file(model, error))  // a config.json, for generated weights
    return fs::absolute(model, error).parent_path().string();
  return model.empty() ? demo_model() : resolve_model(model);
}

// What the API calls a model: the name asked for, or its folder's.
std::string model_name(const std::string& model, const std::string& folder) {
  if (!model.empty() && !fs::exists(model)) return model.substr(0, model.find('@'));
  const fs::path path = fs::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

int64_t kv_bytes(const ModelOptions& options, const Ops& ops) {
  if (options.kv_cache_memory_bytes > 0) return options.kv_cache_memory_bytes;
  return std::min(ops.defaults.kv_bytes, ops.device->free_bytes() / 2);
}

}  // namespace

int step_tokens(const ModelOptions& options, const Ops& ops) {
  return options.max_num_batched_tokens > 0 ? options.max_num_batched_tokens
                                            : ops.defaults.step_tokens;
}

Result<std::unique_ptr<Runtime>> open_runtime(const ModelOptions& options, const LoadWatch& watch) {
  const Ops& ops = *TRY(find_ops(options.device));
  const Recipe& recipe =
      *TRY(find_recipe(options.recipe == "auto" ? ops.defaults.recipe : options.recipe));
  if (options.threads < 0)
    return fail(ErrorKind::usage, strf("--threads: %d, wanted 0 or more", options.threads));

  auto runtime = std::make_unique<Runtime>();
  if (!options.profile.empty()) runtime->trace = TRY(StepTrace::open(options.profile));
  runtime->threads = std::make_unique<ThreadPool>(options.threads);
  runtime->scratch = std::make_unique<Arena>(*ops.device);
  runtime->stream = {
      .device = ops.device, .threads = runtime->threads.get(), .scratch = runtime->scratch.get()};

  const std::string folder = TRY(model_folder(options.model));
  std::fprintf(stderr, "rose: %s on %s, recipe %s, %d threads\n", folder.c_str(), ops.name,
               recipe.name, runtime->threads->threads());
  ProgressLine line;
  runtime->loaded = TRY(
      load_model({.model = folder, .load_format = options.load_format, .layers = options.layers},
                 recipe, runtime->stream, ops, [&](const LoadProgress& progress) {
                   line.show(progress);
                   if (watch) watch(progress);
                 }));
  line.finish();
  print_census(runtime->loaded, options.census);
  return runtime;
}

namespace {

Result<std::unique_ptr<Runtime>> open_mock(const ModelOptions& options, const std::string& folder,
                                           const Tokenizer& tokenizer, const LoadWatch& watch) {
  auto runtime = std::make_unique<Runtime>();
  runtime->threads = std::make_unique<ThreadPool>(1);
  runtime->loaded = TRY(
      make_mock(folder, tokenizer.encode_special(mock_answer(options.mock)), options.mock, watch));
  const Device* device = runtime->loaded.ops->device;
  runtime->scratch = std::make_unique<Arena>(*device);
  runtime->stream = {
      .device = device, .threads = runtime->threads.get(), .scratch = runtime->scratch.get()};
  std::fprintf(stderr, "rose: no model: a script, with the tokenizer of %s\n", folder.c_str());
  return runtime;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& file,
                                                  const std::string& model) {
  const std::string path = file.empty() ? TRY(model_folder(model)) : file;
  return std::make_unique<Tokenizer>(
      TRY(within(Tokenizer::load(path), "loading the tokenizer of " + path)));
}

namespace {

// Of the device that will hold the model.
Result<int64_t> free_memory(const std::string& device) {
  if (device == "mock") return 0;
  return TRY(find_ops(device))->device->free_bytes();
}

// What the model and the engine take of a device's own memory, as reckoned and as found.
void report_memory(Session& session, int64_t free_before) {
  const LoadedModel& loaded = session.runtime->loaded;
  const Device& device = *loaded.ops->device;
  const KvMemory& kv = session.engine->memory();
  session.memory = {.weights = loaded.weight_bytes, .kv = kv.bytes, .scratch = kv.scratch_bytes};
  if (&device == &host_device()) return;  // its pages come when they are touched
  session.memory.taken = free_before - device.free_bytes();
  std::fprintf(
      stderr,
      "rose: memory of %s: weights %.2f GB, keys and values %.2f GB (%d pages of %d tokens), "
      "scratch %.2f GB; %.2f GB reckoned, %.2f GB taken\n",
      device.name, double(loaded.weight_bytes) / 1e9, double(kv.bytes) / 1e9,
      kv.pages[int(Pool::full)], kPageSize, double(kv.scratch_bytes) / 1e9,
      double(session.memory.reckoned()) / 1e9, double(session.memory.taken) / 1e9);
}

}  // namespace

// The tokenizer first: where it is missing, nobody waits for the weights to hear of it.
Result<std::unique_ptr<Session>> open_session(const ModelOptions& options, const LoadWatch& watch) {
  auto session = std::make_unique<Session>();
  const std::string folder = TRY(model_folder(options.model));
  session->tokenizer = TRY(open_tokenizer(options.tokenizer, folder));
  const int64_t free = TRY(free_memory(options.device));
  session->runtime = options.device == "mock"
                         ? TRY(open_mock(options, folder, *session->tokenizer, watch))
                         : TRY(open_runtime(options, watch));
  LoadedModel& loaded = session->runtime->loaded;
  session->name = model_name(options.model, loaded.folder);
  session->format = TRY(make_chat_format(options.chat_format, *session->tokenizer));

  session->stop_tokens = session->format->stop_tokens();
  for (const int token : loaded.model->config().eos_tokens)
    if (std::find(session->stop_tokens.begin(), session->stop_tokens.end(), token) ==
        session->stop_tokens.end())
      session->stop_tokens.push_back(token);

  ProgressLine line;
  session->engine = TRY(
      Engine::start(loaded, session->runtime->stream,
                    {.max_context = options.max_model_len,
                     .max_seqs = options.max_num_seqs,
                     .max_tokens_per_step = step_tokens(options, *loaded.ops),
                     .max_waiting = options.max_queued_requests,
                     .max_waiting_tokens = options.max_queued_tokens,
                     .kv_bytes = kv_bytes(options, *loaded.ops),
                     .prefix_cache = options.enable_prefix_caching,
                     .enforce_eager = options.enforce_eager,
                     .trace = session->runtime->trace.get(),
                     .vocab = std::min(session->tokenizer->vocab(), loaded.model->config().vocab)},
                    [&](const LoadProgress& progress) {
                      line.show(progress);
                      if (watch) watch(progress);
                    }));
  line.finish();
  report_memory(*session, free);
  return session;
}

}  // namespace rose
