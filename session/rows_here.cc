#include "meshwork/session/rows_here.h"

#include <algorithm>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/layout/layout.h"

namespace meshwork {
namespace {

// Whether dim 0 has its layout for every number of rows, because it is pinned.
bool IsPinned(const ValueInfo& input) {
  return input.layout.has_value() && LayoutPin{*input.layout, input.modes}.mode(0) == DimMode::kLocked;
}

// From the first to the last of the `rows` rows that `device` holds; nothing if dim 0 cannot have so many rows.
std::optional<RowRange> RowsOfDevice(const Layout& layout, int64_t rows, int64_t device) {
  int64_t first = 0, last = 0, all = 1;
  bool is_empty = false;
  for (const Factor& factor : layout.Factors(0, rows)) {
    const Extent extent = ExtentOf(layout.mesh(), factor.axes, factor.size, device);
    first = first * factor.size + extent.start;
    last = last * factor.size + extent.start + extent.size - 1;
    all *= factor.size;
    is_empty |= extent.size == 0;
  }
  if (all != rows) return std::nullopt;
  return is_empty ? RowRange() : RowRange{first, last + 1};
}

// If one range is empty, the other one.
RowRange Cover(const RowRange& a, const RowRange& b) {
  if (a.size() == 0 || b.size() == 0) return a.size() == 0 ? b : a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

}  // namespace

RowRange RowsOfDomain(const Graph& global, const Graph& local, const Domain& domain, int64_t full,
                      int64_t rows) {
  const RowRange all{0, std::max<int64_t>(rows, 0)};
  if (domain.is_only() || rows < 1 || rows > full) return all;
  MESHWORK_CHECK(domain.mesh() == local.mesh(), "{} and {}", domain.mesh().ToString(),
                 local.mesh().ToString());
  RowRange here;
  bool has_input = false;
  for (size_t a = 0; a < global.arguments().size(); ++a) {
    const ValueInfo& input = global.value(global.arguments()[a].value);
    if (global.arguments()[a].is_variable || input.type.shape.empty() || input.type.shape[0] != full)
      continue;
    if (!IsPinned(input)) return all;
    has_input = true;
    const Layout& layout = *local.value(local.arguments()[a].value).layout;
    for (int64_t i = 0; i < domain.num_devices(); ++i) {
      const std::optional<RowRange> held = RowsOfDevice(layout, rows, domain.first_device() + i);
      if (!held.has_value()) return all;
      here = Cover(here, *held);
    }
  }
  return has_input ? here : all;
}

}  // namespace meshwork
