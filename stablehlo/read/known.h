// What is known of a value of a module before the program runs: that all its elements are one number, or which number it is in each
// iteration of a counted loop. So a `while` that JAX has made of a scan becomes a scan again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/stablehlo/read/mlir.h"

namespace meshwork::mlir {

// A `while` that runs a known number of times.
struct CountedLoop {
  // The number first + step i in iteration i.
  struct Counter {
    int64_t first = 0, step = 0;
  };
  // What a value that it carries is to the loop.
  enum class Role {
    kCarried,
    kInvariant,  // the body returns it as it came
    kCounter,    // a number that grows by the same in each iteration
    kRows,       // invariant, and the body reads only row i of it, in iteration i
    kStacked,    // the body only writes row i of it
  };
  std::vector<Role> roles;
  std::vector<bool> is_backward;  // of kRows and kStacked: row length - 1 - i
  std::vector<Counter> counters;  // of kCounter
  int64_t length = 0;
  bool needs_counter = false;  // not only to find rows
  // While the body is read:
  std::vector<Value> rows;  // per carried value; of kRows, the row of this iteration
  Value counter;            // i64[], the number of this iteration, if it is needed
};

struct Known {
  enum class Kind { kNothing, kSplat, kCount, kCarried, kWritten };
  Kind kind = Kind::kNothing;
  int64_t bits = 0;               // kSplat: as DenseElements has them
  CountedLoop* loop = nullptr;    // of the others
  int64_t scale = 0, offset = 0;  // kCount: scale i + offset in iteration i, counted from 0
  int carry = 0;                  // kCarried: this value of the loop as it came; kWritten: with row i written

  static Known Splat(int64_t bits) { return {.kind = Kind::kSplat, .bits = bits}; }
  bool is_splat() const { return kind == Kind::kSplat; }
  bool is_count() const { return kind == Kind::kCount; }
  bool operator==(const Known&) const = default;
};

// The counter that value i of the loop is.
inline Known CountOf(CountedLoop& loop, size_t i) {
  const CountedLoop::Counter& counter = loop.counters[i];
  return {.kind = Known::Kind::kCount, .loop = &loop, .scale = counter.step, .offset = counter.first};
}

// The result of an op of one result, where what is known of its operands decides it. Numbers that the element type wraps around are
// not decided.
struct Folded {
  std::optional<Known> known;
  std::optional<size_t> operand;  // or it is this operand
};
Folded Fold(const Op& op, std::span<const Known> operands);

// Whether `starts`, of a dynamic_slice or dynamic_update_slice, give row i of a tensor of this shape in iteration i of the loop, and
// `sizes` one whole row; if so, whether it is row length - 1 - i.
std::optional<bool> RowIsBackward(const CountedLoop& loop, const Shape& shape, const Shape& sizes,
                                  std::span<const Known> starts);

}  // namespace meshwork::mlir
