// Nodes of manual regions (ops/control/manual.h) that exchange blocks: how they are added to a body.
//
//   AddDeviceOp("device_all_reduce", x, axes, {{"op", ReduceOp::kSum}}, location)
//     -> %1 = device_all_reduce %x axes=(model) op=sum
//
// The rows themselves are ManualOps() of ops/control/families.h. Thread-safe for different graphs.
#pragma once

#include <cstdint>
#include <string_view>

#include "meshwork/ir/graph.h"

namespace meshwork {

inline constexpr std::string_view kManualOp = "manual";

// Adds a node among the devices of `axes` to the body of x. `attrs`: those of the row `op` but for `axes` and
// `count`.
Value AddDeviceOp(std::string_view op, const Value& x, const AxisList& axes, Attrs attrs,
                  const SourceLocation& location);

// Adds a device_block: x as the device's block of a result with this layout.
ValueId AddBlockOf(Graph& body, const Value& x, const Layout& layout, const SourceLocation& location);

// size · count. Where 64 bits do not hold the product: a size that no tensor has, which CheckSize refuses.
int64_t GrownSize(int64_t size, int64_t count);

}  // namespace meshwork
