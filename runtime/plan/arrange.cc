#include "meshwork/runtime/plan/arrange.h"

#include <algorithm>
#include <span>
#include <vector>

#include "meshwork/ir/plan/storage.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/sharing.h"
#include "meshwork/runtime/plan/split_collective.h"

namespace meshwork {
namespace {

// Values of at most this many elements are made early even if they have other readers.
constexpr int64_t kSmall = 64;
// The most pieces that are emitted early for one op that is moved up.
constexpr size_t kMostMoved = 16;

// A node, or result `part` of a collective of several values.
struct Piece {
  int node;
  int part = -1;
};

class Arranger {
 public:
  Arranger(const Graph& local, AxisSet across)
      : local_(local),
        across_(across),
        rewriter_(local),
        readers_(local.values().size()),
        memory_readers_(local.values().size()),
        maker_(local.values().size(), -1) {
    const std::vector<ValueId> contents = FindContents(local);
    for (int n = 0; n < static_cast<int>(local.nodes().size()); ++n) AddPieces(n, contents);
    updates_.resize(local.values().size());
    for (const VariableUpdate& update : local.updates())
      updates_[contents[update.value]].push_back(local.arguments()[update.argument].value);
    emitted_.resize(pieces_.size(), false);
  }

  Graph Run() && {
    for (int p = 0; p < static_cast<int>(pieces_.size()); ++p) {
      todo_.push_back({p});
      while (!todo_.empty()) {
        const Todo next = todo_.back();
        todo_.pop_back();
        if (emitted_[next.piece]) continue;
        if (next.if_it_may) MoveUp(next.piece);
        else Emit(next.piece);
      }
    }
    return std::move(rewriter_).Finish();
  }

 private:
  // A piece to emit, or to move up. Kept in a list, because chains of ops may be longer than a stack is deep.
  struct Todo {
    int piece;
    bool if_it_may = false;
  };

  void AddPieces(int n, const std::vector<ValueId>& contents) {
    const Node& node = local_.nodes()[n];
    const bool split =
        node.row->kind == OpKind::kCollective && node.results.size() > 1 && !MovesOver(local_, node, across_);
    for (int part = 0; part < (split ? static_cast<int>(node.results.size()) : 1); ++part) {
      const auto p = static_cast<int>(pieces_.size());
      pieces_.push_back({n, split ? part : -1});
      for (ValueId operand : Operands(p)) {
        if (readers_[operand].empty() || readers_[operand].back() != p) readers_[operand].push_back(p);
        memory_readers_[contents[operand]].push_back(p);
      }
      for (ValueId result : Results(p)) maker_[result] = p;
    }
  }

  const Node& NodeOf(int p) const { return local_.nodes()[pieces_[p].node]; }
  std::span<const ValueId> Operands(int p) const {
    const Node& node = NodeOf(p);
    return pieces_[p].part < 0 ? std::span(node.operands)
                               : std::span(node.operands).subspan(pieces_[p].part, 1);
  }
  std::span<const ValueId> Results(int p) const {
    const Node& node = NodeOf(p);
    return pieces_[p].part < 0 ? std::span(node.results)
                               : std::span(node.results).subspan(pieces_[p].part, 1);
  }

  void Emit(int p) {
    emitted_[p] = true;
    if (pieces_[p].part < 0) {
      rewriter_.Copy(NodeOf(p));
    } else {
      const size_t part = static_cast<size_t>(pieces_[p].part);
      CopyPart(local_, NodeOf(p), {&part, 1}, rewriter_);
    }
    const std::span<const ValueId> results = Results(p);
    for (size_t r = results.size(); r-- > 0;)
      if (readers_[results[r]].size() == 1) todo_.push_back({readers_[results[r]][0], /*if_it_may=*/true});
  }

  // Plans to emit `p` next, behind the pieces that it still needs, if that is allowed.
  void MoveUp(int p) {
    if (!IsCheap(p)) return;
    std::vector<int> before;
    if (!CollectMissing(p, before)) return;
    before.push_back(p);
    for (int q : before)
      if (!MayUpdate(q, before)) return;
    for (size_t i = before.size(); i-- > 0;) todo_.push_back({before[i]});
  }

  bool IsCheap(int p) const {
    const OpRow& row = *NodeOf(p).row;
    return row.is_light ||
           (row.collective == CollectiveKind::kAllReduce && !MovesOver(local_, NodeOf(p), across_));
  }

  // Appends the pieces that must be emitted before `p`, in order; false if they may not be moved up for `p`.
  // `waiting`: the number of pieces that will follow these.
  bool CollectMissing(int p, std::vector<int>& before, size_t waiting = 0) const {
    for (ValueId operand : Operands(p)) {
      const int q = maker_[operand];
      if (q < 0 || emitted_[q] || std::find(before.begin(), before.end(), q) != before.end()) continue;
      const bool small = local_.value(operand).type.num_elements() <= kSmall;
      const bool only_for_p = readers_[operand].size() == 1 && Results(q).size() == 1;
      if (NodeOf(q).row->is_product || NodeOf(q).row->kind == OpKind::kCollective || IsControl(NodeOf(q)) ||
          !(small || only_for_p))
        return false;
      if (before.size() + waiting >= kMostMoved || !CollectMissing(q, before, waiting + 1)) return false;
      before.push_back(q);
    }
    return true;
  }

  // True if only pieces of `before` still read the old values of the variables whose new values `p` computes,
  // so that the old values can be overwritten.
  bool MayUpdate(int p, const std::vector<int>& before) const {
    for (ValueId result : Results(p))
      for (ValueId variable : updates_[result])
        for (int reader : memory_readers_[variable])
          if (!emitted_[reader] && std::find(before.begin(), before.end(), reader) == before.end())
            return false;
    return true;
  }

  const Graph& local_;
  const AxisSet across_;
  Rewriter rewriter_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int>> readers_;         // per value: pieces
  std::vector<std::vector<int>> memory_readers_;  // per value that is no view: readers of it and its views
  std::vector<int> maker_;                        // per value: the piece, -1 for arguments
  std::vector<std::vector<ValueId>> updates_;     // per value: the variables whose new value it is
  std::vector<bool> emitted_;                     // per piece
  std::vector<Todo> todo_;                        // the last one is next
};

}  // namespace

Graph Arrange(const Graph& local, AxisSet across) { return Arranger(local, across).Run(); }

}  // namespace meshwork
