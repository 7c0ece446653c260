// rose bench kernels, a row of the table in bench.cc.
#pragma once
#include "cli/command.h"

namespace rose {

Status bench_kernels(Arguments arguments);

}  // namespace rose
