// The safetensors container, read strictly:
//
//   | N: u64, little endian | N bytes of JSON: {"name": {"dtype", "shape", "data_offsets"}, ...} | data |
//
// What is accepted has no ambiguity: the header lies inside the file, no name comes twice, and the
// tensors tile the data from its first byte to its last, each as long as its shape and dtype say.
// Data has no alignment beyond its packing: copy values out, never cast.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace rose {

struct SafetensorsEntry {
  std::string_view dtype;      // the container's spelling ("BF16"); static
  std::vector<int64_t> shape;  // row-major; empty: a scalar
  int64_t begin = 0;           // bytes from the start of the file
  int64_t end = 0;
};

using SafetensorsHeader = std::map<std::string, SafetensorsEntry, std::less<>>;  // by name

// The header of a whole file that is in memory.
Result<SafetensorsHeader> parse_safetensors(std::span<const uint8_t> file);

// A mapped file and its header. The bytes of an entry live as long as this.
class Safetensors {
 public:
  static Result<Safetensors> open(const std::string& path);

  const SafetensorsHeader& entries() const { return entries_; }
  std::span<const uint8_t> bytes(const SafetensorsEntry& entry) const {
    return file_.bytes().subspan(size_t(entry.begin), size_t(entry.end - entry.begin));
  }
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  SafetensorsHeader entries_;
};

std::string show_shape(const std::vector<int64_t>& shape);  // "[4, 2880]"

}  // namespace rose
