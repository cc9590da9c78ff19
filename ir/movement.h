// The normal form of what ops do that only move elements (slice, pad, concat, reverse, roll, exchange), alone
// and in chains: which element of which tensor each element of the result is.
//
//   x[0:8:2] and x[0:7:2] of f32[8]          positions 0..3 are 0, 2, 4, 6 of x
//   roll of 2 elements by 1, by -1, reverse  positions 0, 1 are 1, 0 of x
//   x[1:7], and pad by low=-1 high=-1        positions 0..5 are 1..6 of x
//   pad by low=1, value -0                   position 0 is -0, which is not 0
//
// Law: tensors of equal movements of equal sources are equal bit by bit. Of single ops the converse holds,
// too: ops that move alike have equal movements. Chains may be written in ways that are not told to be equal.
//
// Verify tells ops that move elements apart by this form alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/type.h"

namespace meshwork {

// A box of the result: per dim, `count` positions and those of the source that they are filled from.
struct MovedPart {
  int32_t source = 0;  // of the tensors that the caller counts
  absl::InlinedVector<ExchangeRun, 4> runs;

  int64_t num_elements() const;
};

struct Movement {
  // Chains of which the result would be put together of more parts are no movement.
  static constexpr size_t kMostParts = 32;

  Type type;                     // of the result
  std::vector<MovedPart> parts;  // disjoint, not empty, in the order of their positions
  // What stands where no part is; nothing if they cover all. Bits of a double.
  std::optional<uint64_t> fill = std::nullopt;

  // Whether it is its only source, `type`, as it is.
  bool IsIdentity(const Type& source) const;
  // Law: movements are equal if and only if their keys are.
  std::vector<int64_t> Key() const;
};

// What `exchange` makes of these operands, which `sources` count. REQUIRES: it takes no windows; there is an
// operand and a source for each of its operands; their places are disjoint.
Movement MovementOf(const Exchange& exchange, std::span<const Type> operands,
                    std::span<const int32_t> sources, const Type& result);

// `outer` with sources replaced by what they are moved of; `inner`: the movement of a source, or nullptr.
// `outer` itself where the two fill with other values, or where that takes more than kMostParts.
Movement Composed(const Movement& outer, const std::function<const Movement*(int32_t source)>& inner);

}  // namespace meshwork
