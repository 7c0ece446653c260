// A request's body as a JSON object, within the limits that keep one client from costing everybody's memory.
#pragma once
#include <optional>
#include <string>

#include "api/errors.h"
#include "api/server.h"
#include "base/json_fwd.h"

namespace rose {

// Nothing: what is wrong stands in `problem`.
std::optional<Json> parse_body(const ServeOptions& options, const std::string& text,
                               Problem& problem);

}  // namespace rose
