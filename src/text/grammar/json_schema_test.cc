#include "text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <functional>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_validator.h"

namespace rose::grammar {
namespace {

using testing::constrain_json;
using testing::demo_trie;
using testing::full_trie;
using testing::Validator;
using testing::Walk;

const char* const kSchemas[] = {
    R"(true)",
    R"({})",
    R"({"type":"object"})",
    R"({"type":"array"})",
    R"({"type":["string","number","null","boolean"]})",
    R"({"enum":["a","ab","abc",1,1.5,null,true,{"x":[1,2]},"\"quoted\" \\ \n"]})",
    R"({"type":"string","enum":["a",5,"b"]})",
    R"({"const":{"k":"v"}})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},
        "required":["a","b","c"],"additionalProperties":false})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},
        "required":["b"]})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}})",
    R"({"properties":{"a":{"type":"integer"},"ab":{"type":"null"},"\u00e9":{"type":"null"}},
        "additionalProperties":{"type":"boolean"}})",
    R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["z","a"],
        "additionalProperties":{"type":"string"}})",
    R"({"type":"object","additionalProperties":{"type":"array","items":{"type":"boolean"}}})",
    R"({"type":"array","items":{"type":"integer","minimum":-5,"maximum":1000},"minItems":2,"maxItems":4})",
    R"({"type":"array","items":false})",
    R"({"type":"array","items":{"type":"array","minItems":1,"maxItems":1},"maxItems":3})",
    R"({"type":"string","minLength":3,"maxLength":5})",
    R"({"type":"string","maxLength":0})",
    R"({"type":"string","pattern":"^(foo|ba[rz])-[0-9]{2,}$"})",
    R"({"type":"string","pattern":"x"})",
    R"({"type":"number","minimum":0.5,"exclusiveMaximum":2})",
    R"({"type":"number","exclusiveMinimum":-3.25,"maximum":-1e-2})",
    R"({"type":"number","minimum":1e10})",
    R"({"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":12})",
    R"({"type":"integer","minimum":0.5,"maximum":3.5})",
    R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"k":{"const":1}},"required":["k"]},
        {"type":"string","maxLength":2}]})",
    R"({"allOf":[{"$ref":"#/$defs/n"}],"description":"x","$defs":{"n":{"type":"null"}}})",
    R"({"type":"object","properties":{"value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
        "required":["value","next"],"additionalProperties":false})",
    R"({"oneOf":[{"type":"integer"},{"type":"string","maxLength":3},{"$ref":"#/$defs/o"},
        {"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}],
        "$defs":{"o":{"type":"object","properties":{"kind":{"enum":["a","c"]},"x":{"type":"null"}},"required":["kind","x"]}}})",
    R"({"oneOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false},
        {"type":"object","properties":{"b":{"type":"null"}},"required":["b"],"additionalProperties":false}]})",
    R"({"type":"object","properties":{"a":{"type":"number"}},"allOf":[{"$ref":"#/$defs/b"},
        {"properties":{"a":{"type":"integer","minimum":3}},"required":["a"]}],
        "$defs":{"b":{"properties":{"a":{"maximum":9,"type":["number","null"]},"b":{"enum":[1,2]}},"required":["b"],
        "additionalProperties":false}}})",
    R"({"allOf":[{"enum":[1,2,"x"]},{"enum":["x",2,3]},{"type":["integer","string"]}]})",
    R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":{"type":"integer"},"minItems":1,"maxItems":4})",
    R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":false})",
    R"({"type":"array","prefixItems":[{"const":1},{"const":2},{"const":3}],"minItems":2,"maxItems":2})",
    R"({"type":"integer","multipleOf":7})",
    R"({"type":"integer","multipleOf":100,"minimum":0})",
    R"({"type":"integer","multipleOf":6,"exclusiveMinimum":-20,"maximum":31})",
    R"({"type":"number","multipleOf":0.01})",
    R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"name":{"type":"string","maxLength":4},
        "children":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2}},"required":["name","children"]}}})",
};

void expect_only_valid(const Json& schema, const std::shared_ptr<const TokenTrie>& trie,
                       int walks) {
  const auto constraint = constrain_json(schema, trie);
  ASSERT_TRUE(constraint) << constraint.error().message;
  int ended = 0;
  for (int seed = 0; seed < walks; ++seed) {
    const Walk walk = testing::walk(Matcher(*constraint), uint64_t(seed));
    if (!walk.ended) continue;
    ++ended;
    const auto value = parse_json(walk.text);
    ASSERT_TRUE(value) << walk.text << ": " << value.error().message;
    EXPECT_TRUE(Validator(schema).valid(*value)) << walk.text;
  }
  EXPECT_GT(ended, 0) << "no walk came to an end";
}

TEST(JsonSchema, walks_write_valid_documents_only) {
  for (const char* schema : kSchemas) {
    SCOPED_TRACE(schema);
    expect_only_valid(*parse_json(schema), demo_trie(), 25);
  }
}

TEST(JsonSchema, formats_are_kept) {
  for (const char* format : {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6",
                             "time", "uri", "uuid"}) {
    SCOPED_TRACE(format);
    expect_only_valid({{"type", "string"}, {"format", format}}, demo_trie(), 25);
  }
}

TEST(JsonSchema, walks_over_the_whole_vocabulary) {
  for (const size_t i : {1, 5, 9, 11, 13, 17, 19, 28}) {
    SCOPED_TRACE(kSchemas[i]);
    expect_only_valid(*parse_json(kSchemas[i]), full_trie(), 3);
  }
}

// What a model would write is among what is allowed, in the spellings that models use.
TEST(JsonSchema, usual_documents_are_possible) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {kSchemas[8],
       {R"({"a":1,"b":"x","c":null})", R"({"a": 1, "b": "x", "c": null})",
        "{\n  \"a\": -12,\n  \"b\": \"caf\xC3\xA9 \\u00e9 \\\" \xF0\x9F\x98\x80\",\n  \"c\": "
        "null\n}"}},
      {kSchemas[9], {R"({"b":""})", R"({"a":5,"b":""})", R"({"b":"","c":null})"}},
      {kSchemas[10], {"{}", R"({"a":1})", R"({"b":"x"})", R"({"a":1,"b":"x"})"}},
      {kSchemas[11],
       {R"({"a":1,"abc":true})", R"({"b":false})", R"({"ab":null,"aa":true,"x":true})"}},
      {kSchemas[2], {R"({"a":[1,2.5,-3e7,{"b":[]}],"c":{}})"}},
      {kSchemas[28], {R"({"value":1,"next":{"value":2,"next":null}})"}},
  };
  for (const auto& [schema, documents] : cases) {
    Grammar grammar;
    const auto expr = json_schema(grammar, *parse_json(schema));
    ASSERT_TRUE(expr) << expr.error().message;
    testing::Language language(grammar, *expr);
    for (const char* document : documents) EXPECT_TRUE(language.has(document)) << document;
    EXPECT_FALSE(language.has(""));
    EXPECT_FALSE(language.has("nul"));
  }
}

// The quote of a listed name once ended an unlisted one too early.
TEST(JsonSchema, names_that_need_escapes_leave_other_names_well_formed) {
  const Json schema =
      *parse_json(R"({"type":"object","properties":{"\"q\"":{"type":"null"},"a\\b":{"type":"null"},
      "\n":{"type":"null"}},"additionalProperties":{"type":"boolean"}})");
  Grammar grammar;
  const auto expr = json_schema(grammar, schema);
  ASSERT_TRUE(expr) << expr.error().message;
  testing::Language language(grammar, *expr);
  EXPECT_TRUE(language.has(R"({"\"q\"":null,"a\\b":null,"q":true})"));
  EXPECT_TRUE(language.has(R"({"a":true})"));
  EXPECT_FALSE(language.has(R"({"":":true})"));
  EXPECT_FALSE(language.has(R"({"a\:true})"));
  EXPECT_FALSE(language.has("{\"\nx\":true}"));
  expect_only_valid(schema, demo_trie(), 25);
}

TEST(JsonSchema, unlisted_names_never_take_the_place_of_listed_ones) {
  Grammar grammar;
  const auto expr = json_schema(grammar, *parse_json(kSchemas[11]));
  testing::Language language(grammar, *expr);
  EXPECT_FALSE(language.has(R"({"a":true})"));
  EXPECT_FALSE(language.has(R"({"\u0061":true})"));
  EXPECT_FALSE(language.has(R"({"ab":true})"));
  EXPECT_FALSE(language.has("{\"\xC3\xA9\":true}"));
  EXPECT_TRUE(language.has("{\"e\":true}"));
}

TEST(JsonSchema, refuses_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
       "the schema: 'oneOf' is not supported where two may"},
      {R"({"oneOf":[{"type":"object","properties":{"a":{"const":1}}},
          {"type":"object","properties":{"a":{"const":2}},"required":["a"]}]})",
       "where two may hold, as 0 and 1"},
      {R"({"oneOf":[]})", "'oneOf' is an empty list"},
      {R"({"oneOf":[{"type":"null"}],"type":"null"})", "'type' beside 'oneOf'"},
      {R"({"properties":{"a":{"not":{}}}})", "/properties/a: 'not' is not supported"},
      {R"({"type":"object","patternProperties":{}})", "'patternProperties' is not supported"},
      {R"({"type":"array","uniqueItems":true})", "'uniqueItems' is not supported"},
      {R"({"type":"integer","multipleOf":0})", "'multipleOf' must be a number above 0"},
      {R"({"type":"integer","multipleOf":101})", "'multipleOf' 101 without minimum and maximum"},
      {R"({"type":"integer","multipleOf":7,"minimum":3})", "beside one bound"},
      {R"({"type":"number","multipleOf":0.25})", "'multipleOf' 0.25 is not supported"},
      {R"({"type":"integer","multipleOf":3,"minimum":0,"maximum":1000000})",
       "more than 10000 values"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "'pattern' twice, in 'allOf'"},
      {R"({"allOf":[{"type":"string"},{"type":"null"}]})", "no value is of both types"},
      {R"({"allOf":[{"$ref":"#"},{}]})", "goes too deep, or leads back to itself"},
      {R"({"allOf":[{"type":"object","properties":{"a":{}},"additionalProperties":false},{"required":["b"],
           "properties":{"b":{}}}]})",
       "excludes 'b', which is required"},
      {R"({"allOf":[{"not":{}},{}]})", "'not' is not supported"},
      {R"({"anyOf":[{}],"type":"object"})", "'type' beside 'anyOf' is not supported"},
      {R"({"$ref":"#","properties":{}})", "'properties' beside '$ref' is not supported"},
      {R"({"enum":[1],"minimum":2})", "'minimum' beside 'enum' is not supported"},
      {R"({"type":"strin"})", "type \"strin\" is not supported"},
      {R"({"type":[]})", "'type' is an empty list"},
      {R"({"type":"string","format":"iban"})", "format 'iban' is not supported; known are date"},
      {R"({"type":"string","pattern":"a","minLength":2})", "'pattern' beside 'minLength'"},
      {R"({"type":"string","pattern":"(?=x).*"})", "pattern: (? (a look-around"},
      {R"({"type":"string","minLength":-1})", "'minLength' must be a whole number"},
      {R"({"type":"string","minLength":3,"maxLength":2})", "'minLength' is more than 'maxLength'"},
      {R"({"minimum":true})", "'minimum' must be a number"},
      {R"({"type":"number","minimum":1,"exclusiveMinimum":1})", "beside 'minimum'"},
      {R"({"required":["x"],"properties":{},"additionalProperties":false})",
       "names 'x', which is no"},
      {R"({"required":["\n"],"properties":{},"additionalProperties":false})",
       "names ' ', which is no"},
      {R"({"required":[1]})", "'required' must be a list of names"},
      {R"({"$ref":"http://x"})", "leads out of the schema"},
      {R"({"$ref":"#/$defs/none"})", "leads to nothing"},
      {R"([])", "must be an object or a boolean"},
      {R"({"anyOf":[]})", "'anyOf' is an empty list"},
      // Understood, but nothing satisfies them.
      {R"(false)", "nothing that could be written"},
      {R"({"$ref":"#"})", "nothing that could be written"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
       "nothing that could"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "nothing that could"},
      {R"({"type":"array","items":false,"minItems":1})", "nothing that could"},
      {R"({"type":"number","minimum":1e20})", "nothing that could"},
  };
  for (const auto& [schema, message] : cases) {
    const auto constraint = constrain_json(*parse_json(schema), demo_trie());
    ASSERT_FALSE(constraint) << schema;
    EXPECT_NE(constraint.error().message.find(message), std::string::npos)
        << schema << ": " << constraint.error().message;
    EXPECT_EQ(constraint.error().message.find('\n'), std::string::npos);
  }
}

TEST(JsonSchema, large_ones_are_possible_or_refused) {
  Json wide = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 2000; ++i)
    wide["properties"]["property_" + std::to_string(i)] = {{"type", "string"}};
  EXPECT_TRUE(constrain_json(wide, demo_trie()));
  Json chain = {{"$ref", "#/$defs/0"}, {"$defs", Json::object()}};
  for (int i = 0; i < 5000; ++i)
    chain["$defs"][std::to_string(i)] = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
  chain["$defs"]["5000"] = {{"type", "null"}};
  EXPECT_TRUE(constrain_json(chain, demo_trie()));
  Json values = {{"enum", Json::array()}};
  for (int i = 0; i < 60'000; ++i)
    values["enum"].push_back("a long enough value " + std::to_string(i * 7919));
  const auto too_large = constrain_json(values, demo_trie());
  ASSERT_FALSE(too_large);
  EXPECT_NE(too_large.error().message.find("too large"), std::string::npos);
}

// A place in a schema, drawn at random.
Json& somewhere(Json& schema, const std::function<size_t(size_t)>& draw) {
  Json* at = &schema;
  while (at->is_structured() && !at->empty() && draw(4) > 0) {
    const size_t index = draw(at->size());
    at = at->is_array() ? &at->at(index) : &std::next(at->begin(), int(index)).value();
  }
  return *at;
}

// Schemas that were changed at random are accepted or refused, and those accepted still write what
// is valid.
TEST(JsonSchema, changed_at_random) {
  const Json pieces = *parse_json(R"([
      {"type":"object"}, {"type":"string","minLength":2}, {"$ref":"#"}, {"$ref":"#/properties/a"}, [], {},
      "object", "string", "integer", "array", 5, -1, 2.5, 1e300, null, true, false, "", "(a|b)*", "\u0000",
      {"anyOf":[{"type":"null"},{"type":"integer"}]}, ["a","b"], {"pattern":"(a|b)*c"}, "date"])");
  const char* keywords[] = {
      "type",     "minLength", "maxLength",   "items",     "minItems",
      "maxItems", "required",  "minimum",     "maximum",   "additionalProperties",
      "pattern",  "enum",      "format",      "anyOf",     "properties",
      "oneOf",    "allOf",     "prefixItems", "multipleOf"};
  int accepted = 0, ended = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    uint64_t drawn = 0;
    const auto draw = [&](size_t below) { return size_t(random_bits(seed, drawn++) % below); };
    Json schema = *parse_json(kSchemas[draw(std::size(kSchemas))]);
    for (size_t change = 0; change < 1 + seed % 3; ++change) {
      Json& place = somewhere(schema, draw);
      const Json& piece = pieces[draw(pieces.size())];
      if (place.is_object())
        place[keywords[draw(std::size(keywords))]] = piece;
      else
        place = piece;
    }
    const auto constraint = constrain_json(schema, demo_trie());
    if (!constraint) continue;
    ++accepted;
    const Walk walk = testing::walk(Matcher(*constraint), seed, 100);
    if (!walk.ended) continue;
    ++ended;
    const auto value = parse_json(walk.text);
    ASSERT_TRUE(value) << schema << "\n" << walk.text;
    EXPECT_TRUE(Validator(schema).valid(*value)) << schema << "\n" << walk.text;
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(ended, 100);
}

}  // namespace
}  // namespace rose::grammar
