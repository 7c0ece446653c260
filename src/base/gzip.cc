#include "base/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace rose {

namespace {
constexpr size_t kChunkBytes = size_t(1) << 30;  // zlib counts in 32 bits

struct Inflater {
  z_stream stream = {};
  bool ready = inflateInit2(&stream, 15 + 16) == Z_OK;  // largest window, gzip header
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

// The unpacked size modulo 2^32, which a gzip file ends with. A hint only: files lie.
size_t size_hint(std::string_view data) {
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= size_t(uint8_t(data[data.size() - 4 + i])) << (8 * i);
  return size;
}
}  // namespace

bool is_gzip(std::string_view data) { return data.starts_with("\x1f\x8b"); }

Result<std::string> gunzip(std::string_view data, size_t limit_bytes) {
  Inflater inflater;
  if (!inflater.ready) return fail(ErrorKind::io, "unpacking gzip: zlib has no memory");
  if (data.size() < 18) return fail(ErrorKind::corrupt, "unpacking gzip: the file is cut short");

  z_stream& stream = inflater.stream;
  std::string out;
  // Deflate shrinks at most 1032 to 1, so a hint beyond that is a lie.
  out.resize(std::min({size_hint(data) + 1, data.size() * 1032, limit_bytes + 1}));
  size_t read = 0, written = 0;
  for (;;) {
    if (written == out.size()) {
      if (written > limit_bytes)
        return fail(ErrorKind::unsupported,
                    strf("unpacking gzip: more than %zu bytes come out of it", limit_bytes));
      out.resize(std::min(std::max(out.size() * 2, size_t(1) << 16), limit_bytes + 1));
    }
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data() + read));
    stream.avail_in = uInt(std::min(data.size() - read, kChunkBytes));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = uInt(std::min(out.size() - written, kChunkBytes));
    const uInt in = stream.avail_in, room = stream.avail_out;
    const int code = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += room - stream.avail_out;

    if (code == Z_STREAM_END) break;
    if (code == Z_OK && (in != stream.avail_in || room != stream.avail_out)) continue;
    if (read == data.size() && (code == Z_OK || code == Z_BUF_ERROR))
      return fail(ErrorKind::corrupt, "unpacking gzip: the file is cut short");
    return fail(ErrorKind::corrupt, strf("unpacking gzip: %s at byte %zu",
                                         stream.msg ? stream.msg : "the data is damaged", read));
  }
  if (written > limit_bytes)
    return fail(ErrorKind::unsupported,
                strf("unpacking gzip: more than %zu bytes come out of it", limit_bytes));
  if (read != data.size())
    return fail(ErrorKind::corrupt,
                strf("unpacking gzip: %zu bytes follow its end", data.size() - read));
  out.resize(written);
  return out;
}

}  // namespace rose
