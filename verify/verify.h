// Verify proves that a local program computes the global one, in real arithmetic, on every device.
//
//   absl::StatusOr<Proof> proof = Verify(global, program.body);
//
// It goes through the local program once and claims for each value that it is a block of some value of the
// global program: value v, laid out as ℓ, with padding along these dims known to be the identity of a
// reduction. A claim follows from the claims of the operands by a lemma:
//
//   argument    an input or variable lies as the program says; pinned dims lie as they are pinned
//   rule        an op of the global program, run on blocks: its operands are blocks of that op's operands,
//               dims of one letter are cut alike, a reduced letter leaves the reduction owed over its axes,
//               and any padding that the op reduces over is masked by the identity of the reduction
//   sum         add, sub and neg of blocks, where the global program does not add in this way: the result is
//               a block of the sum of the operands' values, and of any value of the global program that adds
//               up the same terms with the same signs (verify/terms.h); the op is checked by its rule, as
//               above
//   collective  the blocks of the result are put together from, or reduced over, the blocks of a group
//   slice       a device cuts its block out of a block that it holds
//   mask        padding becomes the identity
//   rounding    a value that is bf16 in the global program may be carried in f32 while it is partial: an op
//               on such terms is the op on bf16 without the rounding. It is rounded when nothing is owed any
//               more, and not before (VerifyOptions::narrow_sums)
//   reshape     each device holds the elements of the result, in the same order
//   empty       a tensor without elements is a block of any other of its type
//   exchange    a value of the global program has the same movement (ir/movement.h), whichever ops move it
//               and however their attributes are written; or the result holds the windows of a tensor that
//               the following op reads
//   body        a loop or a branch of the global program, on the same values: each of its bodies is proven to
//               compute the same as the global program's. Arguments have the layouts of the operands, a carry
//               has the same layout before and after an iteration, and predicates are whole, so that they are
//               the same on all devices. If bodies of several loops give the same (verify/terms.h), one proof
//               holds for all. Outputs of iterations may be partial: stacked, or, if they are sums, added up.
//               For a manual region (ops/control/manual.h) it is proven that its operands and results have the
//               layouts that it states, and that its body is, step by step, the one that the user wrote; what
//               that body computes is not checked
//
// In the end every output and every new value of a variable must be claimed to be that of the global program,
// owing nothing. So a collective that is missing, doubled, over other axes or of another operation is found,
// and so is a value that is read in place of another.
//
// For each op, Verify trusts its row (the rule, which partial operands pass, how attributes follow sizes);
// the contract test tries rows on every placement. For layouts it trusts the laws of Layout, which tests loop
// over. Attributes are equal if their bits are equal: 0 is not -0, and there is only one NaN
// (Graph::CompleteAttrs). Verify shares nothing with the passes except how manual regions and blockwise forms
// are spelled. It takes time linear in the two programs, as long as few loops have the same operands; the
// time does not depend on the number of devices.
//
// Abstract interpretation in the sense of Cousot and Cousot (POPL 1977); terms are compared by congruence
// closure without merging, as in value numbering.
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
  kRounding,
  kEmpty
};
inline constexpr Lemma kAllLemmas[] = {
    Lemma::kArgument, Lemma::kRule,     Lemma::kSum,  Lemma::kCollective, Lemma::kSlice, Lemma::kMask,
    Lemma::kReshape,  Lemma::kExchange, Lemma::kBody, Lemma::kRounding,   Lemma::kEmpty};
std::string_view LemmaName(Lemma lemma);  // "argument", …

struct SignedValue {
  ValueId value = kNoValue;  // of the global program
  bool is_negative = false;
};
using SignedValueList = absl::InlinedVector<SignedValue, 1>;

// What is proven about one value of the local program; its layout is in the program.
struct Claim {
  // The value of the global program of which this is a block, up to its shape; or a sum of such values.
  SignedValueList of;
  Lemma lemma = Lemma::kArgument;
};

struct VerifyOptions {
  // Terms of bf16 sums may be bf16 themselves (CompileOptions::narrow_sums). Otherwise such a term is f32, unless it is
  // picked.
  bool narrow_sums = false;

  bool operator==(const VerifyOptions&) const = default;
};

struct Proof {
  std::vector<Claim> claims;   // per value of the local program
  VerifyOptions options = {};  // by which they hold
};

// Errors: the local program does not compute the global one, or not in a way that the lemmas show; the
// message names the node, what is there and what would have to be there. If the mesh of `local` is that of
// `global`, cut further, `global` is read on it. REQUIRES: both programs are well-formed, `global` without
// recorded mistakes.
absl::StatusOr<Proof> Verify(const Graph& global, const Graph& local, const VerifyOptions& options = {});

}  // namespace meshwork
