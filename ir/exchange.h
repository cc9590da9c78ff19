// An exchange: how a block is put together from pieces that several devices hold, dim by dim.
//
// Slices, paddings, joins, reversals and rolls of a sharded dim are exchanges. So are the edges of
// neighbouring blocks that a convolution needs before it runs on a block (its halo). Per dim, element i of
// the result is element (i * stride + offset) / spacing of an operand, if that is a whole number and lies in
// the operand. If no operand has this element, the result's element is `value`.
//
//   x[8:]                   offset 8
//   x[::2]                  stride 2
//   pad by 3, interior 1    offset -3, spacing 2
//   reverse of 64           stride -1, offset 63
//   roll by 1 of 64         of x and x: offsets -1 and 63
//   concat of 10 and 6      of x and y: offsets 0 and -10
//
// A dim may instead take the windows along a letter of `size` positions (ir/rule.h). The result's axes give
// each device a block of the letter; the device gets the positions of the operand that this block needs, from
// the first one on. These pieces overlap; the result's global dim is all of them side by side.
//
//   convolution, 3 wide, padding 1, height 8, on 4 devices: offset -1, extent 3, size 8
//   x: f32[8] {x}, result: f32[16] {x}, of which device 1 has rows 1..4 of x
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/rule.h"
#include "meshwork/layout/layout.h"
#include "meshwork/layout/traffic.h"

namespace meshwork {

// What happens along one dim.
struct ExchangeDim {
  int64_t stride = 1;                            // not 0; at least 1 for windows
  int64_t spacing = 1;                           // at least 1
  absl::InlinedVector<int64_t, 2> offsets = {};  // per operand
  int64_t size = -1;                             // of the letter, for windows; else -1
  int64_t extent = 1;                            // of windows

  bool is_windows() const { return size >= 0; }
  // Whether each element keeps its index.
  bool IsIdentity() const;
  bool operator==(const ExchangeDim&) const = default;
};

struct Exchange {
  absl::InlinedVector<ExchangeDim, 4> dims;
  double value = 0;

  static Exchange Of(const Attrs& attrs, int num_operands);
  Attrs ToAttrs() const;
  bool operator==(const Exchange& other) const { return dims == other.dims && SameAttr(value, other.value); }
};

// Whether reducing any number of elements that all are `value` gives `value`.
bool ReducesToItself(double value, ReduceOp op);

// Local positions of a result, and the positions of an operand from which they are filled.
struct ExchangeRun {
  int64_t count = 0;  // 0: nothing
  int64_t to = 0, to_step = 1;
  int64_t from = 0, from_step = 1;  // global positions

  bool operator==(const ExchangeRun&) const = default;
};

// The elements that a device takes from the elements `held` of operand `operand`. `block`: the device's block
// of the result or, for windows, of the letter.
ExchangeRun RunOf(const ExchangeDim& dim, int operand, const Extent& block, const Extent& held);

// The positions of an operand's dim that positions `block` of a letter need; size 0 if `block` is empty.
Extent WindowOf(const Window& window, const Extent& block);
// The most positions that a block of `block` positions needs.
int64_t WindowSize(const Window& window, int64_t block);

// `block` for RunOf along dim `d`: the extent of the device's block of the result, or of the letter.
Extent ExchangedExtent(const ExchangeDim& dim, const Layout& to, const Shape& to_shape, int d,
                       int64_t device);

// The rule of an op that is this exchange. A dim along which elements stay in place has one letter for
// operand and result; along other dims, the operand is seen through windows.
Rule MoveRule(const OpView& view, const Exchange& exchange, Passes passes);
// The index of the op's operand that is operand `o` of its exchange (OpRow::exchange).
inline size_t MovedOperand(size_t o, size_t num_operands) { return o < num_operands ? o : num_operands - 1; }

// A letter of `size` positions and a dim of `held` positions are cut by the same `axes`. Returns whether each
// device's block of the dim holds the windows along its block of the letter, so that nothing need be
// exchanged.
bool AreBlocks(const Window& window, const Mesh& mesh, const AxisList& axes, int64_t size, int64_t held);

// The dim along which operands are joined: the operands begin at different places, or have different sizes,
// there. -1: there is none. REQUIRES: CheckExchange.
int JoinedDim(const Graph& local, const Node& node, const Exchange& exchange);

// Errors: attributes that are no exchange of these operands; results that do not fit the exchange. REQUIRES:
// all values have layouts.
absl::Status CheckExchange(const Graph& local, const Node& node);

// The axes along which the exchange moves data.
AxisList ExchangeAxes(const Graph& local, const Node& node);
// The elements that devices send to others and receive from them. Each device takes the elements that it
// lacks from the device that holds them and has the same coordinates on all axes that do not cut the operand.
// If there are more than 1024 devices, only some are examined: those of SomeDevices (layout/traffic.h), and
// those that hold the first, the middle and the last of the elements that the result takes. For a device that
// sends to more than 64 others along a dim, the count is an upper bound.
Traffic ExchangeTraffic(const Graph& local, const Node& node);

}  // namespace meshwork
