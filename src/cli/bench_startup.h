// rose bench startup: from the command to the first token, and what memory that took.
#pragma once
#include "cli/command.h"

namespace rose {

Status bench_startup(Arguments arguments);

}  // namespace rose
