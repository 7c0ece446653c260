// Turns a matrix of a checkpoint into a backend's own layout, once, while loading.
//
//   bf16  -> bf16, q8         as tensor/q8.h says
//   bf16  -> fp8              scale = max|w| of the row / 448 (1 where that is 0), value = nearest E4M3
//   any   -> fp8_block        by the rule of tensor/fp8.h for the scale of a block, value = nearest E4M3
//   mxfp4 -> mxfp4, mxfp4_q8, mxfp4_fp8  exactly
//   mxfp4 -> bf16, q8, fp8    through its exact values
//
// A backend may keep an mxfp4_fp8 block that is 2^-12 of its row's largest or smaller, and an mxfp4 block that
// is 2^-20 of it or smaller, to fewer bits.
//
// The matrices of a weight may come one after another: a loader never holds all of them raw.
#pragma once
#include "device/device.h"
#include "kernels/weight.h"

namespace rose {

struct Pack {
  Weight to;                   // the whole weight; a part of its data is written
  RawWeight from;              // `from.experts` of its matrices
  int first_expert = 0;        // the place in `to` of the first of them
  int64_t* inexact = nullptr;  // on the device: raised by the MXFP4 blocks that lose bits; or null
};

// Whether a matrix of this kind can be kept in this format.
bool packable(RawWeight::Kind from, Format to);

}  // namespace rose
