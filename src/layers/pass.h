// What one forward pass is handed: by whom it is computed, where scratch memory comes from, the cache
// and the step. Handed down, never global.
#pragma once
#include <functional>

#include "cache/kv_cache.h"
#include "device/arena.h"
#include "kernels/batch.h"
#include "kernels/ops.h"

namespace rose {

struct Pass {
  const Ops& ops;
  Stream& stream;
  const KvCache& kv;
  const Batch& batch;
  DType activations;  // of the residual stream and all between layers

  // Tests watch the residual stream: as it enters each layer (the first: the embedding), and what the
  // final norm makes of it. Not set in service.
  std::function<void(const Tensor&)> watch = {};

  // Scratch memory of a block is not used again by a later one: for those who look at it after the pass.
  bool keep = false;

  void saw(const Tensor& x) const {
    if (watch) watch(x);
  }

  Tensor take(std::initializer_list<int64_t> dims) {
    return stream.scratch->take(activations, dims);
  }
};

}  // namespace rose
