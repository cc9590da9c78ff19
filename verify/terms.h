// The terms that a global program computes, for Verify: values that are computed alike are one term.
//
// Two values are the same term by congruence: the same op on the same operands gives the same term. Sums are
// compared by what they add up: the multiset of signed terms that add, sub and neg reach, each broadcast to
// the shape of the sum. Nothing cancels: p - p + r is not r, because they differ if p is infinite.
//
//   (p + r) + q  and  (p + q) + r  are one term; p + q is a term, even if no value of the program is p + q
//
// Two loops or branches are one term if their bodies give the same results from the same arguments: if, in
// one program of both bodies, their results are the same terms. So dead or duplicate code makes no
// difference, nor do the names of values and the layouts that they are pinned to.
//
// Values that ops only move are compared by which element of which term each element is (ir/movement.h),
// whatever op moves it and however its attributes are written, in chains, too. Ops that see windows of their
// operands are compared by those windows (SeeAlike in verify/windows.h):
//
//   x[0:8:2]  and  x[0:7:2]  of f32[8] are one term; so are  roll(roll(x, 1), -1)  and  x
//
// Tensors of one type without elements are one term, whatever computes them.
//
// Sums are found by a hash of the multiset, which an op computes from its operands' hashes. Two sums count as
// equal only after both are expanded, the latest terms first, until the same terms are left on both sides;
// terms that both share are never expanded. So a chain of residuals costs time linear in its nodes.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/movement.h"
#include "meshwork/ir/row.h"
#include "meshwork/verify/verify.h"

namespace meshwork {

using TermId = int32_t;
using TermList = absl::InlinedVector<TermId, 4>;

// A term: `root`, the first value of the global program that computes it, as a tensor of `shape`. So reshapes
// of a value differ in their shapes alone. Sums that are no value of the global program have roots beyond its
// values.
struct Term {
  ValueId root;
  Shape shape;

  bool operator<(const Term& other) const {
    return root != other.root ? root < other.root : shape < other.shape;
  }
};

struct Summand {
  TermId term = -1;
  bool is_negative = false;
};
using SummandList = absl::InlinedVector<Summand, 2>;

// The terms that an op adds up; nothing if it does not add.
std::optional<SummandList> SummandsOf(const OpRow& row, std::span<const TermId> operands);

class GlobalTerms {
 public:
  // The most values that a sum may have if it is itself no value of the global program.
  static constexpr size_t kMostSummands = 64;

  // REQUIRES: `graph` outlives this.
  // `same`: pairs of a value and an earlier value that it is known to equal.
  explicit GlobalTerms(const Graph& graph, std::span<const std::pair<ValueId, ValueId>> same = {});

  TermId Of(ValueId value) const { return term_of_[value]; }
  TermList Of(std::span<const ValueId> values) const;
  const Term& term(TermId id) const { return terms_[id]; }
  TermId Reshaped(TermId id, const Shape& shape) { return Intern({terms_[id].root, shape}); }

  // The term that is the sum of `summands`, as a tensor of `shape`: a known term, or a new one. Nothing if a
  // new one would be a sum of more than kMostSummands values, or of a part of such a sum read as another
  // shape.
  std::optional<TermId> Sum(const SummandList& summands, const Shape& shape);
  // The term of all tensors of this type, if it has no elements; nothing if no value of the global program of its dtype
  // is empty.
  std::optional<TermId> Empty(const Type& type);
  // The values of the global program whose sum the term is; the term's own value, if it has one.
  SignedValueList GlobalSummands(TermId id) const;

  // The term that `exchange` makes from operands of these types; nothing if the global program has no such
  // term.
  // REQUIRES: the exchange takes no windows, and CheckExchange accepts it.
  std::optional<TermId> Moved(const Exchange& exchange, std::span<const TermId> operands,
                              std::span<const Type> types, const Type& result) const;

  // Calls f for the nodes of this row on these operands; one node stands for all that compute the same. For
  // loops and branches also those with other bodies.
  template <typename F>
  void ForEachNode(const OpRow& row, std::span<const TermId> operands, const Attrs& attrs, F&& f) const {
    const auto [begin, end] = nodes_.equal_range(HashOf(row, operands, attrs));
    for (auto it = begin; it != end; ++it) {
      const Node& node = *it->second;
      const TermList have = Of(node.operands);
      if (node.row == &row && std::equal(have.begin(), have.end(), operands.begin(), operands.end())) f(node);
    }
  }

  // "%x", "matmul (mlp.cc:12)", "the sum %x + matmul (mlp.cc:12)"; with the shape if it is not the value's
  // own.
  std::string Describe(TermId id) const;

 private:
  // The terms that a term adds up; no summands: only itself.
  struct Form {
    SummandList summands;
    uint64_t plus = 0, minus = 0;  // sums of the hashes of the terms that are added and subtracted
  };

  // The hash is the same for an op on whole tensors and on blocks of them: attributes that follow the sizes are left
  // out.
  static uint64_t HashOf(const OpRow& row, std::span<const TermId> operands, const Attrs& attrs);
  void Add(int n);
  Node SizeOf(const Node& node) const;
  void AddOp(const Node& node);
  void AddMove(const Node& node);
  const Node* FindTwin(const Node& node) const;
  bool IsNew(ValueId root) const { return root >= static_cast<ValueId>(graph_.values().size()); }

  Movement MovementOfTerms(const Exchange& exchange, std::span<const TermId> operands,
                           std::span<const Type> types, const Type& result) const;
  std::optional<TermId> FindMovement(const Movement& movement) const;

  Form FormOf(const SummandList& summands) const;
  std::optional<TermId> FindSum(const Form& form, const Shape& shape) const;
  bool AddUpAlike(const SummandList& summands, TermId id) const;
  void SetForm(TermId id, Form form);

  TermId Fresh(ValueId value) { return Intern({value, graph_.value(value).type.shape}); }
  TermId Intern(Term term);

  const Graph& graph_;
  std::vector<Term> terms_;
  std::vector<Form> forms_;  // per term
  std::map<Term, TermId> ids_;
  std::vector<TermId> term_of_;
  std::map<DType, ValueId> empty_;  // by dtype: the root of terms without elements
  std::deque<Node> constants_;      // in place of nodes that ask for a size
  std::unordered_multimap<uint64_t, const Node*> nodes_;
  std::map<TermId, Movement> movements_;           // of terms that are moved from other terms
  std::map<std::vector<int64_t>, ValueId> moved_;  // by key: the first value that moves so
  std::unordered_multimap<uint64_t, TermId> sums_;
  std::vector<std::pair<TermId, SignedValueList>> new_sums_;  // per root beyond the global program's values
};

}  // namespace meshwork
