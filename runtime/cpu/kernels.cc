#include "meshwork/runtime/cpu/kernels.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/kernels/blas/crew.h"

namespace meshwork {
namespace {

// The most cuts within instances that run one by one; if there are more, only cuts between instances are
// kept.
constexpr size_t kMostBounds = 4096;

// Where instance i of a node has its operands and results, and which blocks they are.
struct OneInstance {
  std::vector<int64_t> offsets;  // bytes; operands, then results
  std::vector<Block> blocks;     // empty: all instances have the same
};

// Runs `one` for instance after instance.
class OneByOne {
 public:
  OneByOne(Kernel one, size_t num_in, std::vector<OneInstance> instances)
      : one_(std::move(one)), num_in_(num_in), instances_(std::move(instances)) {}

  void operator()(const KernelArgs& args) const {
    absl::InlinedVector<const void*, 8> in(args.in.size());
    absl::InlinedVector<void*, 4> out(args.out.size());
    TeamUnits instances(args.team);
    for (int64_t begin = args.begin; begin < args.end;) {
      const int64_t i = begin / one_.units, first = i * one_.units;
      const OneInstance& instance = instances_[i];
      for (size_t k = 0; k < in.size(); ++k)
        in[k] = static_cast<const std::byte*>(args.in[k]) + instance.offsets[k];
      for (size_t k = 0; k < out.size(); ++k)
        out[k] = static_cast<std::byte*>(args.out[k]) + instance.offsets[num_in_ + k];
      const std::span<const Block> blocks = instance.blocks;
      const int64_t end = std::min(args.end, first + one_.units);
      instances.Run([&] {
        one_.run({.in = in,
                  .out = out,
                  .in_blocks = blocks.empty() ? args.in_blocks : blocks.first(num_in_),
                  .out_blocks = blocks.empty() ? args.out_blocks : blocks.subspan(num_in_),
                  .begin = begin - first,
                  .end = end - first,
                  .team = args.team});
      });
      begin = end;
    }
    instances.Finish();
  }

 private:
  const Kernel one_;
  const size_t num_in_;
  const std::vector<OneInstance> instances_;
};

std::vector<OneInstance> EachInstance(const StepPlan& plan, const ComputeStep& compute) {
  std::vector<OneInstance> each(static_cast<size_t>(compute.items.count()));
  for (int64_t i = 0; i < compute.items.count(); ++i) {
    const int64_t device = compute.items.Representative(i);
    for (const auto* values : {&compute.in, &compute.out})
      for (const ValueBuffers& value : *values)
        each[i].offsets.push_back(value.instances.Of(device) * plan.buffers[value.first].bytes);
    if (compute.blocks.size() > 1) each[i].blocks = compute.blocks[i];
  }
  return each;
}

// The number of outer instances of `items` that an operand that varies over `axes` has; each of them is for
// all inner ones.
int64_t OuterInstances(const Mesh& mesh, AxisSet axes, const InstanceMap& items) {
  int64_t count = 1;
  for (int axis : InstanceOrder(items.axes())) {
    if (!axes.Contains(axis)) break;
    count *= mesh.axis(axis).size;
  }
  return count;
}

Kernel OneByOneKernel(const StepPlan& plan, const ComputeStep& compute, Kernel one) {
  const InstanceMap& items = compute.items;
  Kernel all{.run = {}, .units = items.count() * one.units, .by_rows = one.by_rows, .by_team = one.by_team};
  for (size_t o = 0; o < compute.in.size(); ++o) {
    const AxisSet axes = compute.in[o].instances.axes();
    all.parts.push_back(axes == items.axes() ? items.count() * one.PartsOf(o)
                                             : OuterInstances(plan.graph->mesh(), axes, items));
  }
  if (!one.bounds.empty()) {
    const bool within = one.bounds.size() * static_cast<size_t>(items.count()) <= kMostBounds;
    for (int64_t i = 0; i < items.count(); ++i)
      for (size_t b = 0; b + 1 < (within ? one.bounds.size() : 2); ++b)
        all.bounds.push_back(i * one.units + one.bounds[b]);
    all.bounds.push_back(all.units);
  }
  all.run = OneByOne(std::move(one), compute.in.size(), EachInstance(plan, compute));
  return all;
}

}  // namespace

Kernel MakeKernel(const StepPlan& plan, const ComputeStep& compute) {
  Kernel kernel = CpuKernelOf(*plan.graph->nodes()[compute.node].row)(compute.spec);
  return compute.one_by_one ? OneByOneKernel(plan, compute, std::move(kernel)) : kernel;
}

}  // namespace meshwork
