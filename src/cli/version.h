#pragma once

namespace rose {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace rose
