// Random: a seeded stream of numbers, the same on every platform and with every standard library.
//
//   Random random(/*seed=*/7, /*stream=*/3);
//   random.Below(6) + 1      // a die
//   random.Uniform(-1, 1)
//
// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
// section 5), started at a point that depends on the seed and the stream. For shuffling and synthetic data;
// not for secrets. Not thread-safe: each thread needs an object of its own.
//
// SetSeed is one seed for everything:
//
//   SetSeed(42);                                   // first of all, in all processes alike
//   Dropout(g, "dropout", 0.1);                    // draws by it
//   Session::Create(g);                            // initial values, too
//   data.Shuffle(1000);                            // and the order of examples
#pragma once

#include <atomic>
#include <cstdint>

namespace meshwork {

namespace internal {
inline std::atomic<int64_t> default_seed = 0;
}  // namespace internal

// Sets the seed of objects that are described later without a seed: SessionOptions, DropoutOptions,
// Pipeline::Shuffle. Objects that have been described keep their seeds. Thread-safe.
inline void SetSeed(int64_t seed) { internal::default_seed = seed; }
// The seed given to SetSeed; 0 if none was. For functions that take a seed: RandomUniform(g, type, DefaultSeed(), …).
inline int64_t DefaultSeed() { return internal::default_seed; }

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : state_(Mix(seed + kStep) ^ Mix(stream + 2 * kStep)) {}

  uint64_t Next() { return Mix(state_ += kStep); }

  // 0 to n - 1, all equally likely. REQUIRES: n >= 1.
  uint64_t Below(uint64_t n) {
    const uint64_t unbiased = UINT64_MAX - UINT64_MAX % n;  // a multiple of n
    uint64_t x;
    do x = Next();
    while (x >= unbiased);
    return x % n;
  }

  // In [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace meshwork
