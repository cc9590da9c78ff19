#include "meshwork/runtime/plan/overlap.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/sharing.h"
#include "meshwork/runtime/plan/split_collective.h"

namespace meshwork {
namespace {

bool IsAcross(const Graph& local, const Node& node, AxisSet across) {
  return node.row->kind == OpKind::kCollective && MovesOver(local, node, across);
}

int64_t BytesOf(const Graph& local, std::span<const ValueId> values) {
  int64_t bytes = 0;
  for (ValueId value : values) bytes += local.value(value).type.bytes();
  return bytes;
}

class Overlapper {
 public:
  Overlapper(const Graph& local, AxisSet across, int64_t bucket_bytes)
      : local_(local),
        across_(across),
        bucket_bytes_(bucket_bytes),
        rewriter_(local),
        piece_of_(local.values().size(), -1) {}

  Graph Run() && {
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
      const Node& node = local_.nodes()[n];
      if (IsAcross(local_, node, across_)) {
        AddPieces(n);
        continue;
      }
      for (ValueId operand : node.operands) Emit(piece_of_[operand]);
      rewriter_.Copy(node);
    }
    for (int p = 0; p < static_cast<int>(pieces_.size()); ++p) Emit(p);
    return std::move(rewriter_).Finish();
  }

 private:
  // A collective of some results of a node.
  struct Piece {
    int node;
    std::vector<size_t> results;
    bool is_emitted = false;
  };

  void AddPieces(int n) {
    const Node& node = local_.nodes()[n];
    std::vector<size_t> results(node.results.size());
    std::iota(results.begin(), results.end(), size_t{0});
    if (IsWhole(node)) return AddPiece(n, std::move(results));
    std::stable_sort(results.begin(), results.end(), [&](size_t a, size_t b) {
      return local_.value(node.operands[a]).node < local_.value(node.operands[b]).node;
    });
    std::vector<size_t> bucket;
    int64_t bytes = 0, rest = BytesOf(local_, node.operands);
    for (size_t r : results) {
      const int64_t more = BytesOf(local_, {&node.operands[r], 1});
      bucket.push_back(r);
      bytes += more;
      rest -= more;
      // If the rest is too small for a bucket of its own, it goes into this one.
      if (bytes < std::max<int64_t>(bucket_bytes_, 1) || rest < std::max<int64_t>(bucket_bytes_, 1)) continue;
      AddPiece(n, std::exchange(bucket, {}));
      bytes = 0;
    }
    if (!bucket.empty()) AddPiece(n, std::move(bucket));
  }

  void AddPiece(int n, std::vector<size_t> results) {
    for (size_t r : results) piece_of_[local_.nodes()[n].results[r]] = static_cast<int>(pieces_.size());
    pieces_.push_back({n, std::move(results)});
  }

  // Emits piece p, if there is one, and before it the pieces that it needs. These are kept in a list, because a chain
  // of collectives may be longer than a stack is deep.
  void Emit(int p) {
    if (p >= 0) todo_.push_back(p);
    while (!todo_.empty()) {
      const int next = todo_.back();
      const size_t known = todo_.size();
      if (!pieces_[static_cast<size_t>(next)].is_emitted) AddMissing(next);
      if (todo_.size() > known) continue;
      todo_.pop_back();
      Write(pieces_[static_cast<size_t>(next)]);
    }
  }

  // Adds the pieces that piece p reads, and the piece of the same node before it: the readers of that piece can then
  // run while p crosses.
  void AddMissing(int p) {
    const Piece& piece = pieces_[static_cast<size_t>(p)];
    const Node& node = local_.nodes()[piece.node];
    const auto add = [&](int other) {
      if (other >= 0 && !pieces_[static_cast<size_t>(other)].is_emitted) todo_.push_back(other);
    };
    if (IsWhole(node)) {
      for (ValueId operand : node.operands) add(piece_of_[operand]);
    } else {
      for (size_t r : piece.results) add(piece_of_[node.operands[r]]);
      if (p > 0 && pieces_[static_cast<size_t>(p) - 1].node == piece.node) add(p - 1);
    }
  }

  void Write(Piece& piece) {
    if (std::exchange(piece.is_emitted, true)) return;
    const Node& node = local_.nodes()[piece.node];
    if (IsWhole(node) || node.results.size() == 1) rewriter_.Copy(node);
    else CopyPart(local_, node, piece.results, rewriter_);
  }

  // Whether the node cannot be cut, because its results are not made of one operand each.
  static bool IsWhole(const Node& node) { return node.operands.size() != node.results.size(); }

  const Graph& local_;
  const AxisSet across_;
  const int64_t bucket_bytes_;
  Rewriter rewriter_;
  std::vector<Piece> pieces_;
  std::vector<int> todo_;      // the last one is next
  std::vector<int> piece_of_;  // per value; -1: it is no result of a collective across domains
};

}  // namespace

Graph Overlap(const Graph& local, AxisSet across, int64_t bucket_bytes) {
  return Overlapper(local, across, bucket_bytes).Run();
}

int64_t MostBytesAcross(const Graph& local, AxisSet across) {
  int64_t most = 0;
  for (const Node& node : local.nodes()) {
    for (const auto& region : node.regions) most = std::max(most, MostBytesAcross(*region, across));
    if (IsAcross(local, node, across))
      most = std::max({most, BytesOf(local, node.operands), BytesOf(local, node.results)});
  }
  return most;
}

}  // namespace meshwork
