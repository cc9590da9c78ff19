// Manual regions: code that is written for each device by itself, with its own collectives, inside a global
// program.
//
//   // y = relu(x w1) w2, the hidden dim over "model": the one sum over devices is written by hand.
//   Value y = manual::Region(g, {x, w1, w2},
//                            {{"batch", UNSHARDED}, {UNSHARDED, "model"}, {"model", UNSHARDED}},
//                            {{"batch", UNSHARDED}},
//                            [](Graph&, const std::vector<Value>& block) -> std::vector<Value> {
//                              const Value h = Relu(MatMul(block[0], block[1]));
//                              return {manual::AllReduce(MatMul(h, block[2]), {"model"})};
//                            })[0];
//
// The body sees the blocks that the layouts of the operands cut, as tensors of their own: f32[8,4] of an
// f32[32,8] on four devices. It is built by the same functions as everything else, and by those below, which
// exchange blocks. It returns the blocks of the results, as the results' layouts cut them. Blocks are never
// padded: a layout must divide the dims that it cuts. Values of the surrounding program that a body reads are
// whole on each device.
//
// While the region is built, it is tracked on which axes the devices may hold different values of each value
// in the body (ops/control/variation.h). A result must not vary over an axis that does not cut it, so that all
// devices that hold a block of it hold the same block. A gradient through a region is a region: if a value is
// the same on all devices of an axis, its gradients are added up over the axis.
//
// In the text:
//
//   %y = manual %x, %w (%a: f32[8,4] {batch,model}, %b: f32[4,6] {model,_}) {
//     %0 = matmul %a, %b : f32[8,6]
//     %1 = device_all_reduce %0 axes=(model) op=sum : f32[8,6]
//     %2 = device_block %1 {batch,_} : f32[8,6]
//     return %2
//   } : f32[32,6]
//
// Like JAX's shard_map (docs.jax.dev, "Manual parallelism with shard_map"), including its tracking of varying
// axes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {
namespace manual {

using Axes = std::vector<std::string>;
using Body = std::function<std::vector<Value>(Graph& body, const std::vector<Value>& blocks)>;

// Runs `body` on each device. `graph`: the program, or the body of a loop in it. operands[i]: any shape, cut
// by layouts[i]; result r: the blocks that the body returns, put together by result_layouts[r].
// Errors, recorded: not as many layouts as values; layouts of another rank, with OPEN or MATCH, with strided
// dims, or that do not divide their dims; loops, branches, pins and relayouts in the body; a result that
// varies over an axis that does not cut it.
std::vector<Value> Region(Graph& graph, const std::vector<Value>& operands,
                          const std::vector<LayoutSpec>& layouts,
                          const std::vector<LayoutSpec>& result_layouts, const Body& body,
                          CallSite loc = CallSite::Current());

// A block that a body returns, and the layout of the result that it is a block of.
struct BlockResult {
  Value block;
  LayoutSpec layout;
};
// The same for a body that states the layouts of its results itself.
std::vector<Value> Region(
    Graph& graph, const std::vector<Value>& operands, const std::vector<LayoutSpec>& layouts,
    const std::function<std::vector<BlockResult>(Graph& body, const std::vector<Value>& blocks)>& body,
    CallSite loc = CallSite::Current());

// ---- In a body. `axes`: the devices that differ on these axes alone exchange blocks; there are n such
// devices, counted in row-major order of the axes. Errors: an axis that the mesh does not have or that is
// named twice; a dim that does not exist; the errors of each function.

// The number of a device among those of `axes`: i64[], in [0, n). Random numbers of a body are the same on all
// devices; with this number as the step, each device has its own.
Value AxisIndex(Graph& body, const Axes& axes, CallSite loc = CallSite::Current());
// x: any shape -> the same shape, combined over the devices; all devices have the result. bf16 is added up in f32 and
// rounded once. Has a gradient if `op` is a sum, a maximum or a minimum. Error: x does not vary over one of the axes,
// so that a sum would count it n times.
Value AllReduce(const Value& x, const Axes& axes, ReduceOp op = ReduceOp::kSum,
                CallSite loc = CallSite::Current());
// x: [a,m,b] at dim -> [a,n·m,b], the blocks of the devices one after the other; all devices have the result.
Value AllGather(const Value& x, int64_t dim, const Axes& axes, CallSite loc = CallSite::Current());
// x: [a,m,b] at dim -> [a,m/n,b]: each device has its block of the sum over the devices. Errors: AllReduce's;
// n does not divide m.
Value ReduceScatter(const Value& x, int64_t dim, const Axes& axes, ReduceOp op = ReduceOp::kSum,
                    CallSite loc = CallSite::Current());
// Each device cuts its block into n pieces along dim `to` and gives one piece to each device; each device
// puts the pieces that it gets together along dim `from`: [m,k] -> [n·m,k/n]. Errors: n does not divide k;
// from == to.
Value AllToAll(const Value& x, int64_t from, int64_t to, const Axes& axes,
               CallSite loc = CallSite::Current());
// Each device gives its block to the device `by` places further on, in a ring: device i gets that of device i
// - by.
Value Shift(const Value& x, int64_t by, const Axes& axes, CallSite loc = CallSite::Current());
// x itself, as a value that may differ between the devices of these axes: its gradients are added up over the
// axes only after they have passed here.
Value Vary(const Value& x, const Axes& axes, CallSite loc = CallSite::Current());

// Each device's share of the gradient d L / d wrt[i], where L is the sum of the losses of all devices of `axes`; the
// shares of these devices add up to the gradient. Invalid where no gradient reaches wrt[i]; nothing after a mistake,
// which is recorded. `loss`: a value of the body, a float scalar per device; a loss that all devices have in common
// counts once per device. wrt: values of the body that stand for values of the program around it (Graph::Capture).
// (Gradients, ir/gradients.h, does not know about the exchanges between devices.)
std::optional<std::vector<Value>> OwnGradients(const Value& loss, std::span<const Value> wrt,
                                               const Axes& axes, CallSite loc = CallSite::Current());

}  // namespace manual
}  // namespace meshwork
