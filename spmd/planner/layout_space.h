// LayoutSpace lists the layouts that each value of a program could have, and the ways in which each op could
// run on them: what the planner chooses from (spmd/choose_layouts.h).
//
//   %h = matmul %x, %w      %x: {x,_}, pinned      %x: {x,_}     %h: {x,_} {_,x} {_,_} {_,_ | sum:x}
//   %b = add %h, %g         %g: {x}, pinned        add runs on {x,_} with %g whole, on {_,x}, …
//
// Axes flow along the letters of the ops' rules, from pinned dims to all others that have the letter, as in
// Propagate, but every cut that reaches a dim stays a candidate. A way to run an op says how each letter is cut,
// and which operands owe a sum that the op passes on. The layout that Propagate has found, and the way in which
// the op runs then, come first. In a wide space every value but outputs and variables may also be cut by any axes that
// pins name, wherever these flow. What a relayout with a MATCH dim reads stays as Propagate has laid it out.
//
// Time and memory are near-linear in the program if there are few types of values: the layouts and ways looked at per
// op are bounded, and ops that are alike, such as those of repeated layers, are looked at once. Not thread-safe.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/fold_repeats.h"
#include "meshwork/spmd/planner/layout_table.h"

namespace meshwork {

// The ways to run one op: a row per way, of layouts by their numbers in the tables of operands and results.
struct OpModes {
  size_t count = 0;
  size_t operands = 0, results = 0;  // of the op
  std::vector<int> wanted;           // [count, operands]
  std::vector<int> left;             // [count, results], with what is owed
  std::vector<AxisSet> axes;         // that cut a letter
  std::vector<double> parts;         // the part of the op's arithmetic that the busiest device does
  std::vector<double> even_parts;    // likewise, as if all blocks were even
  std::vector<CutIds> cuts;          // per letter of the op's rule
  std::vector<std::vector<int>> wanted_by_any;  // per operand, each layout once

  const int* WantedBy(size_t mode) const { return wanted.data() + mode * operands; }
  const int* LeftBy(size_t mode) const { return left.data() + mode * results; }
};

// Layouts beyond those that flow from pins.
struct OpenAxes {
  AxisSet arguments;  // by these, arguments without pins may be cut, too
  AxisSet fixed;      // by these, every value stays cut as Propagate has it
  // Which of `arguments` cut only together, in this order; empty: each may cut alone.
  std::vector<AxisList> joined = {};
  // Values are also cut into even blocks by any axes that pins name; not outputs, nor variables and what updates them.
  bool is_wide = false;
  // With arguments open: many more cuts, layouts, ways to run an op and forms of a value are looked at.
  bool is_thorough = false;
  // With arguments open, in a small program: all values, not only arguments, may be cut, and by axes in any order.
  bool is_small = false;
  // Further layouts of pinned values.
  std::span<const std::pair<ValueId, Layout>> further = {};
  // Shared by searches of one mesh and topology, which run one after the other; null: this search has its own.
  CutPool* pool = nullptr;
};

class LayoutSpace {
 public:
  // `pinned`: the user's program, its loops opened; `propagated`: Propagate's result for it; `choices`: how each
  // op runs there, nothing for relayouts; `fold`: of `propagated`, in which only values with equal pins are alike;
  // `nodes`: its nodes; price, work: see LayoutTable. All must outlive this. Below, values are those that stand for
  // themselves (fold.value_of[id] == id), and nodes are numbers of classes.
  LayoutSpace(const Graph& pinned, const Graph& propagated, const std::vector<std::optional<Choice>>& choices,
              const Fold& fold, const FoldedNodes& nodes, const OpenAxes& open = {},
              const CollectivePrice& price = {}, SearchWork* work = nullptr);

  LayoutTable& TableOf(ValueId id) { return tables_[table_[id]]; }
  // The layouts in which a value could be made, by their numbers in its table; one if all its dims are pinned, or if it
  // is kept to be gathered on use (spmd/rewrite/gather_on_use.h). Last come those in which its op leaves a sum owed.
  const std::vector<int>& layouts(ValueId id) const { return domains_[domain_[id]].layouts; }
  bool IsKept(ValueId id) const { return kept_[id]; }
  // The ways to run an op; of a relayout, one for each layout of its result.
  const OpModes& modes(int node) const { return modes_[modes_of_[node]]; }
  // Ops that run in the same ways have the same number.
  int modes_id(int node) const { return modes_of_[node]; }
  // Whether there are more layouts, or ways to run an op, than are looked at, not counting those that owe a sum; or
  // whether moves may cost less than they seem to.
  bool is_cut_off() const { return is_cut_off_ || pool_.is_rough; }
  // A choice as ChooseCuts makes it, except that its layouts also say what is owed.
  Choice ChoiceOf(int node, size_t mode);
  const Rule& RuleAt(int node) const { return *kinds_[kind_[node]].rule; }

 private:
  using Candidates = absl::InlinedVector<CutId, 4>;

  // How many cuts, layouts and ways are looked at: on meshes of many axes there are more combinations than differ in
  // cost.
  struct Most {
    size_t cuts = 6;      // of one dim
    size_t layouts = 32;  // of one value
    size_t owed = 4;      // those of them that owe a sum, which count apart
    size_t modes = 96;    // of one op, and as many on operands that owe a sum
  };
  static Most MostOf(const OpenAxes& open);

  // The layouts that a value could have, and what they depend on. Values share it.
  struct Domain {
    size_t table;
    std::vector<Candidates> cuts;  // per dim
    std::vector<int> layouts;
    bool is_kept, may_owe;
    bool is_listed = false;  // its layouts are those of OpenAxes::further, not all that the cuts make

    bool operator==(const Domain&) const = default;
  };
  // Ops that are alike, but for the domains of their tensors.
  struct OpKind {
    std::shared_ptr<const Rule> rule;
    int first;                    // a node of it
    std::vector<int> modes = {};  // numbers of the ways to run such ops
  };
  struct Modes : OpModes {
    int first;  // a node that runs so
    absl::InlinedVector<int, 4> operand_domains, result_domains,
        left_domains;  // of results before, and with owed ones
  };

  template <typename List, typename T>
  static bool Contains(const List& list, const T& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  }
  LetterCuts CutsOf(const CutIds& ids) const;
  bool IsLocked(ValueId id, int dim) const;
  bool MayCut(const Node& node, const Letter& letter, CutId cut) const;
  const std::optional<Choice>& ChoiceNow(int n) const { return choices_[fold_.first[n]]; }
  void FindKinds();
  void Offer(ValueId id);
  void OfferInOrder(ValueId id, int dim, const std::vector<AxisList>& units);
  void OfferInAnyOrder(ValueId id, int dim, const std::vector<AxisList>& units, const AxisList& major);
  void OfferCut(ValueId id, int dim, const AxisList& axes);
  bool KeepsFixed(ValueId id, int dim, CutId cut) const;
  void Spread();
  void Widen();
  void SpreadFurther();
  bool HasNews(int n) const;
  bool SpreadThrough(int n);
  // Per letter of the op's rule: the cuts that it could have, besides whole.
  std::vector<Candidates> OffersTo(int n) const;
  bool SpreadAt(int n);
  bool SpreadReshape(const Node& node);
  bool SpreadRelayout(const Node& node);
  bool AddCut(ValueId id, int dim, CutId cut);
  void FindDomains();
  int DomainOf(Domain domain);
  void MakeLayouts(ValueId id, Domain& domain);
  void FindModes(int n);
  bool RunsAs(int n, const Modes& modes) const;
  void MakeModes(int n, Modes& modes);
  void MakeReshapeModes(int n, Modes& modes);
  void MakeRelayoutModes(int n, Modes& modes);
  void AddMode(int n, const CutIds& cuts, Modes& modes);
  void AddOwing(int n, Modes& modes);
  void AddOwing(int n, size_t base, const std::vector<int>& owed, Modes& modes);
  static void Push(OpModes& modes, const std::vector<int>& wanted, const std::vector<int>& left,
                   const CutIds& cuts, AxisSet axes, double part);
  double PartOf(const Rule& rule, const CutIds& cuts, AxisSet axes) const;
  int PlacedAt(ValueId id, const LetterList& letters, const CutIds& cuts, int owed);
  bool MayBeOwed(const Node& node) const;
  void KeepOwed(int n, Modes& modes);

  const Graph& pinned_;
  const std::vector<std::optional<Choice>>& choices_;  // per node of `pinned`
  const Fold& fold_;
  const FoldedNodes& nodes_;
  const OpenAxes open_;
  const Most most_;
  bool is_cut_off_ = false;
  CutPool own_pool_;
  CutPool& pool_;
  std::vector<LayoutTable> tables_;                        // per type
  std::vector<size_t> table_;                              // per value
  std::vector<std::vector<Candidates>> cuts_;              // per value and dim
  std::vector<int> lies_;                                  // per value: its propagated layout
  std::unordered_map<ValueId, std::vector<int>> further_;  // see OpenAxes
  // When a value got its last cut, and an op was last spread through, by a clock of such events.
  std::vector<int> changed_, visited_;
  int clock_ = 1;
  std::vector<bool> kept_;     // per value
  std::vector<bool> closed_;   // per value: no more cuts reach it
  std::vector<bool> may_owe_;  // per value: no argument, not pinned, and within the program
  std::deque<OpKind> kinds_;
  std::vector<int> kind_;  // per node
  std::deque<Domain> domains_;
  std::vector<std::vector<int>> of_table_;  // per table: its domains
  std::vector<int> domain_;                 // per value
  std::deque<Modes> modes_;
  std::vector<int> modes_of_;  // per node
};

}  // namespace meshwork
