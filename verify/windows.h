// Windows, for Verify: which ones an op needs, and whether two ops see the same.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"

namespace meshwork {

// Whether two nodes of a global program, of one row and on the same operands, see these through the same
// windows, and do the same on them: as two poolings of which one has padding that no window reaches.
bool SeeAlike(const Graph& global, const Node& a, const Node& b);

// The windows of an op by its rule along dims that the operands of `node`, the op on blocks, are cut in.
// `operands`: of which types the whole tensors are.
std::vector<WindowedDim> WindowsOn(const Graph& local, const Node& node, const Rule& rule,
                                   std::span<const Type> operands);

// Whether operand `o` of `node`, the op on blocks of what `rule` is of, holds what `windows`, those of
// WindowsOn, need. `exchanged`: the exchange that it comes from, if that takes windows.
absl::Status HoldsWindows(const Graph& local, const Node& node, const Rule& rule, size_t o,
                          const std::optional<Exchange>& exchanged, std::span<const WindowedDim> windows);

}  // namespace meshwork
