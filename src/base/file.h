// Files: map for reading, read whole, write so that a reader never sees half of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rose {

// A file mapped read-only for as long as this lives. Move-only.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // The bytes will be used soon: reading them may begin.
  void expect(std::span<const uint8_t> part) const;

  // The bytes were used and will not be again: their pages may leave memory.
  void drop(std::span<const uint8_t> part) const;

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

Result<std::string> read_file(const std::string& path);

// Writes beside `path` and renames, so that it is the old file or the whole new one.
Status write_file(const std::string& path, std::string_view content);

}  // namespace rose
