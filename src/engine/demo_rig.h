// The demo model on the fastest device there is, for tests of what runs steps.
#pragma once
#include <string>

#include "device/arena.h"
#include "model/loader.h"

namespace rose::testing {

struct DemoRig {
  // Stops the test program if the model does not load. None: the device's own recipe.
  explicit DemoRig(const std::string& recipe = "") {
    auto found =
        load_model({.model = ROSE_SOURCE_DIR "/models/demo"},
                   **find_recipe(recipe.empty() ? ops.defaults.recipe : recipe), stream, ops);
    ROSE_CHECK(found.has_value(), "loading the demo model: %s", found.error().message.c_str());
    loaded = std::move(*found);
  }

  const Ops& ops = **find_ops("auto");
  ThreadPool threads{2};
  Arena scratch{*ops.device};
  Stream stream{.device = ops.device, .threads = &threads, .scratch = &scratch};
  LoadedModel loaded;
};

}  // namespace rose::testing
