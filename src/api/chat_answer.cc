#include "api/chat_answer.h"

#include "api/answer_json.h"
#include "api/chunk_stream.h"
#include "api/intake.h"
#include "api/json_text.h"
#include "base/check.h"

namespace rose {

namespace {

using EventKind = ChatEvent::Kind;

// Both names that clients look for.
void append_reasoning(std::string& out, std::string_view text) {
  append_field(out, "reasoning", text);
  append_field(out, "reasoning_content", text);
}

// What every answer and every chunk begins with.
std::string chat_head(const ChatAnswerOptions& options, const char* object) {
  std::string head = "{\"id\":";
  append_json_string(head, options.id);
  head += strf(",\"object\":\"%s\",\"created\":%ld,\"model\":", object, long(options.created));
  append_json_string(head, options.model);
  head += ",\"system_fingerprint\":";
  append_json_string(head, options.fingerprint);
  return head;
}

void append_ids(std::string& out, const std::vector<int>& ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) out += (i ? "," : "") + std::to_string(ids[i]);
  out += ']';
}

// ---- one body

class ChatBody final : public Answer {
 public:
  ChatBody(Exchange exchange, const Tokenizer& tokenizer, ChatAnswerOptions options)
      : exchange_(std::move(exchange)),
        tokenizer_(tokenizer),
        options_(std::move(options)),
        choices_(size_t(options_.choices)) {}

  void accepted(Generation&) override {}
  void deltas(const Generation&, int choice, std::vector<Delta> deltas) override {
    Collected& into = choices_[size_t(choice)];
    for (Delta& delta : deltas) switch (delta.kind) {
        case EventKind::reasoning: into.reasoning += delta.text; break;
        case EventKind::content:
          into.content += delta.text;
          std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(into.tokens));
          break;
        case EventKind::tool_call: into.calls.push_back({delta.call_id, delta.text, {}}); break;
        case EventKind::tool_arguments:
          if (!into.calls.empty()) into.calls.back().arguments += delta.text;
      }
  }
  void tokens(const Generation&, int choice, std::span<const GeneratedToken> tokens) override {
    if (options_.token_ids)
      for (const GeneratedToken& token : tokens)
        choices_[size_t(choice)].token_ids.push_back(token.token);
  }
  void choice_ended(const Generation&, int) override {}

  void ended(const Generation& generation) override {
    std::string body = chat_head(options_, "chat.completion") + ",\"choices\":[";
    for (int i = 0; i < options_.choices; ++i) {
      if (i) body += ',';
      body += strf("{\"index\":%d,\"message\":", i);
      append_message(body, choices_[size_t(i)]);
      body += ",\"logprobs\":";
      if (options_.logprobs) {
        body += "{\"content\":[";
        append_logprobs(body, tokenizer_, choices_[size_t(i)].tokens);
        body += "],\"refusal\":null}";
      } else {
        body += "null";
      }
      if (options_.token_ids) {
        body += ",\"token_ids\":";
        append_ids(body, choices_[size_t(i)].token_ids);
      }
      body += ",\"finish_reason\":" + ending_json(generation.choice(i)) + '}';
    }
    body += "],\"usage\":" + usage_json(generation.usage());
    if (options_.token_ids) {
      body += ",\"prompt_token_ids\":";
      append_ids(body, options_.prompt_token_ids);
    }
    body += '}';
    exchange_.respond({.body = std::move(body), .headers = options_.headers});
  }
  void failed(const ApiError& error) override { exchange_.respond(error_response(error)); }

 private:
  struct Collected {
    std::string reasoning, content;
    std::vector<ToolCall> calls;
    std::vector<GeneratedToken> tokens;  // of the content
    std::vector<int> token_ids;          // of everything, if they are wanted
  };

  static void append_message(std::string& body, const Collected& choice) {
    body += "{\"role\":\"assistant\",\"content\":";
    if (choice.content.empty())
      body += "null";
    else
      append_json_string(body, choice.content);
    body += ",\"refusal\":null";
    if (!choice.reasoning.empty()) append_reasoning(body, choice.reasoning);
    if (!choice.calls.empty()) {
      body += ",\"tool_calls\":[";
      for (const ToolCall& call : choice.calls) {
        if (&call != &choice.calls.front()) body += ',';
        body += '{';
        append_field(body, "id", call.id);
        body += ",\"type\":\"function\",\"function\":{";
        append_field(body, "name", call.name);
        append_field(body, "arguments", call.arguments);
        body += "}}";
      }
      body += ']';
    }
    body += '}';
  }

  Exchange exchange_;
  const Tokenizer& tokenizer_;
  const ChatAnswerOptions options_;
  std::vector<Collected> choices_;
};

// ---- a stream

// The order for each choice: the role, then deltas as they come, then the finish reason; after the last
// choice the usage if it was asked for, then [DONE]. A chunk is a template around the escaped text.
class ChatStream final : public Answer {
 public:
  ChatStream(Exchange exchange, const Tokenizer& tokenizer, ChatAnswerOptions options)
      : stream_(std::move(exchange),
                {.head = chat_head(options, "chat.completion.chunk") + ",\"choices\":[",
                 .include_usage = options.include_usage,
                 .continuous_usage = options.continuous_usage,
                 .headers = options.headers}),
        tokenizer_(tokenizer),
        options_(std::move(options)),
        begun_(size_t(options_.choices)) {}

  void accepted(Generation&) override { stream_.begin(); }

  void tokens(const Generation& generation, int choice,
              std::span<const GeneratedToken> tokens) override {
    if (!options_.token_ids || tokens.empty()) return;
    begin_choice(generation, choice);
    std::vector<int> ids;
    for (const GeneratedToken& token : tokens) ids.push_back(token.token);
    open_chunk(choice);
    chunk_ += "},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":";
    append_ids(chunk_, ids);
    chunk_ += "}]";
    stream_.chunk(generation, chunk_);
  }

  void deltas(const Generation& generation, int choice, std::vector<Delta> deltas) override {
    begin_choice(generation, choice);
    for (const Delta& delta : deltas) {
      open_chunk(choice);
      append_delta(delta);
      chunk_ += "},\"logprobs\":";
      if (options_.logprobs && !delta.tokens.empty()) {
        chunk_ += "{\"content\":[";
        append_logprobs(chunk_, tokenizer_, delta.tokens);
        chunk_ += "],\"refusal\":null}";
      } else {
        chunk_ += "null";
      }
      chunk_ += ",\"finish_reason\":null}]";
      stream_.chunk(generation, chunk_);
    }
  }

  void choice_ended(const Generation& generation, int choice) override {
    begin_choice(generation, choice);
    open_chunk(choice);
    chunk_ +=
        "},\"logprobs\":null,\"finish_reason\":" + ending_json(generation.choice(choice)) + "}]";
    stream_.chunk(generation, chunk_);
  }

  void ended(const Generation& generation) override { stream_.end(generation); }
  void failed(const ApiError& error) override { stream_.fail(error); }

 private:
  void append_delta(const Delta& delta) {
    switch (delta.kind) {
      case EventKind::reasoning: append_reasoning(chunk_, delta.text); break;
      case EventKind::content: append_field(chunk_, "content", delta.text); break;
      case EventKind::tool_call:
        chunk_ += strf("\"tool_calls\":[{\"index\":%d", delta.tool_index);
        append_field(chunk_, "id", delta.call_id);
        chunk_ += ",\"type\":\"function\",\"function\":{";
        append_field(chunk_, "name", delta.text);
        chunk_ += ",\"arguments\":\"\"}}]";
        break;
      case EventKind::tool_arguments:
        chunk_ += strf("\"tool_calls\":[{\"index\":%d,\"function\":{", delta.tool_index);
        append_field(chunk_, "arguments", delta.text);
        chunk_ += "}}]";
        break;
    }
  }

  void begin_choice(const Generation& generation, int choice) {
    if (begun_[size_t(choice)]) return;
    begun_[size_t(choice)] = true;
    open_chunk(choice);
    chunk_ += "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]";
    if (options_.token_ids && !prompt_told_) {
      chunk_ += ",\"prompt_token_ids\":";
      append_ids(chunk_, options_.prompt_token_ids);
      prompt_told_ = true;
    }
    stream_.chunk(generation, chunk_);
  }

  void open_chunk(int choice) { chunk_ = strf("{\"index\":%d,\"delta\":{", choice); }

  ChunkStream stream_;
  const Tokenizer& tokenizer_;
  const ChatAnswerOptions options_;
  std::string chunk_;  // behind the head
  bool prompt_told_ = false;
  std::vector<bool> begun_;  // choices whose role is out
};

}  // namespace

std::unique_ptr<Answer> make_chat_body(Exchange exchange, const Tokenizer& tokenizer,
                                       ChatAnswerOptions options) {
  return std::make_unique<ChatBody>(std::move(exchange), tokenizer, std::move(options));
}

std::unique_ptr<Answer> make_chat_stream(Exchange exchange, const Tokenizer& tokenizer,
                                         ChatAnswerOptions options) {
  return std::make_unique<ChatStream>(std::move(exchange), tokenizer, std::move(options));
}

}  // namespace rose
