// SHA-256, by OpenSSL.
#pragma once
#include <string>
#include <string_view>

namespace rose {

std::string sha256_hex(std::string_view bytes);  // 64 digits in lower case
std::string random_bytes(size_t count);          // that nobody can guess

}  // namespace rose
