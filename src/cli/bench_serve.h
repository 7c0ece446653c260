// rose bench serve: a running server under load (a row of the table in bench.cc).
#pragma once
#include "cli/command.h"

namespace rose {

Status bench_serve(Arguments arguments);

}  // namespace rose
