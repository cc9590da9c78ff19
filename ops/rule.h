// A sharding rule names the dims of an op's operands and results by letters: "mk,kn->mn".
//
// Dims that carry the same letter are sharded alike. A letter that no result has is reduced: if it
// is sharded, the result is partial over those axes. Marks say which letters must stay whole, and
// `linear` how a partial operand may pass through the op without being reduced first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "layout/layout.h"
#include "ops/type.h"

namespace meshwork {

// How an op passes partial sums on.
enum class Linearity {
  kNone,         // every operand must be whole: exp, a bias added once
  kAll,          // all operands are partial alike: add, concat, and every linear op of one operand
  kOne,          // exactly one operand is partial: mul, matmul by a whole value
  kFirst,        // only the first operand may be partial: div by a whole value
  kAllButFirst,  // the first operand is whole, all others are partial alike: select
};

struct Letter {
  char name;
  int64_t size = 0;
  bool whole = false;        // never sharded
  bool must_divide = false;  // sharded only by axes whose product divides `size` (reshapes)
  bool reduced = false;      // absent from every result
};

inline constexpr int8_t kNoLetter = -1;  // a dim of size 1 that broadcasts: never sharded
using LetterList = absl::InlinedVector<int8_t, 4>;

struct Rule {
  std::vector<Letter> letters;
  std::vector<LetterList> operands;  // per operand, per dim: index into letters, or kNoLetter
  std::vector<LetterList> results;
  Linearity linear = Linearity::kNone;
  ReduceOp reduce = ReduceOp::kSum;  // what reduced letters are combined by

  std::string ToString() const;  // "mk,kn->mn"; whole letters are followed by '!', kNoLetter is '1'
};

// Builds a rule from "mk,kn->mn" and the types it is applied to; '!' after a letter's first use
// marks it whole. Errors: none a user can cause; CHECKs that ranks and sizes agree.
Rule MakeRule(std::string_view text, const std::vector<Type>& operands, const std::vector<Type>& results,
              Linearity linear = Linearity::kNone, ReduceOp reduce = ReduceOp::kSum);

}  // namespace meshwork
