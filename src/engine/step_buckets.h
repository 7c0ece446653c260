// Bounds of the histogram of tokens in a step, as dashboards know it.
#pragma once
#include <iterator>

namespace rose {

inline constexpr int kStepTokenBuckets[] = {1,   8,    16,   32,   64,   128,  256,
                                            512, 1024, 2048, 4096, 8192, 16384};
inline constexpr int kStepBuckets =
    int(std::size(kStepTokenBuckets)) + 1;  // the last: more than all

}  // namespace rose
