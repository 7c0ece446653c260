#include "tensor/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/check.h"
#include "base/rng.h"

namespace rose {
namespace {

// The small language of these tests: a header as text, then so many bytes of data.
std::vector<uint8_t> file_of(const std::string& header, size_t data_bytes) {
  std::vector<uint8_t> file;
  for (int i = 0; i < 8; ++i) file.push_back(uint8_t(uint64_t(header.size()) >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  for (size_t i = 0; i < data_bytes; ++i) file.push_back(uint8_t(i));
  return file;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return strf(R"("%s":{"dtype":"%s","shape":[%s],"data_offsets":[%s]})", name.c_str(),
              dtype.c_str(), shape.c_str(), offsets.c_str());
}

std::string error_of(const std::vector<uint8_t>& file) {
  const auto header = parse_safetensors(file);
  return header ? "" : header.error().message;
}

#define EXPECT_ERROR(file, wanted)                          \
  EXPECT_NE(error_of(file).find(wanted), std::string::npos) \
      << "the error is: '" << error_of(file) << "'";        \
  EXPECT_EQ(error_of(file).find('\n'), std::string::npos) << "more than a line"

TEST(Safetensors, entries_are_placed_behind_the_header) {
  const std::string header = "{" + entry("b", "U8", "3", "4,7") + "," +
                             entry("a", "BF16", "2, 1", "0,4") +
                             R"(,"__metadata__":{"format":"pt","dtype":"no tensor"}}   )";
  const auto read = parse_safetensors(file_of(header, 7));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2u);
  const int64_t data = 8 + int64_t(header.size());
  const SafetensorsEntry& a = read->at("a");
  EXPECT_EQ(a.dtype, "BF16");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(a.begin, data);
  EXPECT_EQ(a.end, data + 4);
  EXPECT_EQ(read->at("b").begin, data + 4);
}

TEST(Safetensors, scalars_empty_tensors_and_empty_files_are_legal) {
  EXPECT_EQ(error_of(file_of("{" + entry("s", "F32", "", "0,4") + "}", 4)), "");
  EXPECT_EQ(
      error_of(file_of("{" + entry("z", "F32", "0,5", "0,0") + "," + entry("a", "U8", "1", "0,1") +
                           "," + entry("end", "BF16", "0", "1,1") + "}",
                       1)),
      "");
  EXPECT_EQ(error_of(file_of("{" + entry("z", "F64", "4611686018427387904,0", "0,0") + "}", 0)),
            "");
  EXPECT_EQ(error_of(file_of("{}", 0)), "");
}

TEST(Safetensors, every_dtype_has_its_size) {
  const std::pair<const char*, int> bits[] = {
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [dtype, size] : bits) {
    EXPECT_EQ(error_of(file_of("{" + entry("a", dtype, "4", strf("0,%d", size / 2)) + "}",
                               size_t(size / 2))),
              "")
        << dtype;
  }
}

TEST(Safetensors, what_ends_too_early_is_truncated) {
  EXPECT_ERROR(std::vector<uint8_t>{}, "truncated");
  EXPECT_ERROR((std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 0}), "truncated");
  std::vector<uint8_t> file = file_of("{" + entry("a", "U8", "4", "0,4") + "}", 4);
  EXPECT_EQ(error_of(file), "");
  file.pop_back();
  EXPECT_ERROR(file, "truncated");
  file.resize(20);
  EXPECT_ERROR(file, "it is truncated");
}

TEST(Safetensors, a_file_longer_than_its_tensors_is_refused) {
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "4", "0,4") + "}", 5), "longer than its header says");
  EXPECT_ERROR(file_of("{}", 1), "longer than its header says");
}

TEST(Safetensors, the_header_has_a_limit_and_begins_with_a_brace) {
  std::vector<uint8_t> file(64, 0);
  file[3] = 0x7f;  // 2 GB
  EXPECT_ERROR(file, "at most 100000000");
  for (int i = 0; i < 8; ++i) file[size_t(i)] = 0xff;
  EXPECT_ERROR(file, "at most 100000000");
  EXPECT_ERROR(file_of(" {}", 0), "does not begin with '{'");
  EXPECT_ERROR(file_of("[]", 0), "does not begin with '{'");
  EXPECT_ERROR(file_of("", 4), "does not begin with '{'");
}

TEST(Safetensors, broken_json_is_named_by_its_byte) {
  EXPECT_ERROR(file_of("{\"a\"", 0), "not valid JSON at byte 5");
  EXPECT_ERROR(file_of("{} {}", 0), "not valid JSON");
  EXPECT_ERROR(file_of(std::string("{}\0", 3), 0), "not valid JSON");
  EXPECT_ERROR(file_of("{\"a\xff\":{}}", 0), "not valid JSON");
  EXPECT_ERROR(file_of("{\n\"a\nb\":{}}", 0), "not valid JSON");
  EXPECT_ERROR(file_of("{\"a\":" + std::string(100000, '[') + "}", 0), "a list where an object");
}

TEST(Safetensors, nothing_comes_twice) {
  const std::string a = entry("a", "U8", "1", "0,1");
  EXPECT_ERROR(file_of("{" + a + "," + a + "}", 1), "a: the name comes twice");
  EXPECT_ERROR(file_of("{" + a + "," + entry("\\u0061", "U8", "1", "1,2") + "}", 2),
               "a: the name comes twice");
  EXPECT_ERROR(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "comes twice");
  EXPECT_ERROR(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "'k' comes twice");
  EXPECT_ERROR(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1),
               "dtype comes twice");
}

TEST(Safetensors, an_entry_has_its_three_fields_and_no_others) {
  EXPECT_ERROR(file_of(R"({"a":{"shape":[],"data_offsets":[0,1]}})", 1), "a: dtype is missing");
  EXPECT_ERROR(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "a: shape is missing");
  EXPECT_ERROR(file_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "data_offsets is missing");
  EXPECT_ERROR(file_of(R"({"a":{"dtype":"U8","strides":[1]}})", 1), "unknown field 'strides'");
  EXPECT_ERROR(file_of(R"({"a":1})", 1), "a: 1 where an object was wanted");
  EXPECT_ERROR(file_of(R"({"a":"U8"})", 1), "a: a string where an object was wanted");
  EXPECT_ERROR(file_of(R"({"a":{"dtype":{}}})", 1), "dtype holds an object");
  EXPECT_ERROR(file_of(R"({"a":{"dtype":null}})", 1), "dtype holds null");
  EXPECT_ERROR(file_of(R"({"a":{"dtype":["U8"]}})", 1), "dtype holds a list");
  EXPECT_ERROR(file_of(R"({"a":{"shape":3}})", 1), "shape holds 3");
  EXPECT_ERROR(file_of(R"({"a":{"shape":[[3]]}})", 1), "shape holds a list");
  EXPECT_ERROR(file_of(R"({"__metadata__":{"k":1}})", 0), "1 where a string was wanted");
  EXPECT_ERROR(file_of(R"({"__metadata__":3})", 0), "__metadata__: 3 where an object was wanted");
}

TEST(Safetensors, numbers_are_whole_and_not_negative) {
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "1.0", "0,1") + "}", 1), "shape holds 1.0");
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "-1", "0,1") + "}", 1), "shape holds -1");
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "true", "0,1") + "}", 1), "shape holds a boolean");
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "1", "0,1e400") + "}", 1), "not valid JSON");
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "9223372036854775808", "0,1") + "}", 1),
               "shape holds a number past 2^63");
}

TEST(Safetensors, an_unknown_dtype_is_named) {
  EXPECT_ERROR(file_of("{" + entry("a", "bf16", "1", "0,2") + "}", 2), "a: unknown dtype 'bf16'");
  EXPECT_ERROR(file_of("{" + entry("a", "", "1", "0,2") + "}", 2), "unknown dtype ''");
}

TEST(Safetensors, offsets_agree_with_shape_and_dtype) {
  EXPECT_ERROR(file_of("{" + entry("a", "BF16", "3", "0,5") + "}", 5),
               "a: BF16 [3] takes 6 bytes, data_offsets give it 5");
  EXPECT_ERROR(file_of("{" + entry("a", "F4", "3", "0,2") + "}", 2), "F4 [3] takes 12/8 bytes");
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "1", "1,0") + "}", 1), "end before they begin");
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "1", "0") + "}", 1), "has 1 numbers, wanted 2");
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "1", "0,1,2") + "}", 1), "has 3 numbers, wanted 2");
}

TEST(Safetensors, a_shape_that_overflows_is_refused) {
  // 2^32 * 2^32 and 2^62 * 4 are 0 modulo 2^64.
  EXPECT_ERROR(file_of("{" + entry("a", "U8", "4294967296,4294967296", "0,0") + "}", 0),
               "overflows");
  EXPECT_ERROR(file_of("{" + entry("a", "F32", "4611686018427387904", "0,0") + "}", 0),
               "overflows");
}

TEST(Safetensors, tensors_tile_the_data) {
  const auto two = [](const char* first, const char* second, size_t bytes) {
    return file_of("{" + entry("a", "U8", "2", first) + "," + entry("b", "U8", "2", second) + "}",
                   bytes);
  };
  EXPECT_EQ(error_of(two("0,2", "2,4", 4)), "");
  EXPECT_EQ(error_of(two("2,4", "0,2", 4)), "");
  EXPECT_ERROR(two("0,2", "1,3", 3), "b begins at byte 1 of the data");
  EXPECT_ERROR(two("0,2", "1,3", 3), "they overlap");
  EXPECT_ERROR(two("0,2", "0,2", 2), "they overlap");
  EXPECT_ERROR(two("0,2", "3,5", 5), "there is a hole");
  EXPECT_ERROR(two("1,3", "3,5", 5), "there is a hole");
  EXPECT_ERROR(two("0,2", "2,4", 3), "truncated");
}

TEST(Safetensors, names_of_any_bytes_stay_on_one_short_line) {
  const std::string error = error_of(
      file_of("{" + entry("a\\n\\u001b[31m" + std::string(10000, 'x'), "U9", "1", "0,1") + "}", 1));
  EXPECT_LT(error.size(), 400u);
  for (const char c : error) EXPECT_GE(uint8_t(c), 0x20);
}

// A few bytes of a good file are changed, cut or repeated, with a fixed seed: whatever comes out is
// an error or a header whose tensors lie inside the file.
TEST(Safetensors, mutated_files_never_do_harm) {
  const std::vector<uint8_t> good =
      file_of("{" + entry("model.norm.weight", "BF16", "4", "0,8") + "," +
                  entry("blocks", "U8", "2,2,1", "8,12") + "," + entry("s", "F32", "", "12,16") +
                  R"(,"__metadata__":{"format":"pt"}}  )",
              16);
  ASSERT_EQ(error_of(good), "");
  const char* const kPieces[] = {
      "{",   "}",       "[",    "]",          "\"", ",", ":", "-1", "18446744073709551615",
      "1e9", "\\u0000", "null", "\"shape\":", "0"};
  int accepted = 0;
  for (uint64_t trial = 0; trial < 6000; ++trial) {
    std::vector<uint8_t> file = good;
    uint64_t counter = 0;
    const auto random = [&](uint64_t below) { return random_bits(trial, counter++) % below; };
    for (uint64_t edits = 1 + random(3); edits > 0 && !file.empty(); --edits) {
      const auto at = file.begin() + int64_t(random(file.size()));
      switch (random(5)) {
        case 0: *at = uint8_t(random(256)); break;
        case 1: *at ^= uint8_t(1 << random(8)); break;
        case 2: file.erase(at, std::min(file.end(), at + int64_t(random(8)))); break;
        case 3: {
          const std::string piece = kPieces[random(std::size(kPieces))];
          file.insert(at, piece.begin(), piece.end());
          break;
        }
        case 4: {
          const std::vector<uint8_t> copy(at, std::min(file.end(), at + int64_t(random(60))));
          file.insert(file.begin() + int64_t(random(file.size())), copy.begin(), copy.end());
          break;
        }
      }
      // Half of the time the length is made to fit again, so that the mutation reaches the JSON.
      if (file.size() > 24 && random(2) == 0) {
        const uint64_t length = file.size() - 24;
        for (int i = 0; i < 8; ++i) file[size_t(i)] = uint8_t(length >> (8 * i));
      }
    }
    const auto header = parse_safetensors(file);
    if (!header) {
      ASSERT_FALSE(header.error().message.empty());
      continue;
    }
    ++accepted;
    for (const auto& [name, tensor] : *header) {
      ASSERT_LE(8, tensor.begin);
      ASSERT_LE(tensor.begin, tensor.end);
      ASSERT_LE(tensor.end, int64_t(file.size()));
    }
  }
  EXPECT_GT(accepted, 50);  // changes of names and of data are no errors
}

TEST(Safetensors, open_maps_the_bytes_and_names_the_file_in_errors) {
  const std::string path = strf("%s/rose_safetensors_%d", ::testing::TempDir().c_str(), getpid());
  const std::vector<uint8_t> file = file_of("{" + entry("a", "U8", "4", "0,4") + "}", 4);
  ASSERT_TRUE(write_file(path, {reinterpret_cast<const char*>(file.data()), file.size()}));
  {
    const auto opened = Safetensors::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    const auto bytes = opened->bytes(opened->entries().at("a"));
    EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), (std::vector<uint8_t>{0, 1, 2, 3}));
  }
  ASSERT_TRUE(write_file(path, "tiny"));
  EXPECT_EQ(Safetensors::open(path).error().message,
            "reading " + path + ": 4 bytes are too few for a header: the file is truncated");
  EXPECT_EQ(Safetensors::open(path).error().kind, ErrorKind::corrupt);
  unlink(path.c_str());
  EXPECT_EQ(Safetensors::open(path).error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace rose
