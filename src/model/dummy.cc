#include "model/dummy.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/generate/generate.h"
#include "tensor/bf16.h"
#include "tensor/mxfp4.h"

namespace rose {

namespace {

constexpr int kQuantiles = Generate::kTable;

// The quantiles of the normal distribution in the middle of each of 65536 equal shares: drawing one
// of them with 16 random bits is drawing from it.
const std::vector<float>& normal_quantiles() {
  static const std::vector<float> kTable = [] {
    std::vector<float> table(kQuantiles);
    double x = 0;  // Newton from below, on the concave half: it converges from any earlier quantile
    for (int i = kQuantiles / 2; i < kQuantiles; ++i) {
      const double share = (i + 0.5) / kQuantiles;
      for (double step = 1; std::abs(step) > 1e-7;) {
        const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
        step = (share - 0.5 * std::erfc(-x / std::sqrt(2))) / density;
        x += step;
      }
      table[size_t(i)] = float(x);
      table[size_t(kQuantiles - 1 - i)] = float(-x);
    }
    return table;
  }();
  return kTable;
}

std::vector<bf16> table_of(float mean, float deviation) {
  std::vector<bf16> table;  // 128 KiB: stays in the second-level cache
  for (const float quantile : normal_quantiles())
    table.push_back(to_bf16(mean + deviation * quantile));
  return table;
}

// The scale byte with which random codes have deviation 1 / sqrt(columns): the codes' own mean square
// is 68.5 / 8, that of the scales' spread (0.25 + 1 + 1 + 4) / 4.
uint8_t middle_scale(int64_t columns) {
  const double spread = std::sqrt(68.5 / 8 * 6.25 / 4);
  return uint8_t(std::lround(127 - std::log2(spread * std::sqrt(double(columns)))));
}

uint64_t hash(std::string_view name) {  // FNV-1a
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}

// How vectors and tables differ from matrices, whose deviation 1 / sqrt(columns) keeps the size of
// what goes through them.
struct Statistics {
  std::string_view ending;  // of the name
  float mean;
  float deviation;
};
constexpr Statistics kPlainStatistics[] = {
    {"norm.scale", 1.f, 0.1f},
    {"sinks", 0.f, 1.f},
    {"bias", 0.f, 0.02f},
    {"embedding.weight", 0.f, 1.f},  // tokens differ as much as layers later change them
};

}  // namespace

DummyWeights::DummyWeights(std::span<const WeightRow> rows, uint64_t seed, const Ops& ops,
                           Stream& stream)
    : ops_(&ops), stream_(&stream) {
  for (const WeightRow& row : rows) {
    const auto* packed = std::get_if<PackedWeight>(&row.into);
    const size_t rank = row.shape.size();
    Row r = {.kind = packed && packed->role == Role::expert ? RawWeight::Kind::mxfp4
                                                            : RawWeight::Kind::bf16,
             .experts = rank < 3 ? 1 : row.shape[0],
             .rows = rank < 2 ? 1 : row.shape[rank - 2],
             .columns = row.shape[rank - 1],
             .key = random_bits(seed, hash(row.name)),
             .mean = 0,
             .deviation = 1 / std::sqrt(float(row.shape[rank - 1]))};
    for (const Statistics& plain : kPlainStatistics)
      if (!packed && row.name.ends_with(plain.ending)) {
        r.mean = plain.mean;
        r.deviation = plain.deviation;
      }
    rows_.push_back(r);
  }
}

int64_t DummyWeights::bytes(size_t row) const {
  const Row& r = rows_[row];
  const int64_t values = r.experts * r.rows * r.columns;
  return r.kind == RawWeight::Kind::mxfp4 ? values / 2 + values / kMxBlock : values * 2;
}

Status DummyWeights::put_table(const Row& row) {
  if (mean_ == row.mean && deviation_ == row.deviation) return Done{};
  const std::vector<bf16> table = table_of(row.mean, row.deviation);
  const int64_t bytes = int64_t(table.size() * sizeof(bf16));
  if (table_.bytes() == 0) table_ = TRY(Buffer::allocate(*ops_->device, bytes));
  ops_->device->upload(*stream_, table_.data(), table.data(), bytes);
  ops_->device->synchronize(*stream_);
  mean_ = row.mean;
  deviation_ = row.deviation;
  return Done{};
}

Result<RawWeight> DummyWeights::matrix(size_t row, int expert) {
  const Row& r = rows_[row];
  const uint64_t key = random_bits(r.key, uint64_t(expert));
  const int64_t bytes = this->bytes(row) / r.experts;
  if (raw_.bytes() != bytes) {  // a smaller one gives memory back
    ops_->device->synchronize(*stream_);
    raw_ = Buffer();
    raw_ = TRY(Buffer::allocate(*ops_->device, bytes));
  }
  auto* const raw = static_cast<uint8_t*>(raw_.data());
  RawWeight matrix{.kind = r.kind,
                   .rows = int(r.rows),
                   .columns = int(r.columns),
                   .values = raw,
                   .on_device = true};
  if (r.kind == RawWeight::Kind::mxfp4) {
    const int64_t codes = r.rows * r.columns / 2;
    ops_->generate(*stream_, {.to = raw, .count = codes, .key = random_bits(key, 0)});
    ops_->generate(*stream_, {.kind = Generate::Kind::scales,
                              .to = raw + codes,
                              .count = bytes - codes,
                              .key = random_bits(key, 1),
                              .middle = middle_scale(r.columns)});
    matrix.scales = raw + codes;
  } else {
    TRY(put_table(r));
    ops_->generate(*stream_, {.kind = Generate::Kind::values,
                              .to = raw,
                              .count = r.rows * r.columns,
                              .key = key,
                              .table = static_cast<const bf16*>(table_.data())});
  }
  return matrix;
}

void DummyWeights::values(size_t row, int64_t first, std::span<bf16> into,
                          ThreadPool& threads) const {
  const Row& r = rows_[row];
  const std::vector<bf16> table = table_of(r.mean, r.deviation);
  Stream host{.device = &host_device(), .threads = &threads, .scratch = nullptr};
  reference_ops().generate(host, {.kind = Generate::Kind::values,
                                  .to = into.data(),
                                  .count = int64_t(into.size()),
                                  .key = r.key,
                                  .first = first,
                                  .table = table.data()});
}

}  // namespace rose
