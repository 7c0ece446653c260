// The list of a model's weights: where each goes, what it is called, its shape, its role. The loader,
// the memory report and the dummy generator read this list; a family writes it once.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "kernels/weight.h"
#include "model/recipe.h"
#include "tensor/tensor.h"

namespace rose {

// A vector or table that stays as it is (f32 in memory, or bf16 where the op reads bf16).
struct PlainWeight {
  Tensor* into;
  DType keep;  // f32 or bf16
};

// A matrix that the backend packs in the recipe's format for its role.
struct PackedWeight {
  Weight* into;
  Role role;
};

struct WeightRow {
  std::variant<PlainWeight, PackedWeight> into;
  std::string name;            // in the published `original/` layout: "block.0.attn.qkv.weight"
  std::vector<int64_t> shape;  // [rows, columns], [experts, rows, columns], [hidden], …
};

}  // namespace rose
