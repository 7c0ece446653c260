// A table of ops that does what another table does, and remembers each call with what it must move and
// compute: so the ops of a step can be run again by themselves, on the numbers that they met.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernels/cost.h"
#include "kernels/ops.h"
#include "layers/pass.h"

namespace rose {

struct RecordedOp {
  std::string name;   // "matmul"
  std::string shape;  // "8 x 2880 -> 5120, fp8"
  Cost cost;
  bool e4m3 = false;  // whether its products may be of 8-bit numbers
  std::function<void(Stream&)> run;
};

// One at a time in a process: ops are plain functions. Tensors of the calls must stay where they are.
class OpRecorder {
 public:
  // `keys`: what a token of the step attends to in a full layer, on average; `read`: keys of all sequences.
  OpRecorder(const Ops& ops, int64_t keys, int64_t read);
  ~OpRecorder();
  OpRecorder(const OpRecorder&) = delete;

  const Ops& table() const { return table_; }
  std::vector<RecordedOp> calls;

 private:
  Ops table_;
};

}  // namespace rose
