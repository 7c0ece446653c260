#include "api/known_fields.h"

#include <algorithm>

#include "base/json.h"

namespace rose {

namespace {

// clang-format off
constexpr KnownField kGenerate[] = {
    {"model", Use::works}, {"stream", Use::works}, {"temperature", Use::works}, {"top_p", Use::works}, {"seed", Use::works},
    {"presence_penalty", Use::works}, {"frequency_penalty", Use::works}, {"logit_bias", Use::works}, {"stop", Use::works},
    {"top_k", Use::works}, {"min_p", Use::works}, {"repetition_penalty", Use::works}, {"repeat_penalty", Use::works},
    {"stop_token_ids", Use::works}, {"include_stop_str_in_output", Use::works}, {"ignore_eos", Use::works},
    {"max_tokens", Use::works}, {"max_completion_tokens", Use::works}, {"max_output_tokens", Use::works}, {"n_predict", Use::works}, {"min_tokens", Use::works}, {"min_new_tokens", Use::works},
    {"priority", Use::works}, {"cache_salt", Use::works},
    {"user", Use::nothing}, {"metadata", Use::nothing}, {"service_tier", Use::nothing}, {"safety_identifier", Use::nothing},
    {"prompt_cache_key", Use::nothing}, {"prompt_cache_retention", Use::nothing}, {"request_id", Use::nothing},
    {"session_id", Use::nothing}, {"spaces_between_special_tokens", Use::nothing}, {"cache_prompt", Use::nothing},
    {"length_penalty", Use::refused, "1 1.0"}, {"truncate_prompt_tokens", Use::refused}, {"prompt_logprobs", Use::refused, "0"},
    {"allowed_token_ids", Use::refused}, {"bad_words", Use::refused, "[]"}, {"use_beam_search", Use::refused, "false"},
    {"kv_transfer_params", Use::refused}, {"n_probs", Use::refused, "0"}, {"return_progress", Use::refused, "false"},
    {"timings_per_token", Use::refused, "false"},
};
constexpr KnownField kReasoning[] = {
    {"reasoning_effort", Use::works}, {"reasoning", Use::works}, {"chat_template_kwargs", Use::works}, {"include_reasoning", Use::works},
    {"thinking", Use::works}, {"thinking_token_budget", Use::works}, {"thinking_budget", Use::works}, {"reasoning_budget", Use::works},
    {"max_reasoning_tokens", Use::works},
};
constexpr KnownField kOutput[] = {
    {"response_format", Use::works}, {"structured_outputs", Use::works}, {"guided_json", Use::works}, {"guided_regex", Use::works},
    {"guided_choice", Use::works}, {"guided_grammar", Use::works}, {"regex", Use::works}, {"ebnf", Use::works},
    {"grammar", Use::works}, {"json_schema", Use::works},
    {"guided_decoding_backend", Use::nothing}, {"guided_whitespace_pattern", Use::refused},
};
// clang-format on

bool is_harmless(const KnownField& field, const Json& value) {
  return (" " + std::string(field.harmless) + " ").find(" " + dump_json(value) + " ") !=
         std::string::npos;
}

}  // namespace

KnownFields generate_fields() { return kGenerate; }
KnownFields reasoning_fields() { return kReasoning; }
KnownFields output_fields() { return kOutput; }

void check_names(const Json& body, std::initializer_list<KnownFields> tables, Fields& fields,
                 std::vector<std::string>& ignored) {
  for (const auto& [name, value] : body.items()) {
    const KnownField* known = nullptr;
    for (const KnownFields table : tables) {
      const auto row =
          std::find_if(table.begin(), table.end(),
                       [&name = name](const KnownField& field) { return name == field.name; });
      if (row != table.end() && !known) known = &*row;
    }
    if (!known) {
      ignored.push_back(name);
    } else if (known->use == Use::refused && !value.is_null() && !is_harmless(*known, value)) {
      std::string what = "is not supported";
      if (*known->instead) what += std::string("; ") + known->instead;
      fields.wrong(name, what);
    }
  }
}

}  // namespace rose
