// Verify proves that a local program computes the global one, in real arithmetic, on every device.
//
//   absl::StatusOr<Proof> proof = Verify(global, program.body);
//
// It goes through the local program once and says of each value which value of the global program it is a
// block of: value v, laid out as ℓ, with padding along these dims known to be the identity of a reduction. A
// claim follows from those of the operands by a lemma:
//
//   argument    an input or variable lies as the program says; pinned dims lie as they are pinned
//   rule        an op of the global program, run on blocks: its operands are blocks of that op's, dims of one
//               letter are cut alike, a letter that is reduced leaves the reduction owed over its axes, and
//               everything that it reduces over padding is masked by the identity of the reduction
//   sum         add, sub and neg of blocks that the global program does not add so: the result is a block of
//               the sum of theirs, and of whatever the global program has that adds up the same terms with
//               the same signs (verify/terms.h); how the op runs on them is checked by its rule, as above
//   collective  the blocks of the result are put together from, or reduced over, those that a group holds
//   slice       a device cuts its block out of one that it holds
//   mask        padding becomes the identity
//   rounding    what is bf16 in the global program may be carried in f32 while reductions of it are owed: an
//   op
//               on such parts is the op on bf16, not rounded. It is rounded when nothing is owed any more
//   reshape     the elements that a device holds, in their order, are those of the result
//   exchange    which element of which tensor each element is (ir/movement.h) is so of a value of the global
//               program, too, whichever ops move it there and however their attributes are written; or it is
//               the windows of a tensor that the op behind it reads
//   body        a loop or a branch of the global program, on the same values: each of its bodies is proven to
//               compute what the body there does, its arguments lying as the operands, carries alike before
//               and after an iteration, predicates whole and so the same on all devices. Of loops whose
//               bodies give the same (verify/terms.h) one proves all. What iterations return may be owed:
//               stacked, or added up where it is a sum. Of a manual region (control/manual.h) that its
//               operands and results lie as it says and that its body is, step by step, what was written:
//               what that computes is its writer's to know
//
// In the end every output and every new value of a variable must be claimed to be that of the global program,
// owing nothing. So a collective that is missing, doubled, over other axes or of another operation is found,
// as is a value that is read where another is meant.
//
// Per op it trusts what its row states (the rule, which partial operands pass, how attributes follow sizes),
// which the contract test tries on every placement; per layout the laws of Layout, which tests loop over.
// Attributes are equal if their bits are: 0 is not -0, and of NaNs there is one (Graph::CompleteAttrs).
// Nothing here is shared with the passes but how manual regions and blockwise forms are spelled. Time is
// linear in the two programs, as long as few loops have the same operands, and does not depend on the number
// of devices.
//
// Abstract interpretation in the sense of Cousot and Cousot (POPL 1977); terms are told apart by congruence
// closure without merging, as value numbering does.
#pragma once

#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

enum class Lemma : uint8_t {
  kArgument,
  kRule,
  kSum,
  kCollective,
  kSlice,
  kMask,
  kReshape,
  kExchange,
  kBody,
  kRounding
};
inline constexpr Lemma kAllLemmas[] = {Lemma::kArgument, Lemma::kRule,    Lemma::kSum,     Lemma::kCollective,
                                       Lemma::kSlice,    Lemma::kMask,    Lemma::kReshape, Lemma::kExchange,
                                       Lemma::kBody,     Lemma::kRounding};
std::string_view LemmaName(Lemma lemma);  // "argument", …

struct SignedValue {
  ValueId value = kNoValue;  // of the global program
  bool is_negative = false;
};
using SignedValueList = absl::InlinedVector<SignedValue, 1>;

// What is proven of one value of the local program; how it lies is in the program.
struct Claim {
  // It is a block of this value of the global program, up to its shape, or of this sum of such values.
  SignedValueList of;
  Lemma lemma = Lemma::kArgument;
};

struct Proof {
  std::vector<Claim> claims;  // per value of the local program
};

// Errors: the local program does not compute the global one, or not in a way that the lemmas show; the
// message names the node, what is there and what would have to be. `global` is read on the mesh of `local`,
// where that is its own, cut further. REQUIRES: both programs are well-formed, `global` without recorded
// mistakes.
absl::StatusOr<Proof> Verify(const Graph& global, const Graph& local);

}  // namespace meshwork
