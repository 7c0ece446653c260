// Unpacks gzip. Model files are sometimes stored so.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace rose {

bool is_gzip(std::string_view data);  // begins like a gzip file

// The content of a gzip file; more than `limit_bytes` of it is an error, so that a small hostile
// file cannot fill the memory.
Result<std::string> gunzip(std::string_view data, size_t limit_bytes = size_t(1) << 30);

}  // namespace rose
