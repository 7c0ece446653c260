// The device table of an NVIDIA GPU. Callers include no CUDA header; only .cu files do.
#pragma once
#include "device/device.h"

namespace rose {

// GPUs this build can use: of compute capability 9.x, with a driver that answers. 0 without a driver.
int cuda_devices();

// The table of GPU `index`; everything of this process runs on the one that was asked for first.
const Device& cuda_device(int index);

}  // namespace rose
