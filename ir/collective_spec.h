// Collectives as data: what a collective exchanges, whatever the name of its op.
//
// The ops of local programs (`all_reduce`) and those of manual regions (`device_all_reduce`,
// ops/control/manual.h) say their kind in their row (OpRow::collective) and the rest in their attributes. Code
// that depends on the kind of a collective asks here; no name of an op is compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "meshwork/ir/attrs.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/relayout.h"

namespace meshwork {

struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kNone;
  // The group: the devices that differ on these axes alone. The groups of kAllToAllV, kPermute and kExchange
  // follow from the layouts of operand and result (GroupAxes, ir/program_cost.h).
  AxisList axes = {};
  // kAllGather: the dim whose blocks are put together. kReduceScatter: the dim that is cut. kAllToAll: the
  // dim whose blocks are put together, and the dim that is cut. Otherwise -1. Taken from the program
  // unchecked: the operand may have no such dim.
  int64_t dim = -1, to_dim = -1;
  ReduceOp op = ReduceOp::kSum;  // of kAllReduce and kReduceScatter

  // Whether `axes` give the group.
  bool has_axes() const {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter ||
           kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
  }
  bool reduces() const {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
  }
};

// The collective that a node is, or a row with these attributes. For other ops `kind` is kNone.
CollectiveSpec CollectiveOf(const OpRow& row, const Attrs& attrs);
CollectiveSpec CollectiveOf(const Node& node);

// The inverse: the op of local programs, and its attributes. REQUIRES: neither kNone nor kExchange, which has
// more attributes (ir/exchange.h).
std::string_view CollectiveOp(CollectiveKind kind);
Attrs AttrsOf(const CollectiveSpec& collective);

// The relayout step for a collective, and the collective for a relayout step. Nothing for kExchange, nor for
// slices and reshapes, which send nothing.
std::optional<RelayoutKind> RelayoutKindOf(CollectiveKind kind);
std::optional<CollectiveSpec> CollectiveOf(const RelayoutStep& step);

}  // namespace meshwork
