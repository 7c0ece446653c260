#pragma once
#include <nlohmann/json_fwd.hpp>

namespace rose {
using Json = nlohmann::ordered_json;
}
