// The rotation's frequencies, stretched for long contexts (YaRN, Peng et al. 2023): fast pairs keep
// their frequency, slow ones are divided by `factor`, those between are blended by a ramp.
#pragma once
#include <vector>

namespace rose {

struct Yarn {
  double theta = 150000;
  double factor = 1;  // 1 or less: plain rotation
  double beta_fast = 32;
  double beta_slow = 1;
  int original_context = 4096;
  bool truncate = false;  // the ends of the ramp to whole pairs, as some other models want it
};

std::vector<float> yarn_inverse_frequency(const Yarn& yarn, int head_dim);  // [head_dim / 2]
float yarn_concentration(const Yarn& yarn);  // multiplies cos and sin

}  // namespace rose
