#include "cli/eval_against.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"
#include "base/json.h"
#include "cli/agreement.h"
#include "cli/census.h"
#include "cli/progress.h"
#include "engine/teacher.h"

namespace rose {

namespace {

struct Text {
  std::vector<int> tokens;
  int first;  // of the rows compared
};

Result<std::vector<Text>> read_texts(const Tokenizer& tokenizer, std::span<const Item> items,
                                     bool prompts, int vocab, int most) {
  std::vector<Text> texts;
  for (const Item& item : items) {
    Text text = {.tokens = tokenizer.encode_special(item.prompt), .first = 0};
    if (text.tokens.empty())
      return fail(ErrorKind::invalid, strf("item %zu: its prompt is empty", texts.size() + 1));
    if (!prompts) text.first = int(text.tokens.size()) - 1;  // it predicts the answer's first token
    const std::vector<int> answer = tokenizer.encode_special(item.completion);
    text.tokens.insert(text.tokens.end(), answer.begin(), answer.end());
    if (int(text.tokens.size()) > most)
      return fail(ErrorKind::invalid, strf("item %zu: %zu tokens, wanted at most %d",
                                           texts.size() + 1, text.tokens.size(), most));
    for (const int token : text.tokens)
      if (token >= vocab)
        return fail(ErrorKind::invalid,
                    strf("item %zu: token %d, the model has %d", texts.size() + 1, token, vocab));
    texts.push_back(std::move(text));
  }
  return texts;
}

// Both teachers' rows of one text; `threads` compare them.
void compare_text(Teacher& model, Teacher& against, const Text& text, int vocab,
                  ThreadPool& threads, Agreement& agreement) {
  // The last row predicts what is not there.
  const std::span<const int> fed = std::span(text.tokens).first(text.tokens.size() - 1);
  model.begin(fed, text.first);
  against.begin(fed, text.first);
  for (;;) {
    const TaughtRows p = model.next(), q = against.next();
    if (p.count == 0) return;
    const size_t before = agreement.tokens.size(), width = size_t(vocab);
    agreement.tokens.resize(before + size_t(p.count));
    threads.parallel_for(p.count, 1, [&](int64_t begin, int64_t end) {
      for (size_t row = size_t(begin); row < size_t(end); ++row)
        agreement.tokens[before + row] =
            compare_rows({p.logits + row * width, width}, {q.logits + row * width, width},
                         text.tokens[size_t(p.first) + row + 1]);
    });
  }
}

std::string named(const LoadedModel& loaded) {
  return strf("%s on %s", loaded.recipe->name, loaded.ops->name);
}

void report(const EvalAgainst& options, const Runtime& model, const Runtime& against,
            const Agreement& found, size_t items, double seconds) {
  if (options.json) {
    const Json json = {{"model", model.loaded.folder},
                       {"recipe", model.loaded.recipe->name},
                       {"backend", model.loaded.ops->name},
                       {"census", census_json(model.loaded)},
                       {"against", against.loaded.recipe->name},
                       {"against_backend", against.loaded.ops->name},
                       {"items", items},
                       {"prompts", options.prompts},
                       {"tokens", found.tokens.size()},
                       {"same_top", found.same_top()},
                       {"kl", found.kl()},
                       {"kl_median", found.kl_at(0.5)},
                       {"kl_p99", found.kl_at(0.99)},
                       {"kl_most", found.kl_at(1)},
                       {"loss", found.loss()},
                       {"loss_against", found.loss_against()},
                       {"seconds", seconds}};
    std::printf("%s\n", dump_json(json).c_str());
    return;
  }
  std::printf("%s against %s\n", named(model.loaded).c_str(), named(against.loaded).c_str());
  std::printf("tokens     %zu, of %zu %s, in %.1f s\n", found.tokens.size(), items,
              options.prompts ? "texts" : "answers", seconds);
  std::printf("same top   %.4f\n", found.same_top());
  std::printf("KL         %.3g nats a token (median %.3g, p99 %.3g, most %.3g)\n", found.kl(),
              found.kl_at(0.5), found.kl_at(0.99), found.kl_at(1));
  std::printf("loss       %.5f nats a token, against %.5f\n", found.loss(), found.loss_against());
}

}  // namespace

Status eval_against(const EvalAgainst& options, std::span<const Item> items) {
  ModelOptions second = options.model;
  if (!options.against.empty()) second.recipe = options.against;
  if (!options.device.empty()) second.device = options.device;
  const std::unique_ptr<Runtime> model = TRY(open_runtime(options.model));
  const std::unique_ptr<Runtime> against = TRY(open_runtime(second));
  const auto tokenizer = TRY(open_tokenizer(options.model.tokenizer, model->loaded.folder));

  int most = model->config().max_context;
  if (options.model.max_model_len > 0) most = std::min(most, options.model.max_model_len);
  const std::vector<Text> texts =
      TRY(read_texts(*tokenizer, items, options.prompts, model->config().vocab, most));
  size_t longest = 0;
  for (const Text& text : texts) longest = std::max(longest, text.tokens.size());

  const int step = step_tokens(options.model, *model->loaded.ops);  // both cut alike
  Teacher teacher = TRY(Teacher::make(model->loaded, model->stream, int(longest), step));
  Teacher other = TRY(Teacher::make(against->loaded, against->stream, int(longest), step));
  Agreement agreement;
  CountLine line("answers", int(texts.size()));
  for (size_t i = 0; i < texts.size(); ++i) {
    compare_text(teacher, other, texts[i], model->config().vocab, *model->threads, agreement);
    line.show(int(i) + 1);
  }
  line.finish();
  if (agreement.tokens.empty()) return fail(ErrorKind::invalid, "the answers have no tokens");
  report(options, *model, *against, agreement, texts.size(), line.seconds());
  return Done{};
}

}  // namespace rose
