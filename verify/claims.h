// The claims that Verify has made so far about the values of a local program.
//
//   Claims claims(global, local);
//   claims.Set(id, claims.terms().Of(argument), Lemma::kArgument);   // the value is a block of %x
//   claims.Describe(id);                                             // "%x"
//
// Each value is a block of a term of the global program (verify/terms.h), or windows of one. It has the dtype
// of the term or, while it owes a reduction, a wider one. Verify goes through the local program in order and
// sets the claim of each value once. The lemmas (verify/moves.h, verify/compute.h, verify/control.h) read the
// claims of the operands and set those of the results. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"
#include "meshwork/ops/control/append_blockwise.h"
#include "meshwork/verify/terms.h"
#include "meshwork/verify/verify.h"

namespace meshwork {

// Per dim: the reduction whose identity stands in its padding.
using Padding = absl::InlinedVector<int8_t, 4>;
inline constexpr int8_t kUnknownPadding = -1;

class Claims {
 public:
  // REQUIRES: both outlive this; they are on one mesh.
  Claims(const Graph& global, const Graph& local, const VerifyOptions& options);
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  const Graph& global() const { return global_; }  // with the blockwise forms of ops, if there are any
  const Graph& local() const { return local_; }
  const VerifyOptions& options() const { return options_; }
  const Layout& LayoutOf(ValueId id) const { return *local_.value(id).layout; }
  const Shape& GlobalShape(ValueId id) const { return local_.value(id).global.shape; }

  // Claims that the value is a block of `term`, whole, with unknown padding. REQUIRES: it has a layout.
  void Set(ValueId id, TermId term, Lemma lemma);

  GlobalTerms& terms() { return terms_; }
  const GlobalTerms& terms() const { return terms_; }
  // For a value that is set: its term, its term in words, and what is known about its padding.
  TermId TermOf(ValueId id) const { return term_of_[id]; }
  std::string Describe(ValueId id) const { return terms_.Describe(term_of_[id]); }
  const Padding& padding(ValueId id) const { return padding_[id]; }
  Padding& padding(ValueId id) { return padding_[id]; }
  // If the value holds windows of its term: the exchange that takes these windows from the tensor of the term.
  const std::optional<Exchange>& windows(ValueId id) const { return windows_[id]; }
  std::optional<Exchange>& windows(ValueId id) { return windows_[id]; }

  // The dtype of the term that the value is part of; and whether the value is carried in another dtype.
  DType TermDType(ValueId id) const {
    return global_.value(terms_.GlobalSummands(term_of_[id])[0].value).type.dtype;
  }
  bool IsWide(ValueId id) const { return local_.value(id).type.dtype != TermDType(id); }
  // The global type of a local value that stands for a value of `type`.
  static Type Carried(const Type& type, bool is_wide);
  // Whether the value is a term that was rounded although it will still be added to others, or multiplied. (A term that
  // is picked is exact nevertheless.)
  bool IsRoundedTerm(ValueId id) const;

  // The proof: all claims that were set. Leaves this object empty.
  Proof Finish() && { return std::move(proof_); }

 private:
  const std::optional<WithBlockwise> with_;
  const Graph& global_;
  const Graph& local_;
  const VerifyOptions options_;
  const size_t user_values_;  // of the global program that was given
  GlobalTerms terms_;
  std::vector<TermId> term_of_;                   // per local value
  std::vector<std::optional<Exchange>> windows_;  // per local value
  std::vector<Padding> padding_;                  // per local value
  Proof proof_;
};

}  // namespace meshwork
