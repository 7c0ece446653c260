// The corpora of fuzzing, each input as it is and with small changes: nothing may stop the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "fuzz/targets.h"

namespace rose::fuzz {
namespace {

std::vector<std::string> corpus(const std::string& name) {
  std::vector<std::string> paths, inputs;
  for (const auto& entry :
       std::filesystem::directory_iterator(ROSE_SOURCE_DIR "/tests/fuzz/corpus/" + name))
    paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) inputs.push_back(*read_file(path));
  return inputs;
}

// A few bytes replaced, taken out, doubled, or the end of another input put on.
std::string changed(const std::vector<std::string>& inputs, uint64_t seed) {
  uint64_t drawn = 0;
  const auto draw = [&](size_t below) { return size_t(random_bits(seed, drawn++) % below); };
  std::string input = inputs[draw(inputs.size())];
  for (size_t changes = 1 + draw(4); changes > 0; --changes) {
    const size_t at = draw(input.size() + 1);
    const size_t size = std::min(input.size() - at, 1 + draw(8));
    const std::string& other = inputs[draw(inputs.size())];
    switch (draw(5)) {
      case 0: input.insert(at, 1, char(draw(256))); break;
      case 1: input.erase(at, size); break;
      case 2: input.insert(at, input.substr(at, size)); break;
      case 3: input = input.substr(0, at) + other.substr(draw(other.size() + 1)); break;
      default:
        if (at < input.size()) input[at] = char(input[at] ^ (1 << draw(8)));
    }
  }
  return input;
}

class Fuzz : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override { set_log_level("error"); }
  void TearDown() override { set_log_level("info"); }
};

TEST_P(Fuzz, replay) {
  const std::vector<std::string> inputs = corpus(GetParam().name);
  ASSERT_FALSE(inputs.empty());
  for (const std::string& input : inputs) GetParam().run(input);
  GetParam().run("");
}

TEST_P(Fuzz, small_changes) {
  const std::vector<std::string> inputs = corpus(GetParam().name);
  ASSERT_FALSE(inputs.empty());
  for (uint64_t seed = 0; seed < 300; ++seed) GetParam().run(changed(inputs, seed));
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, ::testing::ValuesIn(targets()),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace rose::fuzz
