// What the reader accepts has no ambiguity: the tensors tile the data, each as long as it says.
#include "tensor/safetensors.h"

#include <algorithm>

#include "base/check.h"
#include "fuzz/targets.h"

namespace rose::fuzz {

void safetensors(std::string_view input) {
  const std::span file(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const auto header = parse_safetensors(file);
  if (!header) {
    const std::string& message = header.error().message;
    ROSE_CHECK(!message.empty() && message.find('\n') == message.npos, "a message of one line: %s",
               message.c_str());
    return;
  }
  uint64_t header_bytes = 0;
  std::copy_n(file.begin(), 8, reinterpret_cast<uint8_t*>(&header_bytes));
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (const auto& [name, entry] : *header) {
    for (const int64_t size : entry.shape)
      ROSE_CHECK(size >= 0, "%s has size %ld", name.c_str(), long(size));
    ROSE_CHECK(entry.begin <= entry.end, "%s ends before it begins", name.c_str());
    if (entry.begin < entry.end) parts.emplace_back(entry.begin, entry.end);
  }
  std::sort(parts.begin(), parts.end());
  int64_t at = 8 + int64_t(header_bytes);
  for (const auto& [begin, end] : parts) {
    ROSE_CHECK(begin == at, "a tensor begins at %ld, the one before it ends at %ld", long(begin),
               long(at));
    at = end;
  }
  ROSE_CHECK(at == int64_t(input.size()), "the tensors end at %ld, the file at %zu", long(at),
             input.size());
}

}  // namespace rose::fuzz
