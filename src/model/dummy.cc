#include "model/dummy.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"
#include "tensor/bf16.h"
#include "tensor/mxfp4.h"

namespace rose {

namespace {

constexpr int kQuantiles = 1 << 16;
constexpr int64_t kGrain =
    1 << 14;  // values of a thread's least piece; keeps pieces on whole words

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

// into[i] = value `first + i` of the stream: four to a random word. `first` is a multiple of 4.
void draw_normal(uint64_t key, int64_t first, const std::vector<bf16>& table,
                 std::span<bf16> into) {
  const size_t whole = into.size() / 4 * 4;
  const uint64_t word = uint64_t(first) / 4;
  for (size_t i = 0; i < whole; i += 4) {
    const uint64_t bits = random_bits(key, word + i / 4);
    into[i] = table[bits & 0xffff];
    into[i + 1] = table[bits >> 16 & 0xffff];
    into[i + 2] = table[bits >> 32 & 0xffff];
    into[i + 3] = table[bits >> 48];
  }
  for (size_t i = whole; i < into.size(); ++i)
    into[i] = table[random_bits(key, word + i / 4) >> (i % 4 * 16) & 0xffff];
}

void fill_normal(uint64_t key, int64_t first, float mean, float deviation, std::span<bf16> into,
                 ThreadPool& threads) {
  ROSE_CHECK(first % 4 == 0, "dummy weights: drawing from value %ld on", long(first));
  std::vector<bf16> table;  // 128 KiB: stays in the second-level cache
  for (const float quantile : normal_quantiles())
    table.push_back(to_bf16(mean + deviation * quantile));
  threads.parallel_for(int64_t(into.size()), kGrain, [&](int64_t begin, int64_t end) {
    draw_normal(key, first + begin, table, into.subspan(size_t(begin), size_t(end - begin)));
  });
}

// Codes of all kinds equally often, eight bytes a random word.
void fill_codes(uint64_t key, std::span<uint8_t> into, ThreadPool& threads) {
  threads.parallel_for(int64_t(into.size()), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 8) {
      const uint64_t bits = random_bits(key, uint64_t(i) / 8);
      std::memcpy(&into[size_t(i)], &bits, size_t(std::min(end - i, int64_t(8))));
    }
  });
}

// Scale bytes one below, at (twice as often) and one above `middle`, 32 a random word.
void fill_scales(uint64_t key, uint8_t middle, std::span<uint8_t> into, ThreadPool& threads) {
  threads.parallel_for(int64_t(into.size()), kGrain, [&](int64_t begin, int64_t end) {
    uint64_t bits = 0;
    for (int64_t i = begin; i < end; ++i) {
      bits = i % 32 == 0 ? random_bits(key, uint64_t(i) / 32) : bits >> 2;
      into[size_t(i)] = uint8_t(middle + "\0\1\1\2"[bits & 3] - 1);
    }
  });
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

DummyWeights::DummyWeights(std::span<const WeightRow> rows, uint64_t seed) {
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

RawWeight DummyWeights::matrix(size_t row, int expert, ThreadPool& threads) {
  const Row& r = rows_[row];
  const uint64_t key = random_bits(r.key, uint64_t(expert));
  const size_t bytes = size_t(this->bytes(row) / r.experts);
  if (raw_.size() != bytes) raw_ = std::vector<uint8_t>(bytes);  // a smaller one gives memory back

  RawWeight raw{
      .kind = r.kind, .rows = int(r.rows), .columns = int(r.columns), .values = raw_.data()};
  if (r.kind == RawWeight::Kind::mxfp4) {
    const std::span<uint8_t> all = raw_;
    const size_t codes = size_t(r.rows * r.columns / 2);
    fill_codes(random_bits(key, 0), all.first(codes), threads);
    fill_scales(random_bits(key, 1), middle_scale(r.columns), all.subspan(codes), threads);
    raw.scales = raw_.data() + codes;
  } else {
    fill_normal(key, 0, r.mean, r.deviation,
                {reinterpret_cast<bf16*>(raw_.data()), size_t(r.rows * r.columns)}, threads);
  }
  return raw;
}

void DummyWeights::values(size_t row, int64_t first, std::span<bf16> into,
                          ThreadPool& threads) const {
  const Row& r = rows_[row];
  fill_normal(r.key, first, r.mean, r.deviation, into, threads);
}

}  // namespace rose
