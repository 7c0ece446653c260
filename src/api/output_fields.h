// The fields of a request that say what the answer must be: OpenAI's response_format, and the names
// that other servers have for it. One of them at most.
#pragma once
#include <string>

#include "api/fields.h"
#include "text/grammar/output.h"

namespace rose {

struct OutputFields {
  OutputFormat format;
  std::string field;  // which one said so; empty: none did
};

void read_output_fields(Fields& fields, OutputFields& into);

// The same as one flat object, {"type", "name", "schema", …}: what is at text.format of Responses.
void read_text_format(Fields& format, OutputFields& into);

}  // namespace rose
