// The normal form of ops that only move elements (slice, pad, concat, reverse, roll, exchange), alone and in
// chains: for each element of the result, which element of which tensor it is.
//
//   x[0:8:2] and x[0:7:2] of f32[8]          positions 0..3 are 0, 2, 4, 6 of x
//   roll of 2 elements by 1, by -1, reverse  positions 0, 1 are 1, 0 of x
//   x[1:7], and pad by low=-1 high=-1        positions 0..5 are 1..6 of x
//   pad by low=1, value -0                   position 0 is -0, which is not 0
//
// Law: equal movements of equal sources give tensors that are equal bit by bit. For single ops the converse
// holds, too: ops that move alike have equal movements. Chains that move alike may have different movements.
//
// Verify compares ops that move elements by this form alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/rule.h"
#include "meshwork/ir/type.h"

namespace meshwork {

// A box of the result: per dim, `count` positions and the positions of the source that fill them.
struct MovedPart {
  int32_t source = 0;  // the caller's number of the source tensor
  absl::InlinedVector<ExchangeRun, 4> runs;

  int64_t num_elements() const;
};

struct Movement {
  // A chain whose result would have more parts has no movement.
  static constexpr size_t kMostParts = 32;

  Type type;                     // of the result
  std::vector<MovedPart> parts;  // disjoint, not empty, in the order of their positions
  // The value of the elements in no part, as the bits of a double; nothing if the parts cover all elements.
  std::optional<uint64_t> fill = std::nullopt;

  // Whether the result is its only source, of type `source`, unchanged.
  bool IsIdentity(const Type& source) const;
  // Law: movements are equal if and only if their keys are.
  std::vector<int64_t> Key() const;
};

// The movement of `exchange`. `sources`: the number of each operand's tensor. REQUIRES: the exchange takes no
// windows; `operands` and `sources` have an entry for each of its operands; the operands' places in the
// result are disjoint.
Movement MovementOf(const Exchange& exchange, std::span<const Type> operands,
                    std::span<const int32_t> sources, const Type& result);

// `outer` with each source replaced by the sources that it is moved from. `inner`: the movement of a source,
// or nullptr. `outer` itself if the two fill with different values, or if more than kMostParts parts are
// needed.
Movement Composed(const Movement& outer, const std::function<const Movement*(int32_t source)>& inner);

// Whether the op moves elements without looking at them, so that every reduction may wait. If it reduces a
// letter nevertheless, as a gather from a sharded dim does, it picks: one device has the element, the others
// have values that add nothing to it, and the sum is exact in any dtype.
bool OnlyMoves(const Rule& rule);

}  // namespace meshwork
