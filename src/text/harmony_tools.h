// The "# Tools" section of a prompt: namespaces of functions, whose parameters (JSON schemas) are
// written as TypeScript types.
#pragma once
#include <string>

#include "text/harmony.h"

namespace rose::harmony {

std::string tools_section(const Namespaces& namespaces, SchemaStyle style);

}  // namespace rose::harmony
