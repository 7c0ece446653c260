// Weights for measuring speed and memory where no checkpoint is: of realistic statistics, so that
// activations stay finite, experts are chosen about equally and logits look like logits. Value i of
// an expert of a row follows from seed, name, expert and i alone.
#pragma once
#include <span>
#include <vector>

#include "device/buffer.h"
#include "kernels/ops.h"
#include "model/weights.h"

namespace rose {

// Stands in for a Checkpoint (checkpoint.h), with the same functions.
class DummyWeights {
 public:
  // Matrices are made where they are packed: in the device's memory.
  DummyWeights(std::span<const WeightRow> rows, uint64_t seed, const Ops& ops, Stream& stream);

  RawWeight::Kind kind(size_t row) const { return rows_[row].kind; }
  int64_t bytes(size_t row) const;
  void expect(size_t) const {}
  void drop(size_t, int) {}
  Result<RawWeight> matrix(size_t row, int expert);
  void values(size_t row, int64_t first, std::span<bf16> into, ThreadPool& threads) const;

 private:
  struct Row {
    RawWeight::Kind kind;
    int64_t experts, rows, columns;
    uint64_t key;
    float mean, deviation;
  };

  Status put_table(const Row& row);

  const Ops* ops_;
  Stream* stream_;
  std::vector<Row> rows_;
  Buffer raw_;    // the matrix last asked for
  Buffer table_;  // of values of this mean and deviation
  float mean_ = 0, deviation_ = -1;
};

}  // namespace rose
