// What loading says of the numbers that a recipe could not keep.
#pragma once
#include "base/json_fwd.h"
#include "model/loader.h"

namespace rose {

// One line on stderr, where the recipe's format has narrower exponents than MXFP4; with `each`, one more for
// every tensor.
void print_census(const LoadedModel& loaded, bool each);

// {"blocks", "inexact", "tensors": [{"name", "blocks", "inexact"}]}, of tensors those that lost some.
Json census_json(const LoadedModel& loaded);

}  // namespace rose
