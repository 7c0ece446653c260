// How the tokens of a benchmark are drawn.
#pragma once
#include "kernels/sample/sample.h"

namespace rose {

struct DrawOptions {
  double temperature = 0, top_p = 1, min_p = 0;
  int top_k = 0;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--temperature", temperature, "0: always the likeliest token");
    visit("--top-k", top_k, "sample from the k likeliest; 0: all");
    visit("--top-p", top_p, "sample from the likeliest that hold this share");
    visit("--min-p", min_p, "sample from those at least this share as likely as the likeliest");
  }
  SampleRow row() const {
    return {.temperature = float(temperature),
            .top_k = top_k,
            .top_p = float(top_p),
            .min_p = float(min_p)};
  }
};

}  // namespace rose
