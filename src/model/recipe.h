// Precision is a recipe: what each role of a weight is kept as, and the type between the layers. A
// new quantisation is a new row and the kernels for its format; no layer asks which it got.
#pragma once
#include <string_view>

#include "base/result.h"
#include "kernels/ops.h"
#include "kernels/weight.h"
#include "tensor/tensor.h"

namespace rose {

enum class Role : uint8_t { attention, expert, unembedding };

struct Recipe {
  const char* name;
  const char* about;
  DType activations;
  DType kv;
  Format attention;
  Format expert;       // of MXFP4 checkpoints
  Format expert_bf16;  // of dequantised ones
  Format unembedding;
};

// clang-format off
inline constexpr Recipe kRecipes[] = {
    //                                                                     between      cache        attention     expert         (bf16 file)   unembedding
    {"f32",  "float32 between the layers: the reference",                  DType::f32,  DType::f32,  Format::bf16, Format::mxfp4, Format::bf16, Format::bf16},
    {"bf16", "bfloat16, as published: faithful",                           DType::bf16, DType::bf16, Format::bf16, Format::mxfp4, Format::bf16, Format::bf16},
    {"q8",   "int8 by 32 for dense weights and activations: fast on a CPU", DType::f32, DType::bf16, Format::q8,   Format::mxfp4_q8, Format::q8, Format::q8},
    {"mxfp4", "4-bit experts, dense weights E4M3 by row: fast on a GPU",   DType::bf16, DType::bf16, Format::fp8,  Format::mxfp4_fp8, Format::fp8_block, Format::fp8},
    {"fp8",  "E4M3: experts in blocks of 128 x 128, dense weights by row", DType::bf16, DType::bf16, Format::fp8,  Format::fp8_block, Format::fp8_block, Format::fp8},
};
// clang-format on

// Whether a backend has kernels for all of a recipe's formats.
bool keeps(const Ops& ops, const Recipe& recipe);

// By name; the error lists what there is.
Result<const Recipe*> find_recipe(std::string_view name);

}  // namespace rose
