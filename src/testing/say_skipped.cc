// A test that does not run says why, also where the program shows only what fails (--gtest_brief).
#include <gtest/gtest.h>

#include <cstdio>

namespace rose::testing {

namespace {

class SaySkipped : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!::testing::GTEST_FLAG(brief)) return;
    for (int i = 0; i < test.result()->total_part_count(); ++i) {
      const ::testing::TestPartResult& part = test.result()->GetTestPartResult(i);
      if (part.skipped())
        std::fprintf(stderr, "%s.%s: not run: %s\n", test.test_suite_name(), test.name(),
                     part.message());
    }
  }
};

// The program keeps what is appended to its listeners.
const bool listens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SaySkipped);
  return true;
}();

}  // namespace

}  // namespace rose::testing
