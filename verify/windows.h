// Windows, for Verify: the windows that an op needs, and whether two ops see the same windows.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"

namespace meshwork {

// Whether two nodes of a global program, of one row and on the same operands, see the operands through the
// same windows and compute the same from them. Example: two poolings, one of which has padding that no window
// reaches.
bool SeeAlike(const Graph& global, const Node& a, const Node& b);

// `node` runs on blocks; `rule` is the rule of the global op it came from. The windows of the rule along
// those dims in which the operands of `node` are cut. `operands`: the types of the whole operands.
std::vector<WindowedDim> WindowsOn(const Graph& local, const Node& node, const Rule& rule,
                                   std::span<const Type> operands);

// Whether operand `o` of `node` holds the elements that `windows` (from WindowsOn) need. `node` and `rule`:
// as for WindowsOn. `exchanged`: the exchange that the operand comes from, if it takes windows.
absl::Status HoldsWindows(const Graph& local, const Node& node, const Rule& rule, size_t o,
                          const std::optional<Exchange>& exchanged, std::span<const WindowedDim> windows);

}  // namespace meshwork
