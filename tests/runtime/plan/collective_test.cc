// Every collective against a direct computation, for every layout of a rank-2 tensor on a few meshes,
// with even, uneven and empty shards, in every run mode.
#include "meshwork/runtime/plan/collective.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/local.h"
#include "runtime/plan/programs.h"

namespace meshwork::collective_test {
namespace {

const Shape kShapes[] = {{12, 12}, {7, 5}, {3, 2}, {1, 1}, {0, 4}};

// Every way to put some of the axes on two dims, in every order.
std::vector<Layout> AllLayouts(const Mesh& mesh) {
  std::vector<Layout> layouts = {Layout::Replicated(mesh, 2)};
  for (size_t i = 0; i < layouts.size(); ++i) {
    const AxisSet used = layouts[i].ShardedAxes();
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (used.Contains(axis)) continue;
      for (int d = 0; d < 2; ++d) {
        AxisList axes = layouts[i].dim(d);
        axes.push_back(axis);
        Layout more = layouts[i].WithDim(d, axes);
        if (std::find(layouts.begin(), layouts.end(), more) == layouts.end())
          layouts.push_back(std::move(more));
      }
    }
  }
  return layouts;
}

ValueInfo InfoOf(std::string name, DType dtype, const Shape& global, const Layout& layout) {
  return {.name = std::move(name),
          .type = {dtype, layout.LocalShape(global)},
          .global = {dtype, global},
          .layout = layout};
}

// x -> the node's result, as output y and, to see every device's buffer, as variable v.
Program OneCollective(const Mesh& mesh, const Shape& shape, const Layout& from,
                      const std::function<ValueId(Graph&, ValueId)>& add) {
  Program program{.body = Graph(mesh)};
  Graph& graph = program.body;
  const ValueId x = graph.AddArgument(InfoOf("x", I32, shape, from), false);
  const ValueId y = add(graph, x);
  graph.AddArgument(InfoOf("v", I32, shape, *graph.value(y).layout), true);
  graph.AddUpdate({1, y});
  graph.AddOutput({"y", y});
  return program;
}

void ExpectMovesNothingElse(const Program& program, const Shape& shape) {
  const Tensor x = Ramp({I32, shape});
  for (const RunMode& mode : {RunMode{1, true}, RunMode{1, false}, RunMode{3, true}, RunMode{2, false}}) {
    const RunResult result = RunProgram(program, {{"x", x}}, {}, mode);
    ASSERT_EQ(result.outputs.size(), 1u);
    ASSERT_TRUE(BitwiseEqual(result.outputs.at("y"), x)) << PrintGraph(program.body) << mode.ToString();
    ASSERT_TRUE(BitwiseEqual(result.variables.at("v"), x)) << PrintGraph(program.body) << mode.ToString();
  }
}

// The non-empty suffixes of a list: the axes that may be removed from a dim.
std::vector<AxisList> Suffixes(const AxisList& axes) {
  std::vector<AxisList> suffixes;
  for (size_t n = 1; n <= axes.size(); ++n) suffixes.emplace_back(axes.end() - n, axes.end());
  return suffixes;
}

class MoveTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Calls f(shape, layout, dim, suffix) for all arguments that all_gather or all_to_all accept.
  template <typename F>
  void ForEachMinorAxes(F&& f) {
    for (const Shape& shape : kShapes)
      for (const Layout& layout : AllLayouts(mesh_))
        for (int d = 0; d < 2; ++d)
          for (const AxisList& axes : Suffixes(layout.dim(d))) f(shape, layout, d, axes);
  }
  ValueId Add(Graph& graph, std::string_view op, ValueId x, Attrs attrs) {
    return graph.nodes()[AddLocalNode(graph, op, {{x}}, attrs, {}, "")].results[0];
  }
  const Mesh mesh_ = Mesh::Parse(GetParam()).value();
};

TEST_P(MoveTest, AllGather) {
  ForEachMinorAxes([&](const Shape& shape, const Layout& layout, int d, const AxisList& axes) {
    ExpectMovesNothingElse(
        OneCollective(mesh_, shape, layout,
                      [&](Graph& graph, ValueId x) {
                        return Add(graph, "all_gather", x, {{"axes", axes}, {"dim", int64_t{d}}});
                      }),
        shape);
  });
}

TEST_P(MoveTest, AllToAll) {
  ForEachMinorAxes([&](const Shape& shape, const Layout& layout, int d, const AxisList& axes) {
    ExpectMovesNothingElse(
        OneCollective(mesh_, shape, layout,
                      [&](Graph& graph, ValueId x) {
                        return Add(graph, "all_to_all", x,
                                   {{"axes", axes}, {"from", int64_t{d}}, {"to", int64_t{1 - d}}});
                      }),
        shape);
  });
}

TEST_P(MoveTest, ShardSlice) {
  for (const Shape& shape : kShapes) {
    for (const Layout& layout : AllLayouts(mesh_)) {
      for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
        if (layout.ShardedAxes().Contains(axis)) continue;
        ExpectMovesNothingElse(
            OneCollective(
                mesh_, shape, layout,
                [&](Graph& graph, ValueId x) {
                  return Add(graph, "shard_slice", x, {{"axes", AxisList{axis}}, {"dim", int64_t{1}}});
                }),
            shape);
      }
    }
  }
}

// From any layout to any other, if every block of the result is a block of the operand.
TEST_P(MoveTest, CollectivePermute) {
  for (const Shape& shape : kShapes) {
    for (const Layout& from : AllLayouts(mesh_)) {
      for (const Layout& to : AllLayouts(mesh_)) {
        const auto permutes = [&] {
          for (int64_t d = 0; d < mesh_.num_devices(); ++d) {
            bool found = false;
            const Block block = to.BlockOf(shape, d);
            for (int64_t e = 0; e < mesh_.num_devices(); ++e) found |= from.BlockOf(shape, e) == block;
            if (!found) return false;
          }
          return from.LocalShape(shape) == to.LocalShape(shape);
        };
        if (!permutes()) continue;
        ExpectMovesNothingElse(
            OneCollective(
                mesh_, shape, from,
                [&](Graph& graph, ValueId x) {
                  Node node{.row = &GetOp("collective_permute")};
                  node.operands = {x};
                  return graph.nodes()[graph.AddNode(node, {InfoOf("", I32, shape, to)})].results[0];
                }),
            shape);
      }
    }
  }
}

// From any layout to any other.
TEST_P(MoveTest, AllToAllV) {
  for (const Shape& shape : kShapes) {
    for (const Layout& from : AllLayouts(mesh_)) {
      for (const Layout& to : AllLayouts(mesh_)) {
        ExpectMovesNothingElse(
            OneCollective(
                mesh_, shape, from,
                [&](Graph& graph, ValueId x) {
                  Node node{.row = &GetOp("all_to_all_v")};
                  node.operands = {x};
                  return graph.nodes()[graph.AddNode(node, {InfoOf("", I32, shape, to)})].results[0];
                }),
            shape);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, MoveTest, ::testing::Values("x=4", "x=2,y=3", "x=1,y=2"));

// ---- Reductions. The terms come from an input whose first dim is sharded by the axes to reduce, one row
// per device, so that term k is the block of input row k.

// The reduction of the rows of `terms` [k,m,n], in the order of the group's ranks.
Tensor ReduceRows(const Tensor& terms, ReduceOp op) {
  const Shape& shape = terms.shape();
  Tensor result({F32, {shape[1], shape[2]}});
  const int64_t n = shape[1] * shape[2];
  for (int64_t i = 0; i < n; ++i) {
    float sum = terms.values<float>()[i];
    for (int64_t k = 1; k < shape[0]; ++k) {
      const float x = terms.values<float>()[k * n + i];
      switch (op) {
        case ReduceOp::kSum: sum += x; break;
        case ReduceOp::kMax: sum = std::max(sum, x); break;
        case ReduceOp::kMin: sum = std::min(sum, x); break;
        case ReduceOp::kProd: sum *= x; break;
        case ReduceOp::kAnd:
        case ReduceOp::kOr: ADD_FAILURE() << "of bools";
      }
    }
    result.mutable_values<float>()[i] = sum;
  }
  return result;
}

// terms {group, rest} -> reduce_sum over the single local row (no change) -> `op` node -> y.
Program OneReduction(const Mesh& mesh, const Shape& shape, const AxisList& group, const Layout& rest,
                     std::string_view name, Attrs attrs) {
  Program program{.body = Graph(mesh)};
  Graph& graph = program.body;
  const Shape terms_shape = {mesh.GroupSize(group), shape[0], shape[1]};
  const Layout terms_layout(mesh, {group, rest.dim(0), rest.dim(1)});
  const ValueId x = graph.AddArgument(InfoOf("x", F32, terms_shape, terms_layout), false);
  PartialSet partials;
  for (int axis : group) partials.push_back({axis, attrs.Get<ReduceOp>("op")});
  Node sum{.row = &GetOp("reduce_sum"),
           .attrs = Graph::CompleteAttrs(GetOp("reduce_sum"), {{"dims", std::vector<int64_t>{0}}}).value()};
  sum.operands = {x};
  const ValueId partial =
      graph.nodes()[graph.AddNode(sum, {InfoOf("", F32, shape, rest.WithPartials(partials))})].results[0];
  const int node = AddLocalNode(graph, name, {{partial}}, attrs, {}, "");
  const ValueId y = graph.nodes()[node].results[0];
  graph.AddArgument(InfoOf("v", F32, shape, *graph.value(y).layout), true);
  graph.AddUpdate({1, y});
  graph.AddOutput({"y", y});
  return program;
}

class ReduceTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Calls f(shape, group, rest) for groups of axes in every order, and layouts without these axes.
  template <typename F>
  void ForEachGroup(F&& f) {
    std::vector<AxisList> groups;
    for (const Layout& layout : AllLayouts(mesh_))
      if (!layout.dim(0).empty() && layout.dim(1).empty()) groups.push_back(layout.dim(0));
    for (const Shape& shape : kShapes)
      for (const AxisList& group : groups)
        for (const Layout& rest : AllLayouts(mesh_))
          if (!rest.ShardedAxes().Intersects(AxisSet(group))) f(shape, group, rest);
  }
  void Expect(const Program& program, const Shape& shape, const AxisList& group, ReduceOp op) {
    const Tensor x = Rough({F32, {mesh_.GroupSize(group), shape[0], shape[1]}});
    const Tensor expected = ReduceRows(x, op);
    // Coalesced devices add up in another order.
    const Tensor near = RunProgram(program, {{"x", x}}, {}, {2, true}).outputs.at("y");
    for (int64_t i = 0; i < near.type().num_elements(); ++i)
      ASSERT_FLOAT_EQ(near.values<float>()[i], expected.values<float>()[i]) << PrintGraph(program.body);
    constexpr bool kApart = false;
    for (const RunMode& mode : {RunMode{1, true, true, kApart}, RunMode{1, false},
                                RunMode{3, true, true, kApart}, RunMode{2, false}}) {
      const RunResult result = RunProgram(program, {{"x", x}}, {}, mode);
      ASSERT_EQ(result.outputs.size(), 1u);
      ASSERT_TRUE(BitwiseEqual(result.outputs.at("y"), expected))
          << PrintGraph(program.body) << mode.ToString();
      ASSERT_TRUE(BitwiseEqual(result.variables.at("v"), expected))
          << PrintGraph(program.body) << mode.ToString();
    }
  }
  const Mesh mesh_ = Mesh::Parse(GetParam()).value();
};

TEST_P(ReduceTest, AllReduce) {
  ForEachGroup([&](const Shape& shape, const AxisList& group, const Layout& rest) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd}) {
      Expect(OneReduction(mesh_, shape, group, rest, "all_reduce", {{"axes", group}, {"op", op}}), shape,
             group, op);
    }
  });
}

TEST_P(ReduceTest, ReduceScatter) {
  ForEachGroup([&](const Shape& shape, const AxisList& group, const Layout& rest) {
    for (int64_t dim : {0, 1}) {
      Expect(OneReduction(mesh_, shape, group, rest, "reduce_scatter",
                          {{"axes", group}, {"dim", dim}, {"op", ReduceOp::kSum}}),
             shape, group, ReduceOp::kSum);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, ReduceTest, ::testing::Values("x=4", "x=2,y=3"));

// ---- Cases that the loops above leave out.

TEST(CollectiveTest, BucketsOfSeveralValuesAndDTypes) {
  const Program program = ParseProgram(R"(mesh [x=3]
func step(%a: f64[1,5] of f64[3,5] {x,_}, %b: i32[1] of i32[3] {x}) {
  %p = reduce_sum %a dims=[0] : f64[5] of f64[5] {_ | sum:x}
  %q = reduce_sum %b dims=[0] : i32[] of i32[] {| sum:x}
  %r, %s = all_reduce %p, %q axes=(x) op=sum : f64[5] of f64[5] {_}, i32[] of i32[] {}
  return r=%r, s=%s
})");
  const Tensor a = Ramp({F64, {3, 5}}), b = Tensor::From<int32_t>({3}, {1, 20, 300});
  for (const RunMode& mode : AllRunModes()) {
    const RunResult result = RunProgram(program, {{"a", a}, {"b", b}}, {}, mode);
    EXPECT_TRUE(BitwiseEqual(result.outputs.at("r"), Tensor::From<double>({5}, {18, 21, 24, 27, 30})));
    EXPECT_EQ(result.outputs.at("s").Scalar().value(), 321);
  }
}

// A permute between {x | sum:y} and {y | sum:x}: both the blocks and the terms change places.
TEST(CollectiveTest, PermuteMovesPartialTerms) {
  const Mesh mesh = Mesh::Parse("x=2,y=2").value();
  Program program{.body = Graph(mesh)};
  Graph& graph = program.body;
  const Shape shape = {4};
  const ValueId a = graph.AddArgument(InfoOf("a", F32, {4, 2}, Layout::Parse(mesh, "{x,y}").value()), false);
  Node sum{.row = &GetOp("reduce_sum"),
           .attrs = Graph::CompleteAttrs(GetOp("reduce_sum"), {{"dims", std::vector<int64_t>{1}}}).value()};
  sum.operands = {a};
  const Layout from = Layout::Parse(mesh, "{x | sum:y}").value(),
               to = Layout::Parse(mesh, "{y | sum:x}").value();
  const ValueId p = graph.nodes()[graph.AddNode(sum, {InfoOf("p", F32, shape, from)})].results[0];
  Node permute{.row = &GetOp("collective_permute")};
  permute.operands = {p};
  const ValueId q = graph.nodes()[graph.AddNode(permute, {InfoOf("q", F32, shape, to)})].results[0];
  const int reduce =
      AddLocalNode(graph, "all_reduce", {{q}}, {{"axes", AxisList{0}}, {"op", ReduceOp::kSum}}, {}, "");
  graph.AddOutput({"y", graph.nodes()[reduce].results[0]});
  for (const RunMode& mode : AllRunModes()) {
    const RunResult result = RunProgram(program, {{"a", Ramp({F32, {4, 2}})}}, {}, mode);
    EXPECT_TRUE(BitwiseEqual(result.outputs.at("y"), Tensor::From<float>({4}, {3, 7, 11, 15})));
  }
}

// Terms stay on their devices while blocks move: {x,_ | sum:y} -> {_,x | sum:y}, in parts.
TEST(CollectiveTest, AllToAllVMovesPartialValues) {
  const Program program = ParseProgram(R"(mesh [x=2, y=2]
func step(%a: f32[2,3,1] of f32[3,3,2] {x,_,y}) {
  %p = reduce_sum %a dims=[2] : f32[2,3] of f32[3,3] {x,_ | sum:y}
  %q = all_to_all_v %p : f32[3,2] of f32[3,3] {_,x | sum:y}
  %r = all_reduce %q axes=(y) op=sum : f32[3,2] of f32[3,3] {_,x}
  return r=%r
})");
  for (const RunMode& mode : AllRunModes()) {
    const RunResult result = RunProgram(program, {{"a", Ramp({F32, {3, 3, 2}})}}, {}, mode);
    EXPECT_TRUE(BitwiseEqual(result.outputs.at("r"),
                             Tensor::From<float>({3, 3}, {3, 7, 11, 15, 19, 23, 27, 31, 35})));
  }
}

// A partial value passes through a gather over another axis.
TEST(CollectiveTest, GathersPartialValues) {
  const Program program = ParseProgram(R"(mesh [x=2, y=2]
func step(%a: f32[2,1] of f32[3,2] {x,y}) {
  %p = reduce_sum %a dims=[1] : f32[2] of f32[3] {x | sum:y}
  %g = all_gather %p axes=(x) dim=0 : f32[3] of f32[3] {_ | sum:y}
  %r = all_reduce %g axes=(y) op=sum : f32[3] of f32[3] {_}
  return r=%r
})");
  for (const RunMode& mode : AllRunModes()) {
    const RunResult result = RunProgram(program, {{"a", Ramp({F32, {3, 2}})}}, {}, mode);
    EXPECT_TRUE(BitwiseEqual(result.outputs.at("r"), Tensor::From<float>({3}, {3, 7, 11})));
  }
}

}  // namespace
}  // namespace meshwork::collective_test
