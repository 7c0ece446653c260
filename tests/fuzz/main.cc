// rose_fuzz --target=NAME [libFuzzer's options] CORPUS…
#include <cstdio>
#include <cstring>
#include <string>

#include "base/log.h"
#include "fuzz/targets.h"

namespace {
void (*run)(std::string_view) = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** values) {
  rose::set_log_level("error");
  std::string names;
  for (const rose::fuzz::Target& target : rose::fuzz::targets()) {
    names += std::string(" ") + target.name;
    for (int i = 1; i < *count; ++i)
      if (std::string("--target=") + target.name == (*values)[i]) run = target.run;
  }
  if (run) {
    run("");  // what is loaded once does not count as the first input's time
    return 0;
  }
  std::fprintf(stderr, "rose_fuzz: --target= must be one of%s\n", names.c_str());
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run({reinterpret_cast<const char*>(data), size});
  return 0;
}
