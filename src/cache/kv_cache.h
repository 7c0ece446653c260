// The memory of keys and values, in pages of 64 tokens, in two pools: layers that attend to every
// token, and sliding layers, of which only the last `window` tokens are kept.
//
//   a layer's part of a page:  [kv_heads] x { K [page_size, head_dim] | V [page_size, head_dim] }
//
// Sequence s keeps token t of a pool's layers in page `table[s][t / 64]` at row t % 64. A sliding
// table has the same indices; the entries of pages that the window has left are kNoPage.
#pragma once
#include <vector>

#include "device/buffer.h"
#include "tensor/tensor.h"

namespace rose {

inline constexpr int kPageSize = 64;  // tokens
inline constexpr int kNoPage = -1;

enum class Pool : uint8_t { full, sliding };
inline constexpr int kPools = 2;

// What one layer of a model needs.
struct KvLayerSpec {
  Pool pool;
};

struct KvSpec {
  std::vector<KvLayerSpec> layers;
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // tokens a sliding layer sees, the newest included
  DType dtype = DType::bf16;

  int layers_in(Pool pool) const;
  int64_t page_bytes(Pool pool) const;  // of all layers of the pool
};

// One layer's keys and values, as ops see them.
struct KvLayer {
  Tensor pages;  // [pages, kv_heads, 2, page_size * head_dim]  bf16 or f32
  Pool pool = Pool::full;
};

class KvCache {
 public:
  // `pages[pool]` pages in each pool.
  static Result<KvCache> allocate(const Device& device, const KvSpec& spec,
                                  const int (&pages)[kPools]);

  const KvLayer& layer(int layer) const { return layers_[size_t(layer)]; }
  const KvSpec& spec() const { return spec_; }
  int pages(Pool pool) const { return pages_[int(pool)]; }
  int64_t bytes() const { return buffer_.bytes(); }

 private:
  KvSpec spec_;
  int pages_[kPools] = {};
  std::vector<KvLayer> layers_;
  Buffer buffer_;
};

}  // namespace rose
