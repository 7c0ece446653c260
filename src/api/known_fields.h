// The fields that an API documents, as data: each works, changes nothing, or is refused by name. What is
// in no table is ignored and reported (or refused, by --strict-params).
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "api/fields.h"

namespace rose {

enum class Use {
  works,
  nothing,  // accepted: it changes nothing that the client could see
  refused,  // unless absent, null, or a value that asks for what happens anyway
};

struct KnownField {
  const char* name;
  Use use;
  const char* harmless = "";  // values of a refused field that are fine: JSON, separated by spaces
  const char* instead = "";   // what to do about it
};
using KnownFields = std::span<const KnownField>;

// Those of read_generate_fields and what belongs to it, in every API that generates.
KnownFields generate_fields();
// Those of read_reasoning_fields.
KnownFields reasoning_fields();
// Those of read_output_fields.
KnownFields output_fields();

// Of one API each, besides those.
KnownFields chat_fields();
KnownFields completions_fields();
KnownFields responses_fields();
KnownFields messages_fields();

// Refuses what is to be refused; adds to `ignored` what no table has.
void check_names(const Json& body, std::initializer_list<KnownFields> tables, Fields& fields,
                 std::vector<std::string>& ignored);

}  // namespace rose
