// The transfers of an exchange (ir/exchange.h) between the devices of one process.
//
// A result block is filled, dim by dim, by runs of elements from the devices that differ from its own device
// on the axes that cut the operand. Elements that no operand has get the exchange's value.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/plan/collective.h"
#include "meshwork/runtime/plan/transfer.h"

namespace meshwork {

// Like PlanCollective, for the one result of an exchange. Errors: those of CheckExchange.
absl::StatusOr<std::vector<Transfer>> PlanExchange(const Graph& local, int node,
                                                   const std::vector<ValueBuffers>& buffers);

}  // namespace meshwork
