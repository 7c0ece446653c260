// The fields of a request that say how tokens are chosen and when to stop: the same in every API.
#pragma once
#include <string>
#include <vector>

#include "api/fields.h"
#include "engine/request.h"

namespace rose {

struct GenerateFields {
  Request request;                // all but its prompt and the format's own stop tokens
  std::vector<std::string> stop;  // strings, searched in the final text only
  bool include_stop = false;      // the string that matched stays in the text
  bool ignore_eos = false;
};

// `vocab`: tokens that exist.
void read_generate_fields(Fields& fields, int vocab, GenerateFields& into);

// A string, or an array of these, under this name.
void read_stops(Fields& fields, const char* name, std::vector<std::string>& into);

}  // namespace rose
