// An exchange: how a block is put together of what several devices hold, dim by dim.
//
// Slices, paddings, joins, reversals and rolls of a sharded dim are exchanges, and so is what a convolution
// needs of its neighbours before it runs on a block (its halo). Per dim, element i of the result is element
// (i * stride + offset) / spacing of an operand, where that is a whole number and lies in the operand; where
// no operand has it, it is `value`.
//
//   x[8:]                   offset 8
//   x[::2]                  stride 2
//   pad by 3, interior 1    offset -3, spacing 2
//   reverse of 64           stride -1, offset 63
//   roll by 1 of 64         of x and x: offsets -1 and 63
//   concat of 10 and 6      of x and y: offsets 0 and -10
//
// A dim may instead take the windows along a letter of `size` positions (ir/rule.h): each device gets what
// the block of the letter that the result's axes give it needs, from its first needed position on. These
// blocks overlap; the result's global dim is all of them side by side.
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

// Whether a reduction of so many of `value` gives it again, whatever their number.
bool ReducesToItself(double value, ReduceOp op);

// Local positions of a result and the positions of an operand that they are filled from.
struct ExchangeRun {
  int64_t count = 0;  // 0: nothing
  int64_t to = 0, to_step = 1;
  int64_t from = 0, from_step = 1;  // global positions

  bool operator==(const ExchangeRun&) const = default;
};

// What the device with `block` of the result, or of the letter for windows, takes of elements `held` of
// operand `operand`.
ExchangeRun RunOf(const ExchangeDim& dim, int operand, const Extent& block, const Extent& held);

// The positions that positions `block` of a letter need through a window; size 0 if block is empty.
Extent WindowOf(const Window& window, const Extent& block);
// The most that a block of `block` positions needs.
int64_t WindowSize(const Window& window, int64_t block);

// The extent of dim `d` that RunOf is asked for: that of the result's block, or of its letter.
Extent ExchangedExtent(const ExchangeDim& dim, const Layout& to, const Shape& to_shape, int d,
                       int64_t device);

// The rule of an op that is this exchange: a dim along which elements stay where they are has one letter, of
// the others the operand's is seen through windows.
Rule MoveRule(const OpView& view, const Exchange& exchange, Passes passes);
// The operand of the op that is operand `o` of its exchange.
inline size_t MovedOperand(size_t o, size_t num_operands) { return o < num_operands ? o : num_operands - 1; }

// Whether the windows along a letter of `size` positions, cut by `axes`, are what the devices hold anyhow of
// a dim of `held` positions that is cut by the same axes.
bool AreBlocks(const Window& window, const Mesh& mesh, const AxisList& axes, int64_t size, int64_t held);

// The dim along which operands are joined: in which they begin at different places, or have different sizes.
// -1: there is none. REQUIRES: CheckExchange.
int JoinedDim(const Graph& local, const Node& node, const Exchange& exchange);

// Errors: attributes that are no exchange of these operands; results that do not fit it. Layouts are there.
absl::Status CheckExchange(const Graph& local, const Node& node);

// The axes along which its data moves.
AxisList ExchangeAxes(const Graph& local, const Node& node);
// The elements that devices send to others and receive from them: each takes what it lacks from the device
// that holds it and shares its coordinates on all axes that do not cut the operand. Of more than 1024 devices
// some are looked at: those of SomeDevices (layout/traffic.h), and those that hold the first, the middle and
// the last of what the result takes. Where one of them sends to more than 64 along a dim, no less
// than it sends.
Traffic ExchangeTraffic(const Graph& local, const Node& node);

}  // namespace meshwork
