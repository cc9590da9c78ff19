// Numbers for cuts and layouts, so that a search compares numbers, and looks up once what a relayout costs.
//
//   CutPool pool;
//   LayoutTable table(mesh, pool, type);          // of one type: f32[128,64]
//   int a = table.IdOf({batch, whole});           // cuts per dim, by their numbers
//   table.Seconds(a, b, topology)
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/base/hash.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/move_seconds.h"

namespace meshwork {

using CutId = uint16_t;
inline constexpr CutId kWhole = 0;
using CutIds = absl::InlinedVector<CutId, 4>;  // one per dim, or per letter

// By all that a property of a move depends on, as numbers.
struct HashOfMove {
  size_t operator()(const std::vector<int64_t>& key) const {
    uint64_t hash = key.size();
    for (int64_t number : key) hash = MixedHash(hash, static_cast<uint64_t>(number));
    return hash;
  }
};
template <typename T>
using MoveMap = std::unordered_map<std::vector<int64_t>, T, HashOfMove>;

// The cuts, and the sets of what is owed, that a program's layouts are made of.
class CutPool {
 public:
  CutPool() : cuts_{Whole()}, axes_{AxisSet()}, owed_{PartialSet()} {}

  CutId IdOf(const Cut& cut);
  const Cut& cut(CutId id) const { return cuts_[id]; }
  AxisSet axes(CutId id) const { return axes_[id]; }
  bool is_strided(CutId id) const { return cuts_[id].size() > 1; }

  // 0: nothing is owed.
  int OwedId(const PartialSet& owed);
  const PartialSet& owed(int id) const { return owed_[id]; }

  // Seconds of moves, by all that they depend on. Types that are alike share them; see LayoutTable::Seconds.
  MoveMap<double> moves;
  MoveMap<int> collectives;  // of moves
  // Some moves have the cost of a plan that was not searched for, because work was spent.
  bool is_rough = false;

 private:
  std::vector<Cut> cuts_;
  std::vector<AxisSet> axes_;
  std::vector<PartialSet> owed_;
};

// The layouts of values of one type.
class LayoutTable {
 public:
  // price: of each collective, beside what it sends. is_greedy: with the assumed topology, moves cost what the greedy
  // plan costs; tables that share a pool must have the same is_greedy. work: taken by the search for plans of moves;
  // null: without limit.
  LayoutTable(const Mesh& mesh, CutPool& pool, Type type, CollectivePrice price = {}, bool is_greedy = false,
              SearchWork* work = nullptr)
      : mesh_(mesh), pool_(pool), type_(std::move(type)), price_(price), is_greedy_(is_greedy), work_(work) {}

  const Type& type() const { return type_; }
  size_t size() const { return keys_.size(); }

  // REQUIRES: no axis is in two of the cuts; the type fits them.
  int IdOf(const CutIds& cuts, int owed = 0);
  int IdOf(const Layout& layout);

  const Layout& layout(int id);
  const CutIds& cuts(int id) const { return keys_[id].cuts; }
  int owed(int id) const { return keys_[id].owed; }
  bool is_partial(int id) const { return keys_[id].owed != 0; }
  AxisSet sharded(int id) const { return keys_[id].sharded; }

  // The time to bring a value from one layout to another, its collectives counted. Infinite if `to` owes a
  // reduction, unless `to` is `from`.
  double Seconds(int from, int to, const Topology& topology) {
    const std::vector<double>& row = seconds_[from];
    const auto at = static_cast<size_t>(to);
    return at < row.size() && row[at] >= 0 ? row[at] : FoundSeconds(from, to, topology);
  }

 private:
  double FoundSeconds(int from, int to, const Topology& topology);
  std::vector<int64_t> KeyOf(int from, int to, bool is_linear) const;
  double RememberedSeconds(int from, int to, const Topology& topology);
  int RememberedCollectives(int from, int to);
  bool IsEven(int id) const;

  struct Key {
    CutIds cuts;
    int owed;
    AxisSet sharded;
  };

  const Mesh mesh_;
  CutPool& pool_;
  const Type type_;
  const CollectivePrice price_;
  const bool is_greedy_;
  SearchWork* const work_;
  std::vector<Key> keys_;
  std::deque<std::optional<Layout>> layouts_;  // as far as they are asked for
  std::vector<std::vector<double>> seconds_;   // per layout, as far as a row is used; -1: not known yet
};

}  // namespace meshwork
