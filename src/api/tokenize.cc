// POST /tokenize and /detokenize, in the shapes of vLLM ({"prompt"} or {"messages"}) and of llama.cpp
// ({"content"}).
#include "api/chat_request.h"
#include "api/intake.h"
#include "api/routes.h"
#include "api/turn.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

Json texts_of(const ApiContext& context, const std::vector<int>& tokens) {
  Json texts = Json::array();
  for (const int token : tokens) texts.push_back(std::string(context.tokenizer.bytes(token)));
  return texts;
}

// Special tokens apart from the text between them, which may look like one.
Json pieces_of(const Tokenizer& tokenizer, const std::vector<int>& tokens) {
  Json pieces = Json::array();
  std::string text;
  const auto flush = [&] {
    if (!text.empty()) pieces.push_back({{"text", std::exchange(text, "")}, {"special", false}});
  };
  for (const int token : tokens) {
    if (!tokenizer.is_special(token)) {
      text += tokenizer.bytes(token);
      continue;
    }
    flush();
    pieces.push_back({{"text", std::string(tokenizer.bytes(token))}, {"special", true}});
  }
  flush();
  return pieces;
}

Json tokenize(ApiContext& context, const Json& body, Problem& problem) {
  Fields fields(body, "", problem);
  std::string model, text;
  fields.read("model", model);
  check_model(context, model, problem);
  // Names of special tokens in the text become these, unless the client wants them as text.
  bool specials = true, with_texts = false;
  fields.read("parse_special", specials);
  fields.read("return_token_strs", with_texts);
  fields.read("with_pieces", with_texts);
  std::vector<int> tokens;
  if (fields.has("messages")) {
    ChatRequest chat = parse_chat_request(body, context.tokenizer.vocab(), problem);
    if (!problem) tokens = render_turn(context, chat.prompt, "messages", problem);
  } else {
    const char* name = fields.has("content") ? "content" : "prompt";
    if (!fields.has(name)) fields.wrong("prompt", "is missing; wanted prompt, messages or content");
    fields.read(name, text);
    tokens = specials ? context.tokenizer.encode_special(text) : context.tokenizer.encode(text);
  }
  if (fields.has("content") && with_texts) {
    Json pieces = Json::array();
    for (const int token : tokens)
      pieces.push_back({{"id", token}, {"piece", std::string(context.tokenizer.bytes(token))}});
    return {{"tokens", std::move(pieces)}};
  }
  return {{"count", tokens.size()},
          {"max_model_len", context.engine.max_context()},
          {"tokens", tokens},
          {"token_strs", with_texts ? texts_of(context, tokens) : Json()}};
}

Json detokenize(ApiContext& context, const Json& body, Problem& problem) {
  Fields fields(body, "", problem);
  std::string model;
  fields.read("model", model);
  check_model(context, model, problem);
  const Json* list = fields.array("tokens");
  if (!list) {
    fields.wrong("tokens", "is missing");
    return {};
  }
  std::vector<int> tokens;
  for (const Json& value : *list) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 ||
        value.get<int64_t>() >= context.tokenizer.vocab()) {
      fields.wrong("tokens", strf("has %s, wanted token ids in 0..%d", kind_of(value).c_str(),
                                  context.tokenizer.vocab() - 1));
      return {};
    }
    tokens.push_back(value.get<int>());
  }
  bool pieces = false;
  fields.read("return_pieces", pieces);
  const std::string text = context.tokenizer.decode(tokens);
  Json answer = {{"prompt", text}, {"content", text}};
  if (pieces) answer["pieces"] = pieces_of(context.tokenizer, tokens);
  return answer;
}

}  // namespace

void post_tokenize(ApiContext& context, Exchange exchange) {
  answer_by_json(context, std::move(exchange), tokenize);
}
void post_detokenize(ApiContext& context, Exchange exchange) {
  answer_by_json(context, std::move(exchange), detokenize);
}

// What evaluation programs ask before they trust /tokenize with their counting.
void get_tokenizer_info(ApiContext& context, Exchange exchange) {
  const std::vector<int> ends = context.format.stop_tokens();
  const Json end = ends.empty() ? Json() : Json(std::string(context.tokenizer.bytes(ends.front())));
  exchange.respond({.body = dump_json({{"tokenizer_class", "rose"},
                                       {"vocab_size", context.tokenizer.vocab()},
                                       {"model_max_length", context.engine.max_context()},
                                       {"bos_token", nullptr},
                                       {"eos_token", end},
                                       {"pad_token", nullptr},
                                       {"chat_template", nullptr}})});
}

}  // namespace rose
