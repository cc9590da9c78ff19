#include "meshwork/spmd/planner/layout_table.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace meshwork {
namespace {

constexpr int64_t kLargeBlock = 1 << 14;  // elements

}  // namespace

CutId CutPool::IdOf(const Cut& cut) {
  const auto found = std::find(cuts_.begin(), cuts_.end(), cut);
  if (found != cuts_.end()) return static_cast<CutId>(found - cuts_.begin());
  cuts_.push_back(cut);
  axes_.push_back(AxesOf(cut));
  return static_cast<CutId>(cuts_.size() - 1);
}

int CutPool::OwedId(const PartialSet& owed) {
  const auto found = std::find(owed_.begin(), owed_.end(), owed);
  if (found == owed_.end()) return static_cast<int>((owed_.push_back(owed), owed_.size() - 1));
  return static_cast<int>(found - owed_.begin());
}

int LayoutTable::IdOf(const CutIds& cuts, int owed) {
  for (size_t i = 0; i < keys_.size(); ++i)
    if (keys_[i].owed == owed && keys_[i].cuts == cuts) return static_cast<int>(i);
  AxisSet sharded;
  for (CutId cut : cuts) sharded = sharded.Union(pool_.axes(cut));
  keys_.push_back({cuts, owed, sharded});
  layouts_.emplace_back();
  seconds_.emplace_back();
  return static_cast<int>(keys_.size()) - 1;
}

int LayoutTable::IdOf(const Layout& layout) {
  CutIds cuts;
  for (int d = 0; d < layout.rank(); ++d) cuts.push_back(pool_.IdOf(layout.Factors(d, 1)));
  return IdOf(cuts, pool_.OwedId(layout.partials()));
}

const Layout& LayoutTable::layout(int id) {
  std::optional<Layout>& layout = layouts_[id];
  if (layout.has_value()) return *layout;
  std::vector<FactorList> dims;
  for (CutId cut : keys_[id].cuts) dims.push_back(pool_.cut(cut));
  return layout.emplace(Layout::Strided(mesh_, dims, pool_.owed(keys_[id].owed)));
}

double LayoutTable::FoundSeconds(int from, int to, const Topology& topology) {
  std::vector<double>& row = seconds_[from];
  if (row.size() < keys_.size()) row.resize(keys_.size(), -1);
  double& seconds = row[to];
  if (from == to) return seconds = 0;
  if (is_partial(to)) return seconds = std::numeric_limits<double>::infinity();
  seconds = RememberedSeconds(from, to, topology);
  if (price_.seconds > 0 && seconds > 0) seconds += price_.seconds * RememberedCollectives(from, to);
  return seconds;
}

// Whether all devices have blocks of the same size, which divide further into a part for each device, and which are
// large. For large blocks, the memory that a plan may take is a multiple of the block (RelayoutOptions::peak_elements).
bool LayoutTable::IsEven(int id) const {
  int64_t elements = 1;
  for (size_t d = 0; d < keys_[id].cuts.size(); ++d) {
    const int64_t blocks = mesh_.GroupSize(pool_.axes(keys_[id].cuts[d]).ToList());
    if (type_.shape[d] % blocks != 0) return false;
    elements *= type_.shape[d] / blocks;
  }
  return elements >= kLargeBlock && elements % mesh_.num_devices() == 0;
}

// All that the time of a move depends on. is_linear: the time is proportional to the number of elements; which plan is
// best then depends on how dims can be cut on the way, and not on their sizes.
std::vector<int64_t> LayoutTable::KeyOf(int from, int to, bool is_linear) const {
  std::vector<int64_t> key = {static_cast<int64_t>(type_.dtype), is_linear ? 1 : 0, keys_[from].owed};
  for (size_t d = 0; d < type_.shape.size(); ++d) {
    key.push_back(is_linear ? std::gcd(type_.shape[d], mesh_.num_devices()) : type_.shape[d]);
    key.push_back(keys_[from].cuts[d]);
    key.push_back(keys_[to].cuts[d]);
  }
  return key;
}

int LayoutTable::RememberedCollectives(int from, int to) {
  std::vector<int64_t> key = KeyOf(from, to, /*is_linear=*/false);
  key.push_back(price_.but.has_value() ? static_cast<int64_t>(*price_.but) : -1);
  const auto [known, is_new] = pool_.collectives.try_emplace(std::move(key), 0);
  if (is_new) known->second = CountCollectives(layout(from), layout(to), type_, price_.but);
  return known->second;
}

// The time of a move is proportional to the number of elements if latencies do not count and blocks are even.
double LayoutTable::RememberedSeconds(int from, int to, const Topology& topology) {
  const bool is_linear = topology.is_assumed() && NumElements(type_.shape) > 0 && IsEven(from) && IsEven(to);
  const double scale = is_linear ? static_cast<double>(NumElements(type_.shape)) : 1;
  const auto [known, is_new] = pool_.moves.try_emplace(KeyOf(from, to, is_linear), 0);
  if (work_ != nullptr) work_->Take(is_new ? kEntriesPerMove : kEntriesPerKnownMove);
  if (is_new) {
    const bool is_greedy = is_greedy_ && topology.is_assumed();
    const bool is_spent = !is_greedy && work_ != nullptr && work_->is_spent();
    pool_.is_rough |= is_spent;
    known->second = (is_greedy || is_spent ? RoughSeconds(layout(from), layout(to), type_, topology)
                                           : LeastSeconds(layout(from), layout(to), type_, topology, work_)) /
                    scale;
  }
  return known->second * scale;
}

}  // namespace meshwork
