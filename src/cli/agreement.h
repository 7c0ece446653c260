// How far two models' predictions of the same text are apart, token by token.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rose {

// What two rows of logits say of the token that follows.
struct Prediction {
  bool same_top = false;  // the likeliest token is the same
  double kl = 0;          // nats: sum of q log(q / p), q the row they are measured against
  double loss = 0;        // -log p of the token that follows
  double loss_against = 0;
};
Prediction compare_rows(std::span<const float> p, std::span<const float> q, int next);

struct Agreement {
  std::vector<Prediction> tokens;

  double same_top() const;  // share
  double kl() const;        // mean
  double kl_at(double share) const;
  double loss() const;
  double loss_against() const;
};

}  // namespace rose
