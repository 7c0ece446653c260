// Commands that read one JSON object a line and write one a line, in the same order.
#pragma once
#include <functional>
#include <string>

#include "base/json_fwd.h"
#include "base/result.h"

namespace rose {

// Reads `path` ("-" or empty: standard input), writes to standard output. A line that cannot be read
// gives {"error": …} in its place and the rest goes on; the command then fails, saying how many.
Status for_each_json_line(const std::string& path,
                          const std::function<Result<Json>(const Json&)>& body);

}  // namespace rose
