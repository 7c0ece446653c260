// What must hold for every sequence of tokens, on many random ones.
#include <gtest/gtest.h>

#include <random>

#include "text/harmony_json.h"
#include "text/harmony_testing.h"
#include "text/utf8.h"

namespace rose::harmony::testing {
namespace {

constexpr const char* kMarkers[] = {"<|start|>",     "<|end|>",       "<|message|>",
                                    "<|channel|>",   "<|constrain|>", "<|call|>",
                                    "<|endoftext|>", "<|return|>",    "<|reserved_200500|>"};
constexpr const char* kHeaderText[] = {"assistant",
                                       "user",
                                       "analysis",
                                       "commentary",
                                       "final",
                                       " json",
                                       " to=functions.f",
                                       " to=bare",
                                       " ",
                                       "functions.g to=",
                                       "assistantuser",
                                       "––",
                                       "code",

                                       "to=to=",
                                       "\u202f",
                                       "finalx",
                                       "{",
                                       "."};

template <class List>
const char* any_of(std::mt19937& random, const List& list) {
  return list[random() % std::size(list)];
}

void append(std::vector<int>& tokens, const std::vector<int>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

// Random markers, words of headers, and words that occur once, each of which knows whether it stands
// in the body of a message.
struct Script {
  struct Word {
    std::string text;
    bool body;
  };
  std::vector<int> tokens;
  std::vector<Word> words;
};

Script random_script(uint32_t seed) {
  std::mt19937 random(seed);
  Script script;
  bool body = false, waiting = false, done = false;
  for (int i = 0; i < 40; ++i) {
    const uint32_t kind = random() % 8;
    if (kind < 3) {
      // Ends of a turn are rarer, or little would come after them.
      const char* likely[] = {"<|start|>", "<|message|>", "<|channel|>", "<|end|>"};
      const std::string marker = random() % 3 ? any_of(random, likely) : any_of(random, kMarkers);
      script.tokens.push_back(*tokenizer().special(marker));
      // A turn that said something may have ended; whether it did is not this script's to know.
      done |= i > 0 && (marker == "<|return|>" || marker == "<|endoftext|>");
      waiting |= i > 0 && marker == "<|call|>";
      waiting &= marker != "<|start|>";
      if (marker == "<|message|>")
        body = true;
      else if (marker != "<|constrain|>" && marker != "<|reserved_200500|>")
        body = false;
    } else if (kind < 5) {
      append(script.tokens, tokenizer().encode(any_of(random, kHeaderText)));
    } else {
      const std::string text = " q" + std::to_string(i) + "q";
      append(script.tokens, tokenizer().encode(text));
      script.words.push_back({text.substr(1), body && !done && !waiting});
    }
  }
  return script;
}

int occurrences(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) ++count;
  return count;
}

std::string all_text(const Turn& turn) {
  std::string out = turn.reasoning + "|" + turn.content;
  for (const std::string& call : turn.calls) out += "|" + call;
  return out;
}

TEST(HarmonyProperty, every_word_of_a_body_lands_in_one_place_and_no_marker_does) {
  int bodies = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    const Script script = random_script(seed);
    const std::string text = all_text(join(events_of(script.tokens, tools({"bare"}))));
    for (const auto& [word, body] : script.words) {
      const int count = occurrences(text, word);
      if (body)
        EXPECT_EQ(count, 1) << word << " in " << text;
      else
        EXPECT_LE(count, 1) << word << " in " << text;
      bodies += body;
    }
    for (const char* marker : kMarkers) EXPECT_EQ(occurrences(text, marker), 0) << marker << text;
    if (HasFailure()) break;
  }
  EXPECT_GT(bodies, 4000);
}

// Text before any marker, and between a stop and the next marker, was meant for someone too.
TEST(HarmonyProperty, words_outside_of_messages_are_kept_where_nothing_makes_them_a_header) {
  for (const char* before : {"", "<|channel|>final", "<|channel|>analysis ", "<|start|>assistant "})
    for (const char* after : {"", "<|end|>", "<|return|>", "<|call|>", "<|start|>assistant",
                              "<|channel|>final<|message|>x"}) {
      const std::string text = std::string(before) + " Some words, final json code to=5.";
      EXPECT_EQ(
          occurrences(all_text(testing::read(text + after)), "Some words, final json code to=5."),
          1)
          << text << after;
    }
}

TEST(HarmonyProperty, chunks_of_any_size_join_to_the_same_fields) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<int> tokens = random_script(seed).tokens;
    const Turn whole = join(events_of(tokens));
    std::mt19937 random(seed);
    const auto parser = format().parser({});
    std::vector<ChatEvent> all;
    for (size_t at = 0; at < tokens.size();) {
      std::vector<ChatEvent> delta;  // as a server would send it
      for (size_t size = 1 + random() % 7; size > 0 && at < tokens.size(); --size)
        parser->push(tokens[at++], delta);
      all.insert(all.end(), delta.begin(), delta.end());
    }
    parser->finish(all);
    EXPECT_EQ(join(all), whole);
    for (const ChatEvent& event : all) EXPECT_FALSE(event.text.empty());
  }
}

TEST(HarmonyProperty, any_ids_at_all_give_valid_text_and_no_error) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int> tokens;
    for (int i = 0; i < 60; ++i) {
      const uint32_t kind = random() % 4;
      if (kind == 0)
        tokens.push_back(*tokenizer().special(any_of(random, kMarkers)));
      else if (kind == 1)
        tokens.push_back(int(random() % 256));  // single bytes
      else if (kind == 2)
        tokens.push_back(int(random() % 202000));
      else
        tokens.push_back(int(random()));
    }
    int text = 0;
    for (const ChatEvent& event : events_of(tokens)) {
      EXPECT_EQ(valid_utf8_prefix(event.text), event.text.size());
      text += int(event.text.size());
    }
    Json line = {{"tokens", Json::array()}, {"role", "assistant"}};
    for (const int token : tokens) line["tokens"].push_back(uint32_t(token));
    EXPECT_EQ(parse_json_line(tokenizer(), line, true)["error"], Json());
    for (const bool strict : {true, false}) {  // an error or not, but an answer
      line["strict"] = strict;
      EXPECT_TRUE(parse_json_line(tokenizer(), line, false)["messages"].is_array());
    }
  }
}

// Each would take hours if a token cost as much as what came before it.
TEST(HarmonyProperty, long_streams_cost_as_much_as_they_are_long) {
  for (const char* unit :
       {"<|channel|>", "<|channel|>analysis", "<|start|>", "<|start|>assistant", " word",
        "to=", "xto=", "assistant", "assistantxto=", "<|constrain|>", "\u202f", "<|c"})
    for (const char* opening : {"", "<|channel|>final<|message|>", "<|channel|>final"}) {
      SCOPED_TRACE(std::string(opening) + unit);
      std::vector<int> tokens = ids(opening);
      const std::vector<int> repeated = ids(unit);
      while (tokens.size() < 100'000) append(tokens, repeated);
      events_of(tokens);
    }
}

TEST(HarmonyProperty, streams_side_by_side_do_not_mix) {
  constexpr int kStreams = 32;
  const auto script = [](int i) {
    const std::string own = std::to_string(i);
    return "<|channel|>analysis<|message|>think" + own +
           "<|end|><|start|>assistant<|channel|>final" + "<|message|>say" + own + "<|return|>";
  };
  std::vector<std::unique_ptr<StreamParser>> parsers;
  std::vector<std::vector<ChatEvent>> events(kStreams);
  std::vector<std::vector<int>> tokens;
  for (int i = 0; i < kStreams; ++i) {
    parsers.push_back(format().parser({}));
    tokens.push_back(ids(script(i)));
  }
  for (size_t at = 0; at < 40; ++at)
    for (size_t i = 0; i < kStreams; ++i)
      if (at < tokens[i].size()) parsers[i]->push(tokens[i][at], events[i]);
  for (size_t i = 0; i < kStreams; ++i)
    EXPECT_EQ(join(events[i]), (Turn{"think" + std::to_string(i), "say" + std::to_string(i), {}}));
}

// --- when things come out ---

TEST(HarmonyStream, text_comes_out_as_soon_as_it_is_certain) {
  const auto parser = format().parser({});
  std::vector<ChatEvent> events;
  const auto push = [&](std::string_view text) {
    events.clear();
    for (const int token : ids(text)) parser->push(token, events);
    return join(events);
  };
  EXPECT_EQ(push("<|channel|>analysis<|message|>so 4."), (Turn{"so 4.", "", {}}));
  EXPECT_EQ(push("<|end|><|start|>assistant<|channel|>final<|message|>It is"),
            (Turn{"", "It is", {}}));
  EXPECT_EQ(
      push(" 4.<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>"),
      (Turn{"", " 4.", {"f()"}}));
  ASSERT_EQ(events.back().kind, ChatEvent::Kind::tool_call);
  events.clear();
  for (const int token : ids("{}")) parser->push(token, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, ChatEvent::Kind::tool_arguments);
  EXPECT_EQ(events[0].text, "{}");
}

TEST(HarmonyStream, undecided_text_and_what_follows_it_wait_for_content) {
  const auto parser = format().parser({});
  std::vector<ChatEvent> events;
  for (const int token : ids("Hm.<|end|><|start|>assistant<|channel|>analysis<|message|>a<|end|>"))
    parser->push(token, events);
  EXPECT_TRUE(events.empty());
  for (const int token : ids("<|start|>assistant<|channel|>final<|message|>b"))
    parser->push(token, events);
  EXPECT_EQ(join(events), (Turn{"Hm.\n\na", "b", {}}));
}

TEST(HarmonyStream, reasoning_tokens_are_those_of_analysis_with_their_headers) {
  const std::string analysis = "<|channel|>analysis<|message|>one two three<|end|>";
  const std::string final = "<|start|>assistant<|channel|>final<|message|>four five<|return|>";
  const std::string preamble = "<|start|>assistant<|channel|>commentary<|message|>six<|end|>";
  const auto count = [](const std::string& text) {
    const auto parser = format().parser({});
    std::vector<ChatEvent> events;
    for (const int token : ids(text)) parser->push(token, events);
    parser->finish(events);
    return parser->reasoning_tokens();
  };
  const int wanted = int(ids(analysis).size());
  EXPECT_EQ(count(analysis + final), wanted);
  EXPECT_EQ(count(analysis + preamble + final), wanted);
  EXPECT_EQ(count(final), 0);
  // The <|start|> that ends an unended message belongs to the next one.
  EXPECT_EQ(count("<|channel|>analysis<|message|>one two" + final), 5);
  EXPECT_EQ(count("<|channel|>analysis<|message|>one two"), 5);
  EXPECT_EQ(count("<|channel|>analysis"), 0);  // a header that introduced nothing
}

}  // namespace
}  // namespace rose::harmony::testing
