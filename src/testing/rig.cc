#include "testing/rig.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "kernels/pack/pack.h"
#include "tensor/bf16.h"
#include "tensor/mxfp4.h"

namespace rose::testing {

std::vector<const Ops*> backends() {
  std::vector<const Ops*> all = available_ops();
  std::erase(all, &reference_ops());
  return all;
}

float normal_number(uint64_t key, uint64_t i) {
  const uint64_t bits = random_bits(key, i);
  const int sum =
      int(bits & 0xffff) + int(bits >> 16 & 0xffff) + int(bits >> 32 & 0xffff) + int(bits >> 48);
  return float(sum - 2 * 0xffff) * 0x1.bb67aep-16f;  // sqrt(3) / 65536: each has variance 1 / 12
}

Rig::Rig(const Ops& ops, int threads)
    : ops_(ops),
      threads_(threads                    ? threads
               : &ops == &reference_ops() ? 1
                                          : 2),
      scratch_(*ops.device),
      stream_{.device = ops.device, .threads = &threads_, .scratch = &scratch_} {}

Tensor Rig::hold(DType dtype, Dims dims) {
  Tensor tensor(nullptr, dtype, dims);
  Result<Buffer> buffer = Buffer::allocate(*ops_.device, tensor.bytes());
  ROSE_CHECK(buffer.has_value(), "rig: %s", buffer.error().message.c_str());
  tensor.data = buffer->data();
  held_.push_back(std::move(*buffer));
  return tensor;
}

Tensor Rig::put(DType dtype, Dims dims, const std::vector<float>& values) {
  const Tensor tensor = hold(dtype, dims);
  ROSE_CHECK(int64_t(values.size()) == tensor.elements(), "rig: %zu values for %s", values.size(),
             show(tensor).c_str());
  std::vector<char> bytes(size_t(tensor.bytes()));
  for (size_t i = 0; i < values.size(); ++i) {
    const int32_t integer = dtype == DType::i32 ? int32_t(values[i]) : 0;
    const bf16 half = to_bf16(values[i]);
    const void* from = dtype == DType::i32    ? static_cast<const void*>(&integer)
                       : dtype == DType::bf16 ? static_cast<const void*>(&half)
                                              : &values[i];
    std::memcpy(bytes.data() + i * size_t(bytes_of(dtype)), from, size_t(bytes_of(dtype)));
  }
  stream_.device->upload(stream_, tensor.data, bytes.data(), tensor.bytes());
  stream_.device->synchronize(stream_);
  return tensor;
}

Tensor Rig::empty(DType dtype, Dims dims) {
  const float unset = dtype == DType::i32 ? -1 : std::numeric_limits<float>::quiet_NaN();
  return put(dtype, dims,
             std::vector<float>(size_t(Tensor(nullptr, dtype, dims).elements()), unset));
}

Tensor Rig::normal(DType dtype, Dims dims, uint64_t key, float size) {
  std::vector<float> values(size_t(Tensor(nullptr, dtype, dims).elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = size * normal_number(key, i);
  return put(dtype, dims, values);
}

Tensor Rig::uniform(DType dtype, Dims dims, uint64_t key, float from, float to) {
  std::vector<float> values(size_t(Tensor(nullptr, dtype, dims).elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = from + (to - from) * random_unit(key, i);
  return put(dtype, dims, values);
}

Weight Rig::pack(Format format, const RawWeight& raw) {
  const int64_t bytes = ops_.weight_bytes(format, raw.experts, raw.rows, raw.columns);
  Weight weight = {.format = format,
                   .experts = raw.experts,
                   .rows = raw.rows,
                   .columns = raw.columns,
                   .data = hold(DType::u8, {bytes}).data};
  run(ops_.pack, Pack{.to = weight, .from = raw});
  return weight;
}

Weight Rig::weight(Format format, int experts, int rows, int columns, Random random) {
  const int64_t count = int64_t(experts) * rows * columns;
  RawWeight raw = {.experts = experts, .rows = rows, .columns = columns};
  std::vector<uint8_t> values, scales;
  if (packable(RawWeight::Kind::bf16, format)) {
    values.resize(size_t(count) * 2);
    for (int64_t i = 0; i < count; ++i) {
      const float number = random.size * normal_number(random.key, uint64_t(i));
      const bf16 value = to_bf16(random.magnitudes ? std::fabs(number) : number);
      std::memcpy(values.data() + i * 2, &value, 2);
    }
  } else {
    raw.kind = RawWeight::Kind::mxfp4;
    values.resize(size_t(count / 2));
    scales.resize(size_t(count / kMxBlock));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = uint8_t(random_bits(random.key, i) & (random.magnitudes ? 0x77 : 0xff));
    // Codes are about 2.5 in size; blocks spread over four binades below that.
    const int top = 126 + int(std::lround(std::log2(random.size)));
    for (size_t i = 0; i < scales.size(); ++i)
      scales[i] = uint8_t(top - int(random_bits(random.key + 1, i) % 4));
  }
  raw.values = values.data();
  raw.scales = scales.data();
  return pack(format, raw);
}

Values Rig::read(const Tensor& tensor) {
  std::vector<char> bytes(size_t(tensor.bytes()));
  stream_.device->download(stream_, bytes.data(), tensor.data, tensor.bytes());
  stream_.device->synchronize(stream_);
  Values values;
  values.dims.assign(tensor.dims.begin(), tensor.dims.begin() + tensor.rank);
  const Tensor host(bytes.data(), tensor.dtype, {tensor.elements()});
  for (int64_t i = 0; i < tensor.elements(); ++i)
    values.at.push_back(tensor.dtype == DType::i32    ? float(host.as<int32_t>()[i])
                        : tensor.dtype == DType::bf16 ? to_f32(host.as<bf16>()[i])
                                                      : host.as<float>()[i]);
  return values;
}

}  // namespace rose::testing
