#include "tensor/safetensors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference library
constexpr size_t kLengthBytes = 8;

struct FileType {
  std::string_view name;
  int bits;
};
constexpr FileType kFileTypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

// Text of the file as an error may show it: one line, and not long.
std::string shown(std::string text) {
  constexpr size_t kMost = 160;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  for (char& c : text)
    if (uint8_t(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

// Reads the header's JSON event by event. A tree of values would keep only one of two equal keys, and
// 100 MB of brackets would become a deep one.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeader entries;
  std::string error;  // the first thing that was wrong

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_float(double, const std::string& text) override { return unexpected(text); }
  bool number_integer(int64_t value) override { return unexpected(std::to_string(value)); }
  bool binary(Json::binary_t&) override { return unexpected("binary"); }

  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::list) return unexpected(std::to_string(value));
    if (value > uint64_t(INT64_MAX)) return wrong(strf("%s holds a number past 2^63", field()));
    numbers_[field_].push_back(int64_t(value));
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::tensor || field_ != kDType) return unexpected("a string");
    const FileType* type = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                        [&](const FileType& row) { return row.name == text; });
    if (type == std::end(kFileTypes)) return wrong("unknown dtype '" + shown(text) + "'");
    type_ = type;
    return true;
  }

  bool key(std::string& text) override {
    if (place_ == Place::file) {
      name_ = text;
      if (text == "__metadata__" ? seen_metadata_ : entries.contains(text))
        return wrong("the name comes twice");
      return true;
    }
    if (place_ == Place::metadata) {
      if (!metadata_.insert(text).second) return wrong("key '" + shown(text) + "' comes twice");
      return true;
    }
    field_ = int(std::find(std::begin(kFields), std::end(kFields), text) - std::begin(kFields));
    if (field_ == kCount) return wrong("unknown field '" + shown(text) + "'");
    if (seen_[field_]) return wrong(strf("%s comes twice", field()));
    return seen_[field_] = true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::nothing) {
      place_ = Place::file;
    } else if (place_ == Place::file && name_ == "__metadata__") {
      place_ = Place::metadata;
      seen_metadata_ = true;
    } else if (place_ == Place::file) {
      place_ = Place::tensor;
      for (bool& seen : seen_) seen = false;
      for (std::vector<int64_t>& list : numbers_) list.clear();
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::tensor || (field_ != kShape && field_ != kOffsets))
      return unexpected("a list");
    place_ = Place::list;
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor && !add_tensor()) return false;
    place_ = Place::file;  // also at the very end, where nothing follows
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const Json::exception& exception) override {
    name_.clear();  // what was read last may not be what is broken
    return wrong(strf("not valid JSON at byte %zu: %s", byte, shown(exception.what()).c_str()));
  }

 private:
  enum class Place { nothing, file, metadata, tensor, list };
  enum { kDType, kShape, kOffsets, kCount };
  static constexpr const char* kFields[kCount] = {"dtype", "shape", "data_offsets"};

  const char* field() const { return kFields[field_]; }

  bool wrong(const std::string& what) {
    if (error.empty())
      error = name_.empty() ? "header: " + what : "header: " + shown(name_) + ": " + what;
    return false;
  }

  bool unexpected(const std::string& what) {
    if (place_ == Place::tensor || place_ == Place::list)
      return wrong(strf("%s holds %s", field(), shown(what).c_str()));
    if (place_ == Place::metadata) return wrong(shown(what) + " where a string was wanted");
    return wrong(shown(what) + " where an object was wanted");
  }

  bool add_tensor() {
    for (field_ = 0; field_ < kCount; ++field_)
      if (!seen_[field_]) return wrong(strf("%s is missing", field()));
    const std::vector<int64_t>& offsets = numbers_[kOffsets];
    if (offsets.size() != 2)
      return wrong(strf("data_offsets has %zu numbers, wanted 2", offsets.size()));
    if (offsets[0] > offsets[1])
      return wrong(strf("data_offsets [%ld, %ld] end before they begin", long(offsets[0]),
                        long(offsets[1])));

    int64_t elements = 1, bits = 0;
    bool overflow = false;
    for (const int64_t dim : numbers_[kShape])
      overflow |= __builtin_mul_overflow(elements, dim, &elements);
    overflow |= __builtin_mul_overflow(elements, int64_t(type_->bits), &bits);
    if (overflow) return wrong("shape " + show_shape(numbers_[kShape]) + " overflows");
    if (bits % 8 != 0 || bits / 8 != offsets[1] - offsets[0])
      return wrong(
          strf("%s %s takes %s bytes, data_offsets give it %ld", std::string(type_->name).c_str(),
               show_shape(numbers_[kShape]).c_str(),
               bits % 8 ? strf("%ld/8", long(bits)).c_str() : strf("%ld", long(bits / 8)).c_str(),
               long(offsets[1] - offsets[0])));
    entries.emplace(name_, SafetensorsEntry{.dtype = type_->name,
                                            .shape = numbers_[kShape],
                                            .begin = offsets[0],
                                            .end = offsets[1]});
    return true;
  }

  Place place_ = Place::nothing;
  std::string name_;  // of the tensor being read
  int field_ = 0;     // of it, being read
  bool seen_[kCount] = {};
  const FileType* type_ = nullptr;
  std::vector<int64_t> numbers_[kCount];
  bool seen_metadata_ = false;
  std::set<std::string> metadata_;
};

// The tensors in the order of their data must follow one another from 0 to `data_bytes`.
Status check_tiling(const SafetensorsHeader& entries, int64_t data_bytes) {
  std::vector<const SafetensorsHeader::value_type*> order;
  for (const auto& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t reached = 0;
  for (const auto* row : order) {
    const SafetensorsEntry& entry = row->second;
    if (entry.begin != reached)
      return fail(
          ErrorKind::corrupt,
          strf("%s begins at byte %ld of the data, but the tensors before it end at %ld: %s",
               shown(row->first).c_str(), long(entry.begin), long(reached),
               entry.begin < reached ? "they overlap" : "there is a hole"));
    reached = entry.end;
  }
  if (reached != data_bytes)
    return fail(
        ErrorKind::corrupt,
        strf("the tensors take %ld bytes of data, the file holds %ld: it is %s", long(reached),
             long(data_bytes), data_bytes < reached ? "truncated" : "longer than its header says"));
  return Done{};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::span<const uint8_t> file) {
  if (file.size() < kLengthBytes)
    return fail(ErrorKind::corrupt,
                strf("%zu bytes are too few for a header: the file is truncated", file.size()));
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) header_bytes |= uint64_t(file[i]) << (8 * i);
  if (header_bytes > kMaxHeaderBytes)
    return fail(ErrorKind::corrupt, strf("the header claims %llu bytes, at most %llu are allowed: "
                                         "not a safetensors file",
                                         static_cast<unsigned long long>(header_bytes),
                                         static_cast<unsigned long long>(kMaxHeaderBytes)));
  if (header_bytes > file.size() - kLengthBytes)
    return fail(ErrorKind::corrupt,
                strf("the header claims %llu bytes, the file has %zu in all: it is truncated",
                     static_cast<unsigned long long>(header_bytes), file.size()));
  const std::span<const uint8_t> header = file.subspan(kLengthBytes, size_t(header_bytes));
  if (header.empty() || header[0] != '{')
    return fail(ErrorKind::corrupt, "the header does not begin with '{': not a safetensors file");

  // The JSON library takes a zero byte for the end of its input.
  if (std::memchr(header.data(), 0, header.size()))
    return fail(ErrorKind::corrupt, "header: not valid JSON: it holds a zero byte");

  HeaderReader reader;
  if (!Json::sax_parse(header.begin(), header.end(), &reader))
    return fail(ErrorKind::corrupt, reader.error);
  const int64_t data_begin = int64_t(kLengthBytes + header_bytes);
  TRY(check_tiling(reader.entries, int64_t(file.size()) - data_begin));
  for (auto& [name, entry] : reader.entries) {
    entry.begin += data_begin;
    entry.end += data_begin;
  }
  return std::move(reader.entries);
}

Result<Safetensors> Safetensors::open(const std::string& path) {
  Safetensors opened;
  opened.file_ = TRY(MappedFile::open(path));
  opened.entries_ = TRY(within(parse_safetensors(opened.file_.bytes()), "reading " + path));
  return opened;
}

std::string show_shape(const std::vector<int64_t>& shape) {
  constexpr size_t kMost = 8;
  std::string text = "[";
  for (size_t i = 0; i < shape.size() && i < kMost; ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() > kMost ? ", ...]" : "]");
}

}  // namespace rose
