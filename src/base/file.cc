#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace rose {

namespace {
tl::unexpected<Error> system_error(const char* doing, const std::string& path) {
  const ErrorKind kind = errno == ENOENT ? ErrorKind::not_found : ErrorKind::io;
  return fail(kind, strf("%s %s: %s", doing, path.c_str(), std::strerror(errno)));
}

// Closes a file descriptor when it leaves scope.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};
}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0) return system_error("opening", path);
  struct stat status;
  if (::fstat(file.value, &status) != 0) return system_error("opening", path);
  if (!S_ISREG(status.st_mode))
    return fail(ErrorKind::invalid, strf("opening %s: not a regular file", path.c_str()));

  MappedFile mapped;
  mapped.size_ = size_t(status.st_size);
  if (mapped.size_ > 0) {
    void* data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.value, 0);
    if (data == MAP_FAILED) return system_error("mapping", path);
    mapped.data_ = static_cast<const uint8_t*>(data);
  }
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::expect(std::span<const uint8_t> part) const {
  const uintptr_t page = uintptr_t(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = uintptr_t(part.data()) / page * page;
  const uintptr_t end = uintptr_t(part.data()) + part.size();
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void MappedFile::drop(std::span<const uint8_t> part) const {
  // Only whole pages inside the part: its neighbours may still be read.
  const uintptr_t page = uintptr_t(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (uintptr_t(part.data()) + page - 1) / page * page;
  const uintptr_t end = (uintptr_t(part.data()) + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> read_file(const std::string& path) {
  const MappedFile file = TRY(MappedFile::open(path));
  return std::string(file.text());
}

Status write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".part";
  {
    const Descriptor file{
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.value < 0) return system_error("writing", temporary);
    while (!content.empty()) {
      const ssize_t written = ::write(file.value, content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return system_error("writing", temporary);
      content.remove_prefix(size_t(written));
    }
    if (::fsync(file.value) != 0) return system_error("writing", temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error("renaming", temporary);
  return Done{};
}

}  // namespace rose
