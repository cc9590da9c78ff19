#include "meshwork/storage/checkpoint_parts.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/box.h"
#include "meshwork/runtime/sharing.h"

namespace meshwork {
namespace {

// A block of more bytes is shared by all domains that hold it.
constexpr int64_t kLargeBytes = int64_t{1} << 18;

// An interval of a dim, and the extents of its factors.
struct DimPart {
  Extent interval;
  Block factors;
};

// The intervals that a box in the factors of one dim consists of.
std::vector<DimPart> DimParts(const FactorList& factors, const Block& extents) {
  const size_t n = factors.size();
  std::vector<int64_t> stride(n, 1);
  for (size_t f = n; f-- > 1;) stride[f - 1] = stride[f] * factors[f].size;
  size_t last = n - 1;  // the factors behind it are whole
  while (last > 0 && extents[last].size == factors[last].size) --last;
  std::vector<DimPart> parts = {{{0, 0}, {}}};
  for (size_t f = 0; f < last; ++f) {
    std::vector<DimPart> longer;
    for (const DimPart& part : parts) {
      for (int64_t i = extents[f].start; i < extents[f].start + extents[f].size; ++i) {
        longer.push_back(part);
        longer.back().interval.start += i * stride[f];
        longer.back().factors.push_back({i, 1});
      }
    }
    parts = std::move(longer);
  }
  for (DimPart& part : parts) {
    part.interval.start += extents[last].start * stride[last];
    part.interval.size = extents[last].size * stride[last];
    part.factors.insert(part.factors.end(), extents.begin() + static_cast<int64_t>(last), extents.end());
  }
  return parts;
}

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

// The dim of a block whose rows are shared: the first one that is long enough, else the longest.
size_t DimToShare(const Block& block, int64_t shares) {
  size_t longest = 0;
  for (size_t d = 0; d < block.size(); ++d) {
    if (block[d].size >= shares) return d;
    if (block[d].size > block[longest].size) longest = d;
  }
  return longest;
}

}  // namespace

std::vector<PlainPart> PlainParts(const Layout& layout, const Shape& global, const Block& factors) {
  if (NumElements(factors) == 0) return {};
  if (!layout.is_strided()) return {{factors, factors}};
  std::vector<PlainPart> parts = {{}};
  auto next = factors.begin();
  for (int d = 0; d < static_cast<int>(global.size()); ++d) {
    const FactorList of_dim = layout.Factors(d, global[static_cast<size_t>(d)]);
    const Block extents(next, next + std::ssize(of_dim));
    next += std::ssize(of_dim);
    std::vector<PlainPart> longer;
    for (const PlainPart& part : parts) {
      for (const DimPart& dim : DimParts(of_dim, extents)) {
        longer.push_back(part);
        longer.back().box.push_back(dim.interval);
        longer.back().factors.insert(longer.back().factors.end(), dim.factors.begin(), dim.factors.end());
      }
    }
    parts = std::move(longer);
  }
  return parts;
}

std::map<std::string, std::vector<WrittenPart>> PlanParts(
    const Placement& placement, const std::map<std::string, VariablePlace>& variables) {
  std::vector<SharedBlock> blocks;
  for (const auto& [name, place] : variables)
    for (SharedBlock& block : BlocksOf(placement, name, place)) blocks.push_back(std::move(block));
  // The largest first: small ones then even out who has written how much.
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
      const size_t dim = DimToShare(block.factors, shares);
      const Extent rows = block.factors[dim];
      for (int64_t s = 0; s < shares; ++s) {
        Block share = block.factors;
        share[dim].start = rows.start + rows.size * s / shares;
        share[dim].size = rows.start + rows.size * (s + 1) / shares - share[dim].start;
        assign(block, share, static_cast<size_t>(s));
      }
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
