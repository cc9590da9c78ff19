// Tensors of the contract test: every dtype's elements as doubles, which hold them exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "layout/layout.h"
#include "ops/kernel.h"
#include "ops/type.h"
#include "support/sample.h"

namespace meshwork {

struct HostTensor {
  Type type;
  std::vector<double> values;
};

// ---- Bytes.

inline std::vector<std::byte> ToBytes(const HostTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.type.bytes()));
  Dispatch(tensor.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(tensor.values.begin(), tensor.values.end(), reinterpret_cast<T*>(bytes.data()),
                   [](double x) { return static_cast<T>(x); });
  });
  return bytes;
}

inline HostTensor FromBytes(const Type& type, const void* bytes) {
  HostTensor tensor{type, std::vector<double>(static_cast<size_t>(type.num_elements()))};
  Dispatch(type.dtype, [&](auto zero) {
    const auto* from = static_cast<const decltype(zero)*>(bytes);
    std::copy(from, from + tensor.values.size(), tensor.values.begin());
  });
  return tensor;
}

// ---- Blocks.

inline Shape ShapeOf(const Block& block) {
  Shape shape;
  for (const Extent& extent : block) shape.push_back(extent.size);
  return shape;
}

// Calls f(index into a dense tensor of `whole`, index into a dense one of the block's shape).
template <typename F>
void ForEachIn(const Shape& whole, const Block& block, F&& f) {
  const int64_t count = NumElements(ShapeOf(block));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t d = whole.size(); d-- > 0;) {
      at += (block[d].start + rest % block[d].size) * stride;
      rest /= block[d].size;
      stride *= whole[d];
    }
    f(static_cast<size_t>(at), static_cast<size_t>(i));
  }
}

inline HostTensor PartOf(const HostTensor& whole, const Block& block) {
  HostTensor part{{whole.type.dtype, ShapeOf(block)}, {}};
  part.values.resize(static_cast<size_t>(part.type.num_elements()));
  ForEachIn(whole.type.shape, block, [&](size_t at, size_t i) { part.values[i] = whole.values[at]; });
  return part;
}

// ---- Random data, the same on every machine.

// Three kinds of draws, by the seed. Where many elements are folded into one, values of few levels fold to
// the same everywhere, and so do coins: the second kind has many levels, the last two nearly equal coins.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed), kind_(seed % 3) {}

  // Values of few levels, so that ties occur, never zero; sums are exact or nearly so.
  HostTensor Draw(const Type& type, const OpRow& row) {
    HostTensor tensor{type, std::vector<double>(static_cast<size_t>(type.num_elements()))};
    if (type.dtype == BOOL) {
      DrawCoins(tensor.values);
    } else if (IsInteger(type.dtype)) {
      for (double& x : tensor.values)
        x = static_cast<double>(row.sample_int_low) +
            static_cast<double>(Below(static_cast<uint64_t>(row.sample_int_high - row.sample_int_low)));
    } else {
      const uint64_t levels = kind_ == 2 && type.dtype != BF16 ? 1024 : 16;
      for (double& x : tensor.values)
        x = row.sample_low + (row.sample_high - row.sample_low) * (static_cast<double>(Below(levels)) + 0.5) /
                                 static_cast<double>(levels);
    }
    return tensor;
  }

  // A whole number from 0 to n - 1.
  uint64_t Below(uint64_t n) { return engine_() % n; }

 private:
  // Fair ones, or all true (false) but for two.
  void DrawCoins(std::vector<double>& coins) {
    for (double& x : coins) x = kind_ == 1 ? static_cast<double>(Below(2)) : static_cast<double>(kind_ == 2);
    for (int i = 0; i < 2 && kind_ != 1 && !coins.empty(); ++i)
      coins[Below(coins.size())] = static_cast<double>(kind_ != 2);
  }

  std::mt19937_64 engine_;
  uint64_t kind_;
};

// ---- Running a kernel.

inline Block WholeBlock(const Shape& shape) {
  Block block;
  for (int64_t size : shape) block.push_back({0, size});
  return block;
}

// What one device gets: its operands, where they and the results lie, and the wholes.
struct KernelCall {
  const Sample* sample;
  Attrs attrs;  // with the local result shape
  std::vector<HostTensor> in;
  std::vector<Block> in_blocks;
  std::vector<Type> out;
  std::vector<Block> out_blocks;
};

inline KernelCall WholeCall(const Sample& sample, const std::vector<HostTensor>& in) {
  KernelCall call{.sample = &sample, .attrs = sample.attrs, .in = in, .out = sample.results};
  for (const Type& type : sample.operands) call.in_blocks.push_back(WholeBlock(type.shape));
  for (const Type& type : sample.results) call.out_blocks.push_back(WholeBlock(type.shape));
  return call;
}

// Runs the row's kernel, its work cut into `cuts` parts, on results that are full of `fill` bytes.
// Dies if it writes beyond them.
inline std::vector<HostTensor> RunKernel(const KernelCall& call, int64_t cuts = 1, std::byte fill = {}) {
  constexpr size_t kGuard = 64;
  KernelSpec spec{.attrs = call.attrs};
  std::vector<std::vector<std::byte>> in, out;
  std::vector<const void*> in_data;
  std::vector<void*> out_data;
  for (size_t i = 0; i < call.in.size(); ++i) {
    spec.operands.push_back({call.in[i].type, call.sample->operands[i]});
    in.push_back(ToBytes(call.in[i]));
    in_data.push_back(in.back().data());
  }
  for (size_t i = 0; i < call.out.size(); ++i) {
    spec.results.push_back({call.out[i], call.sample->results[i]});
    out.emplace_back(static_cast<size_t>(call.out[i].bytes()) + kGuard, fill);
    out_data.push_back(out.back().data());
  }
  const Kernel kernel = call.sample->row->cpu(spec);
  // The c-th of `cuts` places, or the one before it where the kernel may be cut.
  const auto place = [&](int64_t c) {
    const int64_t unit = kernel.units * c / cuts;
    if (kernel.bounds.empty()) return unit;
    return *(std::upper_bound(kernel.bounds.begin(), kernel.bounds.end(), unit) - 1);
  };
  for (int64_t c = 0; c < cuts; ++c) {
    if (place(c) == place(c + 1)) continue;
    kernel.run({.in = in_data,
                .out = out_data,
                .in_blocks = call.in_blocks,
                .out_blocks = call.out_blocks,
                .begin = place(c),
                .end = place(c + 1)});
  }
  std::vector<HostTensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto end = out[i].end() - kGuard;
    MESHWORK_CHECK(std::all_of(end, out[i].end(), [&](std::byte b) { return b == fill; }),
                   "{} writes beyond result {}", call.sample->ToString(), i);
    results.push_back(FromBytes(call.out[i], out[i].data()));
  }
  return results;
}

// ---- Comparing.

// Whether all elements agree up to the rounding of sums of some dozen terms; NaN agrees with nothing.
inline bool Agree(const DType dtype, std::span<const double> a, std::span<const double> b) {
  const double tolerance = dtype == F32 ? 1e-5 : dtype == F64 ? 1e-13 : dtype == BF16 ? 0.02 : 0;
  double scale = 1;
  for (double x : b) scale = std::max(scale, std::abs(x));
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * scale)) return false;
  return a.size() == b.size();
}

}  // namespace meshwork
