// Exchanges, for Verify: which op of the global program one is, and which windows an op needs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "ops/exchange.h"
#include "ops/graph.h"
#include "ops/rule.h"

namespace meshwork {

// Whether `node`, of a global program, moves elements as the exchange `local`, of blocks of its operands,
// does.
bool IsMove(const Graph& global, const Node& node, const Exchange& exchange);

// The windows of an op by its rule along dims that the operands of `node`, the op on blocks, are cut in.
// `operands`: of which types the whole tensors are.
std::vector<WindowedDim> WindowsOn(const Graph& local, const Node& node, const Rule& rule,
                                   std::span<const Type> operands);

// Whether operand `o` of `node`, the op on blocks of what `rule` is of, holds what `windows`, those of
// WindowsOn, need. `exchanged`: the exchange that it comes from, if that takes windows.
absl::Status HoldsWindows(const Graph& local, const Node& node, const Rule& rule, size_t o,
                          const std::optional<Exchange>& exchanged, std::span<const WindowedDim> windows);

}  // namespace meshwork
