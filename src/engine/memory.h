// How much memory keys and values get, and how the two pools share it.
#pragma once
#include "cache/kv_cache.h"
#include "engine/engine.h"

namespace rose {

// `model_context`: what the model can. `free_bytes`: what the device has left; used where
// options.kv_bytes is 0. The error says what would be needed.
Result<KvMemory> plan_kv(const KvSpec& spec, const EngineOptions& options, int model_context,
                         int64_t free_bytes);

}  // namespace rose
