#include "meshwork/layout/relayout.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"

namespace meshwork::relayout_test {
namespace {

// "all_to_all (x) 0->1 {_,x}: 448": a step, its result, and the elements that a device sends.
std::string Describe(const RelayoutStep& step) {
  std::string out(RelayoutKindName(step.kind));
  if (!step.axes.empty()) out += " " + step.result.mesh().AxesToString(step.axes);
  if (step.dim >= 0) out += fmt::format(" {}", step.dim);
  if (step.to_dim >= 0) out += fmt::format("->{}", step.to_dim);
  if (step.kind == RelayoutKind::kAllReduce || step.kind == RelayoutKind::kReduceScatter)
    out += fmt::format(" {}", ReduceOpName(step.op));
  return out + fmt::format(" {}: {}", step.result.ToString(), step.wire_elements);
}

std::string Describe(const RelayoutPlan& plan) {
  std::string out;
  for (const RelayoutStep& step : plan.steps) out += (out.empty() ? "" : "; ") + Describe(step);
  return out;
}

TEST(PlanRelayoutTest, PlansTheNamedCases) {
  struct Case {
    const char* mesh;
    Shape shape;
    const char *from, *to, *plan;
    int64_t wire;
  };
  const Case kCases[] = {
      // Nothing to do.
      {"x=8", {64}, "{x}", "{x}", "", 0},
      {"x=8", {64}, "{_ | sum:x}", "{_ | sum:x}", "", 0},
      {"x=4,y=2", {64}, "{y | max:x}", "{y | max:x}", "", 0},
      // Slices are free, and one step whatever the number of axes.
      {"x=8", {64}, "{_}", "{x}", "shard_slice (x) 0 {x}: 0", 0},
      {"x=4,y=2", {64}, "{_}", "{(y,x)}", "shard_slice (y,x) 0 {(y,x)}: 0", 0},
      {"x=4,y=2", {8, 8}, "{_,_}", "{x,y}", "shard_slice (x) 0 {x,_}: 0; shard_slice (y) 1 {x,y}: 0", 0},
      {"x=4,y=2", {64}, "{x}", "{(x,y)}", "shard_slice (y) 0 {(x,y)}: 0", 0},
      // An all-gather moves (n-1)/n of the gathered buffer.
      {"x=8", {64}, "{x}", "{_}", "all_gather (x) 0 {_}: 56", 56},
      {"x=4,y=2", {64}, "{(x,y)}", "{x}", "all_gather (y) 0 {x}: 8", 8},
      {"x=4,y=2", {64}, "{(x,y)}", "{_}", "all_gather (x,y) 0 {_}: 56", 56},
      {"x=4,y=2", {64}, "{x | sum:y}", "{_ | sum:y}", "all_gather (x) 0 {_ | sum:y}: 48", 48},
      {"x=4", {10}, "{x}", "{_}", "all_gather (x) 0 {_}: 7", 7},
      // An all-to-all moves (n-1)/n of a shard.
      {"x=8", {64, 64}, "{x,_}", "{_,x}", "all_to_all (x) 0->1 {_,x}: 448", 448},
      {"x=8", {127, 9}, "{x,_}", "{_,x}", "all_to_all (x) 0->1 {_,x}: 126", 126},  // a block is [16,9]
      {"x=4,y=2", {64, 64}, "{(x,y),_}", "{x,y}", "all_to_all (y) 0->1 {x,y}: 256", 256},
      // Sums: scattered if the axis shards the target, else reduced whole.
      {"x=8", {16, 16}, "{_,_ | sum:x}", "{x,_}", "reduce_scatter (x) 0 sum {x,_}: 224", 224},
      {"x=8", {16, 16}, "{_,_ | sum:x}", "{_,x}", "reduce_scatter (x) 1 sum {_,x}: 224", 224},
      {"x=8", {16, 16}, "{_,_ | sum:x}", "{_,_}", "all_reduce (x) sum {_,_}: 448", 448},
      {"x=8", {16}, "{_ | max:x}", "{_}", "all_reduce (x) max {_}: 28", 28},
      {"x=4,y=2", {16}, "{_ | sum:(x,y)}", "{_}", "all_reduce (x,y) sum {_}: 28", 28},
      {"x=4,y=2", {16}, "{_ | max:(x,y)}", "{_ | max:x}", "all_reduce (y) max {_ | max:x}: 16", 16},
      {"x=4,y=2", {16}, "{_ | sum:(x,y)}", "{_ | sum:y}", "all_reduce (x) sum {_ | sum:y}: 24", 24},
      {"x=4,y=2",
       {16},
       "{_ | sum:(x,y)}",
       "{x}",
       "reduce_scatter (x) 0 sum {x | sum:y}: 12; all_reduce (y) sum {x}: 4",
       16},
      {"x=4,y=2", {16}, "{_ | sum:(x,y)}", "{(x,y)}", "reduce_scatter (x,y) 0 sum {(x,y)}: 14", 14},
      {"x=4,y=2",
       {16},
       "{_ | sum:y}",
       "{(x,y)}",
       "shard_slice (x) 0 {x | sum:y}: 0; reduce_scatter (y) 0 sum {(x,y)}: 2",
       2},
      {"x=2", {}, "{| sum:x}", "{}", "all_reduce (x) sum {}: 1", 1},
      // Blocks with the same bounds are permuted whole; others are exchanged directly, or gathered.
      {"x=4,y=2", {16, 4}, "{(x,y),_}", "{(y,x),_}", "collective_permute {(y,x),_}: 8", 8},
      {"x=4,y=2", {10, 4}, "{(x,y),_}", "{(y,x),_}", "all_to_all_v {(y,x),_}: 8", 8},
      {"x=2,y=2", {8, 8}, "{x,y}", "{y,x}", "collective_permute {y,x}: 16", 16},
      {"x=2,y=2", {8}, "{x}", "{y}", "collective_permute {y}: 4", 4},
      {"x=2,y=2", {7}, "{x}", "{y}", "all_gather (x) 0 {_}: 3; shard_slice (y) 0 {y}: 0", 3},
      {"x=2,y=2,z=2", {8}, "{x | sum:z}", "{y | sum:z}", "collective_permute {y | sum:z}: 4", 4},
      // Several steps in turn.
      {"x=4,y=2", {8, 8}, "{x,y}", "{y,x}", "all_to_all_v {y,x}: 8", 8},
      {"x=4,y=2",
       {16},
       "{x | sum:y}",
       "{(y,x)}",
       "reduce_scatter (y) 0 sum {(x,y)}: 2; collective_permute {(y,x)}: 2",
       4},
      // Parts of an axis are gathered or sharded alone if the axis divides the dim.
      {"x=2*4", {16}, "{x}", "{x:(1)2}", "all_gather (x:(2)4) 0 {x:(1)2}: 6", 6},
      {"x=2*4", {16}, "{x:(1)2}", "{x}", "shard_slice (x:(2)4) 0 {x}: 0", 0},
      {"x=2*4", {17}, "{x}", "{x:(1)2}", "all_to_all_v {x:(1)2}: 12", 12},  // blocks of 3, blocks of 9
      {"x=2*4", {17}, "{x:(1)2}", "{x}", "all_to_all_v {x}: 3", 3},
      {"x=2*4", {16, 16}, "{x,_}", "{x:(1)2,x:(2)4}", "all_to_all (x:(2)4) 0->1 {x:(1)2,x:(2)4}: 24", 24},
      {"x=2*2",
       {5},
       "{_ | sum:x:(2)2}",
       "{x}",
       "reduce_scatter (x:(2)2) 0 sum {x:(2)2}: 2; all_to_all_v {x}: 1",
       3},
      // Elements that the target cuts away are neither sent nor added up.
      {"x=2,y=4", {16, 16}, "{_,x}", "{(x,y),_}", "all_to_all_v {(x,y),_}: 16", 16},
      {"x=2,y=4",
       {16, 16},
       "{y,_}",
       "{(x,y),_}",
       "shard_slice (x) 0 {(y,x),_}: 0; collective_permute {(x,y),_}: 32",
       32},
      {"x=4,y=4",
       {16},
       "{_ | sum:x}",
       "{(x,y)}",
       "shard_slice (y) 0 {y | sum:x}: 0; reduce_scatter (x) 0 sum {(y,x)}: 3; collective_permute {(x,y)}: 1",
       4},
      // Strided dims, in the space of their factors.
      {"x=4", {12}, "{4@x*3}", "{x}", "reshape {x}: 0", 0},
      {"x=4",
       {32},
       "{8@x*4}",
       "{8*4@x}",
       "reshape {x,_}: 0; all_to_all (x) 0->1 {_,x}: 6; reshape {8*4@x}: 0",
       6},
      {"x=2,y=2",
       {16},
       "{4@x*4@y}",
       "{(x,y)}",
       "reshape {x,y}: 0; all_to_all (y) 1->0 {(x,y),_}: 2; reshape {(x,y)}: 0",
       2},
      {"x=2,y=2",
       {12},
       "{4@x*3 | sum:y}",
       "{3*4@y}",
       "reshape {x,_ | sum:y}: 0; all_reduce (y) sum {x,_}: 6; all_gather (x) 0 {_,_}: 6; reshape {_,_}: 0; "
       "shard_slice (y) 1 {_,y}: 0; reshape {3*4@y}: 0",
       12},
      // A dim of no elements moves nothing.
      {"x=8", {0, 64}, "{_,x}", "{_,_}", "all_gather (x) 1 {_,_}: 0", 0},
  };
  for (const Case& c : kCases) {
    const Mesh mesh = Mesh::Parse(c.mesh).value();
    const absl::StatusOr<RelayoutPlan> plan = PlanRelayout(Read(mesh, c.from), Read(mesh, c.to), c.shape);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(Describe(*plan), c.plan) << c.from << " -> " << c.to;
    EXPECT_EQ(plan->wire_elements, c.wire) << c.from << " -> " << c.to;
  }
}

TEST(PlanRelayoutTest, DependsOnTheGroupSizesAndNotOnTheDeviceCount) {
  const Mesh mesh = Mesh::Parse("host=1024,rack=32,chip=32").value();
  const RelayoutPlan plan =
      PlanRelayout(Read(mesh, "{host,_ | sum:chip}"), Read(mesh, "{(host,chip),rack}"), {1 << 20, 64})
          .value();
  EXPECT_EQ(
      Describe(plan),
      "shard_slice (rack) 1 {host,rack | sum:chip}: 0; reduce_scatter (chip) 0 sum {(host,chip),rack}: 1984");
}

}  // namespace
}  // namespace meshwork::relayout_test
