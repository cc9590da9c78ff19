#include "meshwork/storage/checkpoint_parts.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/runtime/plan/sharing.h"

namespace meshwork {
namespace {

// A block of more bytes is shared by all domains that hold it.
constexpr int64_t kLargeBytes = int64_t{1} << 18;

// A block that some domains hold.
struct SharedBlock {
  const std::string* name;
  const VariablePlace* place;
  Block factors;
  std::vector<int64_t> holders;  // domains
  std::vector<int64_t> devices;  // one of each holder

  int64_t bytes() const { return NumElements(factors) * DTypeSize(place->type.dtype); }
};

// The blocks of a variable: for each coordinate on the axes that shard it, the domains that have these coordinates.
std::vector<SharedBlock> BlocksOf(const Placement& placement, const std::string& name,
                                  const VariablePlace& place) {
  const AxisSet sharded = place.layout.ShardedAxes();
  const Mesh& mesh = placement.mesh();
  std::vector<SharedBlock> blocks(static_cast<size_t>(AxisGroup(mesh, sharded.ToList()).size()));
  const AxisGroup coordinates(mesh, sharded.ToList());
  for (int64_t domain = 0; domain < placement.num_domains(); ++domain) {
    const InstanceMap instances(Domain(placement, domain), sharded);
    for (int64_t i = 0; i < instances.count(); ++i) {
      const int64_t device = instances.Representative(i);
      SharedBlock& block = blocks[static_cast<size_t>(coordinates.RankOf(device))];
      if (block.holders.empty())
        block = {&name, &place, place.layout.BlockOf(place.type.shape, device), {}, {}};
      block.holders.push_back(domain);
      block.devices.push_back(device);
    }
  }
  return blocks;
}

}  // namespace

std::map<std::string, std::vector<WrittenPart>> PlanParts(
    const Placement& placement, const std::map<std::string, VariablePlace>& variables) {
  std::vector<SharedBlock> blocks;
  for (const auto& [name, place] : variables)
    for (SharedBlock& block : BlocksOf(placement, name, place)) blocks.push_back(std::move(block));
  // The largest first: the small ones then even out how much each domain writes.
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const SharedBlock& a, const SharedBlock& b) { return a.bytes() > b.bytes(); });
  std::map<std::string, std::vector<WrittenPart>> parts;
  for (const auto& [name, place] : variables) parts[name];
  std::vector<int64_t> written(static_cast<size_t>(placement.num_domains()));
  const auto assign = [&](const SharedBlock& block, const Block& factors, size_t holder) {
    const int64_t domain = block.holders[holder];
    written[static_cast<size_t>(domain)] += NumElements(factors) * DTypeSize(block.place->type.dtype);
    for (PlainPart& part : PlainParts(block.place->layout, block.place->type.shape, factors))
      parts[*block.name].push_back({domain, block.devices[holder], std::move(part)});
  };
  for (const SharedBlock& block : blocks) {
    const int64_t shares = std::ssize(block.holders);
    if (shares > 1 && block.bytes() > kLargeBytes) {
      const std::vector<Block> cut = CutInto(block.factors, shares);
      for (size_t s = 0; s < cut.size(); ++s) assign(block, cut[s], s);
      continue;
    }
    size_t least = 0;
    for (size_t h = 1; h < block.holders.size(); ++h)
      if (written[static_cast<size_t>(block.holders[h])] < written[static_cast<size_t>(block.holders[least])])
        least = h;
    assign(block, block.factors, least);
  }
  return parts;
}

}  // namespace meshwork
