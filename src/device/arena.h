// Scratch memory of one step: taken piece by piece, given back all at once. A step that asks for the
// same pieces in the same order gets the same addresses. Grows when a step needs more than any before.
#pragma once
#include <initializer_list>
#include <vector>

#include "device/buffer.h"
#include "tensor/tensor.h"

namespace rose {

class Arena {
 public:
  explicit Arena(const Device& device) : device_(&device) {}

  // Valid until reset(); not cleared.
  Tensor take(DType dtype, std::initializer_list<int64_t> dims);
  void reset();

  // What was taken since the mark is given back: for memory that only an op itself needs.
  struct Mark {
    size_t block;
    int64_t used;
  };
  Mark mark() const { return {block_, used_}; }
  void rewind(const Mark& mark) { block_ = mark.block, used_ = mark.used; }

  int64_t bytes() const;  // held, used or not

 private:
  const Device* device_;
  std::vector<Buffer> blocks_;
  size_t block_ = 0;  // the one being filled
  int64_t used_ = 0;  // bytes of it
};

// Gives back at its end what was taken since: memory of an op that nothing after it reads.
class Taken {
 public:
  explicit Taken(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  Taken(const Taken&) = delete;
  ~Taken() { arena_.rewind(mark_); }

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace rose
