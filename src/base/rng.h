// Counter-based random numbers: value i of a key needs no state and is the same on every backend.
#pragma once
#include <cstdint>

namespace rose {

// splitmix64's output function: a bijection that scatters the bits (Steele, Lea, Flood 2014).
constexpr uint64_t scatter(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// The 64 random bits with this key at this place of its stream: splitmix64 seeded with the scattered
// key, so that neighbouring keys have unrelated streams.
constexpr uint64_t random_bits(uint64_t key, uint64_t counter) {
  return scatter(scatter(key) + (counter + 1) * 0x9E3779B97F4A7C15ull);
}

// Uniform in [0, 1), all 24 bits of a float's fraction used.
constexpr float random_unit(uint64_t key, uint64_t counter) {
  return float(random_bits(key, counter) >> 40) * 0x1p-24f;
}

}  // namespace rose
