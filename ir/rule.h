// A sharding rule names the dims of an op's operands and results by letters: "mk,kn->mn".
//
// Dims that carry the same letter are sharded alike. A letter that no result has is reduced: if it
// is sharded, the result is partial over those axes. Marks say which letters must stay whole, and
// `passes` how partial operands may pass through the op without being reduced first.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// Which operands are partial when an op passes partial values on; the others are whole.
enum class Which {
  kAll,          // all alike: sums through add and concat, anything through an op of one operand
  kOne,          // exactly one: sums through mul, and through matmul by a whole value
  kFirst,        // the first: sums through div by a whole value
  kAllButFirst,  // all but the first, alike: through select
  kOneButFirst,  // exactly one, not the first: a maximum through one branch of select
  kAny,          // one or more: maxima through concat, because a whole value is its own maximum
};

// An op on operands that owe `in` gives a result that owes `out`: op(reduce_in(a_i)) = reduce_out(op(a_i)).
struct PartialPass {
  Which operands;
  ReduceOp in = ReduceOp::kSum;
  ReduceOp out = in;

  bool operator==(const PartialPass&) const = default;
};
using Passes = absl::InlinedVector<PartialPass, 4>;

// The op moves elements without looking at them, so that every reduction may wait.
Passes MovesElements(Which operands = Which::kAll);
// The op is linear over the reals and keeps no order: sums pass.
inline Passes Linear(Which operands) { return {{operands}}; }
// A function of one operand that grows (falls) with it, for every real number: maxima and minima pass.
Passes Increasing();
Passes Decreasing();
// a, then b's.
Passes operator+(Passes a, const Passes& b);

// The name of dims that are sharded alike.
struct Letter {
  char name;
  int64_t size = 0;
  bool whole = false;        // never sharded
  bool carried = false;      // never sharded either, but the op has a form for its blocks (OpRow::blockwise)
  bool must_divide = false;  // sharded only by axes whose product divides `size` (reshapes)
  bool reduced = false;      // absent from every result
  bool windowed = false;     // an operand has windows along it: never strided, cut block by block
};

inline constexpr int kNoLetter = -1;  // a dim that is cut, or broadcasts: never sharded
using LetterList = absl::InlinedVector<int, 4>;

// The positions of an operand's dim that positions of a letter need. Position i needs `extent` positions from
// i * stride + offset on, in units of 1 / spacing of the operand's positions. So positions [s, s + m) of the
// letter need those from ceil((s * stride + offset) / spacing) to
// floor(((s + m - 1) * stride + offset + extent - 1) / spacing). Positions beyond the ends have the value
// `fill`.
//
//   convolution, stride 2, padding 1, 3 wide    {2, -1, 3}
//   its gradient by the operand                 {1, 1 - 2, 3, 2}  of the result's gradient
//
// A device that computes a block of the letter gets its neighbours' edges (its halo) before it runs the op.
struct Window {
  int64_t stride = 1;
  int64_t offset = 0;
  int64_t extent = 1;
  int64_t spacing = 1;
  double fill = 0;

  bool operator==(const Window&) const = default;
};

// Dim `dim` of operand `operand` is seen through windows along its letter, whose size may differ from the
// dim's.
struct WindowedDim {
  int operand, dim;
  Window window;
  bool is_own = false;  // for OpRow::on_windows: each device's own block holds all windows that it needs

  bool operator==(const WindowedDim&) const = default;
};

// How an op may be sharded.
struct Rule {
  std::vector<Letter> letters;
  std::vector<LetterList> operands;  // per operand, per dim: index into letters, or kNoLetter
  std::vector<LetterList> results;
  Passes passes;
  ReduceOp reduce = ReduceOp::kSum;  // what reduced letters are combined by
  std::vector<WindowedDim> windows;

  // States that dim `dim` of operand `operand`, a '1' in the text, is seen through windows along `letter`,
  // which is a letter of another tensor.
  void AddWindow(int operand, int dim, char letter, const Window& window);
  // The windows of an operand's dim, or nullptr.
  const Window* FindWindow(size_t operand, size_t dim) const;

  // What the result owes if the operands owe `operands`; nothing if the op cannot run on such operands. An
  // empty set is a whole operand. `sharded`: the axes of the op's letters, over which nothing may be owed.
  std::optional<PartialSet> PassOn(std::span<const PartialSet> operands, AxisSet sharded) const;

  std::string ToString() const;  // "mk,kn->mn"; whole letters are followed by '!', carried ones by '^',
                                 // windowed dims by '~', kNoLetter is '1'
};

// Builds a rule from "mk,kn->mn" and the types it is applied to; '!' after a letter's first use
// marks it whole, '^' whole and carried. Errors: none a user can cause; CHECKs that ranks and sizes agree.
Rule MakeRule(std::string_view text, const std::vector<Type>& operands, const std::vector<Type>& results,
              Passes passes = {}, ReduceOp reduce = ReduceOp::kSum);

}  // namespace meshwork
