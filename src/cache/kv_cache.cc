#include "cache/kv_cache.h"

#include <algorithm>

namespace rose {

int KvSpec::layers_in(Pool pool) const {
  return int(std::count_if(layers.begin(), layers.end(),
                           [&](const KvLayerSpec& layer) { return layer.pool == pool; }));
}

int64_t KvSpec::page_bytes(Pool pool) const {
  return int64_t(layers_in(pool)) * kv_heads * 2 * kPageSize * head_dim * bytes_of(dtype);
}

Result<KvCache> KvCache::allocate(const Device& device, const KvSpec& spec,
                                  const int (&pages)[kPools]) {
  KvCache cache;
  cache.spec_ = spec;
  int64_t bytes = 0;
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    cache.pages_[int(pool)] = pages[int(pool)];
    bytes += int64_t(pages[int(pool)]) * spec.page_bytes(pool);
  }
  cache.buffer_ = TRY(Buffer::allocate(device, bytes));

  char* at = static_cast<char*>(cache.buffer_.data());
  for (const KvLayerSpec& layer : spec.layers) {
    const Tensor part(at, spec.dtype,
                      {pages[int(layer.pool)], spec.kv_heads, 2, kPageSize * spec.head_dim});
    cache.layers_.push_back({part, layer.pool});
    at += part.bytes();
  }
  return cache;
}

}  // namespace rose
