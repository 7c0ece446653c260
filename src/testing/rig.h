// A backend set up for a test: a stream to run ops on, operands with known numbers in its memory, and
// the way back. A test states its problem once, as a function of a rig, and runs it on each backend and
// on the reference.
#pragma once
#include <initializer_list>
#include <vector>

#include "device/arena.h"
#include "device/buffer.h"
#include "kernels/ops.h"
#include "testing/values.h"

namespace rose::testing {

// Every backend of this computer but the reference.
std::vector<const Ops*> backends();

using Dims = std::initializer_list<int64_t>;

class Rig {
 public:
  // The reference runs on one thread unless told otherwise, every other backend on two.
  explicit Rig(const Ops& ops, int threads = 0);

  const Ops& ops() const { return ops_; }
  Stream& stream() { return stream_; }

  // Operands live as long as the rig. Numbers are rounded to the type, so that both sides see the same.
  Tensor empty(DType dtype, Dims dims);                                  // filled with NaN, or -1
  Tensor put(DType dtype, Dims dims, const std::vector<float>& values);  // i32 too
  Tensor normal(DType dtype, Dims dims, uint64_t key, float size = 1);
  Tensor uniform(DType dtype, Dims dims, uint64_t key, float from, float to);

  // A packed matrix of this format. Its numbers are random of about this size, those of mxfp4 in the
  // checkpoint's form; `magnitudes` takes the absolute value of each.
  struct Random {
    uint64_t key;
    float size = 1;
    bool magnitudes = false;
  };
  Weight weight(Format format, int experts, int rows, int columns, Random random);
  Weight pack(Format format, const RawWeight& raw);

  template <class Op>
  void run(void (*function)(Stream&, const Op&), const Op& op) {
    function(stream_, op);
    stream_.device->synchronize(stream_);
  }

  Values read(const Tensor& tensor);  // f32, bf16 or i32

 private:
  Tensor hold(DType dtype, Dims dims);

  const Ops& ops_;
  ThreadPool threads_;
  Arena scratch_;
  Stream stream_;
  std::vector<Buffer> held_;
};

// Number `i` of this key, of mean 0 and variance 1, bell-shaped (the sum of four uniform ones: cheap).
float normal_number(uint64_t key, uint64_t i);

}  // namespace rose::testing
