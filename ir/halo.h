// The exchanges of an op whose operands are cut along dims that it sees through windows (ir/rule.h): what it takes to
// run it on blocks.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/exchange.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"

namespace meshwork {

// The windows along dims by which the operands' layouts cut them. If there are any, an op that only moves elements runs
// as its exchange (OpRow::exchange), and operands of another op get their halos before it.
// operands: with layouts, and with shapes of the whole values.
std::vector<WindowedDim> CutWindows(const Rule& rule, std::span<const ValueInfo* const> operands);

// An exchange after which a device has all that the op reads of an operand.
struct Halo {
  Exchange exchange;
  ValueInfo result;
};
// The halo of operand `i`; nothing if the device's own block is enough. windows: CutWindows; operand: its block.
std::optional<Halo> HaloOf(const Rule& rule, std::span<const WindowedDim> windows, size_t i,
                           const ValueInfo& operand);

// Appends an exchange to a local program; returns its result.
ValueId AddExchange(Graph& local, std::span<const ValueId> operands, const Exchange& exchange,
                    ValueInfo result, SourceLocation location = {}, std::string cause = "");

}  // namespace meshwork
