// Manual regions on meshes of several shapes, and their gradients, give the results of a global program
// without them, on one device, in f64. Padding, and the values that devices must have in common, are checked
// as they run.
#include "meshwork/ops/control/manual.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/arguments.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork::manual_test {
namespace {

using Values = std::vector<Value>;
using Numbers = NumbersByName;

constexpr std::string_view kRegionMeshes[] = {"data=1,model=1", "data=2,model=2", "data=1,model=4",
                                              "data=3,model=2", "data=2,model=3"};

// A program that is written in two ways: by a manual region, and as a global program.
struct RegionCase {
  std::string name;
  std::vector<Type> inputs;
  std::function<Values(const Values& inputs)> manual;
  std::function<Values(const Values& inputs, const Mesh& mesh)> global;  // `mesh`: that of the region
  bool has_gradients = true;
};

// The outputs, and the gradients of their weighted sum, in which each element has a weight of its own.
Graph GraphOf(const RegionCase& c, const Mesh& mesh, bool is_manual) {
  Graph graph(is_manual ? mesh : Mesh());
  Values inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    inputs.push_back(graph.Input(fmt::format("in{}", i), c.inputs[i].dtype, c.inputs[i].shape,
                                 LayoutSpec(c.inputs[i].shape.size(), UNSHARDED)));
  const Values outputs = is_manual ? c.manual(inputs) : c.global(inputs, mesh);
  for (size_t o = 0; o < outputs.size(); ++o) graph.Output(fmt::format("out{}", o), outputs[o]);
  if (!c.has_gradients || !graph.status().ok()) return graph;
  Value loss;
  for (const Value& output : outputs) {
    const Type type = output.type();
    const Type flat{type.dtype, {type.num_elements()}};
    const Value weights = Sin(Iota(graph, flat, 0) + 1.0);
    const Value term =
        ReduceSum(Square(Reshape(output, flat.shape)) * weights + Reshape(output, flat.shape), {0});
    loss = loss.valid() ? loss + term : term;
  }
  const Values gradients = Gradients(loss, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) graph.Output(fmt::format("grad{}", i), gradients[i]);
  return graph;
}

Numbers NumbersFor(const Graph& graph) {
  return DrawNumbers(graph, /*seed=*/7, [](Random& random, DType dtype, int64_t) {
    return dtype == BOOL ? random.Uniform(0, 1) < 0.2 : random.Uniform(-1, 1);
  });
}

void ExpectGives(const Graph& graph, const Numbers& numbers,
                 const std::map<std::string, HostTensor>& expected, bool share) {
  const absl::StatusOr<Program> program = Compile(graph, {});
  ASSERT_TRUE(program.ok()) << program.status() << "\n" << PrintGraph(graph);
  const absl::StatusOr<Graph> read = ParseGraph(PrintGraph(program->body));
  ASSERT_TRUE(read.ok()) << read.status() << "\n" << PrintGraph(program->body);
  EXPECT_EQ(FirstDifference(program->body, *read), "");
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(
      *program, backend, {.share = share, .poison_padding = true, .check_replicas = true}, &state);
  ASSERT_TRUE(executor.ok()) << executor.status() << "\n" << PrintGraph(program->body);
  std::map<std::string, Tensor> outputs;
  ASSERT_TRUE((*executor)->Run(PackArguments(graph, numbers, state).value(), &outputs).ok());
  for (const auto& [name, value] : expected) {
    const std::vector<double> have = NumbersOf(outputs.at(name)), want = value.Numbers();
    ASSERT_EQ(have.size(), want.size()) << name;
    for (size_t i = 0; i < have.size(); ++i)
      ASSERT_NEAR(have[i], want[i], 1e-10 * std::max(1.0, std::abs(want[i]))) << name << "[" << i << "]\n"
                                                                              << PrintGraph(program->body);
  }
}

void ExpectAgree(const RegionCase& c) {
  SCOPED_TRACE(c.name);
  for (std::string_view text : kRegionMeshes) {
    SCOPED_TRACE(text);
    const Mesh mesh = Mesh::Parse(text).value();
    const Graph one = GraphOf(c, mesh, false);
    ASSERT_TRUE(one.status().ok()) << one.status();
    const Graph graph = GraphOf(c, mesh, true);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const absl::StatusOr<Graph> read = ParseGraph(PrintGraph(graph));
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << PrintGraph(graph);
    EXPECT_EQ(FirstDifference(graph, *read), "");
    const Numbers numbers = NumbersFor(graph);
    const auto expected = Interpret(one, numbers).outputs;
    for (bool share : {true, false}) ExpectGives(graph, numbers, expected, share);
    if (testing::Test::HasFatalFailure()) return;
  }
}

const Type kSquare{F64, {12, 12}};
const LayoutSpec kRows = {"model", UNSHARDED}, kColumns = {UNSHARDED, "model"},
                 kWhole = {UNSHARDED, UNSHARDED}, kData = {"data", UNSHARDED}, kBoth = {"data", "model"},
                 kRing = {{"data", "model"}, UNSHARDED};

TEST(Manual, ASumWrittenByHand) {
  ExpectAgree({.name = "two layers",
               .inputs = {kSquare, kSquare, kSquare},
               .manual =
                   [](const Values& in) {
                     return manual::Region(*in[0].graph(), {in[0], in[1], in[2]}, {kData, kColumns, kRows},
                                           {kData}, [](Graph&, const Values& b) -> Values {
                                             const Value h = Tanh(MatMul(b[0], b[1]));
                                             return {manual::AllReduce(MatMul(h, b[2]), {"model"})};
                                           });
                   },
               .global = [](const Values& in, const Mesh&) -> Values {
                 return {MatMul(Tanh(MatMul(in[0], in[1])), in[2])};
               }});
}

TEST(Manual, MaximaAndSums) {
  ExpectAgree(
      {.name = "softmax over a dim that is cut",
       .inputs = {kSquare},
       .manual =
           [](const Values& in) {
             return manual::Region(
                 *in[0].graph(), {in[0]}, {kBoth}, {kBoth, {"data"}}, [](Graph&, const Values& b) -> Values {
                   const Value most = manual::AllReduce(ReduceMax(b[0], {1}), {"model"}, ReduceOp::kMax);
                   const Value e = Exp(b[0] - ExpandDims(most, {1}));
                   const Value sum = manual::AllReduce(ReduceSum(e, {1}), {"model"});
                   return {e / ExpandDims(sum, {1}), most};
                 });
           },
       .global = [](const Values& in, const Mesh&) -> Values {
         return {Softmax(in[0]), ReduceMax(in[0], {1})};
       }});
}

TEST(Manual, GatheredBlocks) {
  ExpectAgree({.name = "x xᵀ",
               .inputs = {kSquare},
               .manual =
                   [](const Values& in) {
                     return manual::Region(*in[0].graph(), {in[0]}, {kRows}, {kRows, kWhole},
                                           [](Graph&, const Values& b) -> Values {
                                             const Value all = manual::AllGather(b[0], 0, {"model"});
                                             return {MatMul(b[0], Transpose(all, {1, 0})), Exp(all)};
                                           });
                   },
               .global = [](const Values& in, const Mesh&) -> Values {
                 return {MatMul(in[0], Transpose(in[0], {1, 0})), Exp(in[0])};
               }});
}

TEST(Manual, ScatteredSums) {
  ExpectAgree({.name = "reduce-scatter",
               .inputs = {kSquare, kSquare},
               .manual =
                   [](const Values& in) {
                     return manual::Region(*in[0].graph(), {in[0], in[1]}, {kColumns, kRows}, {kColumns},
                                           [](Graph&, const Values& b) -> Values {
                                             return {manual::ReduceScatter(MatMul(b[0], b[1]), 1, {"model"})};
                                           });
                   },
               .global = [](const Values& in, const Mesh&) -> Values { return {MatMul(in[0], in[1])}; }});
}

TEST(Manual, BlocksThatChangePlaces) {
  ExpectAgree({.name = "all-to-all",
               .inputs = {kSquare},
               .manual =
                   [](const Values& in) {
                     return manual::Region(*in[0].graph(), {in[0]}, {kRing}, {kBoth},
                                           [](Graph&, const Values& b) -> Values {
                                             return {Sin(manual::AllToAll(b[0], 0, 1, {"model"}))};
                                           });
                   },
               .global = [](const Values& in, const Mesh&) -> Values { return {Sin(in[0])}; }});
}

TEST(Manual, Rings) {
  for (int64_t by : {1, -1, 2, 5}) {
    ExpectAgree(
        {.name = fmt::format("shift by {}", by),
         .inputs = {kSquare},
         .manual =
             [=](const Values& in) {
               return manual::Region(
                   *in[0].graph(), {in[0]}, {kRing}, {kRing, {UNSHARDED}},
                   [=](Graph&, const Values& b) -> Values {
                     const Value sum = ReduceSum(b[0], {0, 1});  // a scalar goes round, too
                     const Value other = manual::Shift(sum, by, {"data", "model"});
                     const Value all = manual::AllReduce(sum * other, {"data", "model"});
                     return {b[0] + Exp(manual::Shift(b[0], by, {"data", "model"})), Reshape(all, {1})};
                   });
             },
         .global = [=](const Values& in, const Mesh& mesh) -> Values {
           const int64_t devices = mesh.num_devices(), rows = 12 / devices;
           const Value sums = ReduceSum(Reshape(in[0], {devices, rows, 12}), {1, 2});
           return {in[0] + Exp(Roll(in[0], by * rows, 0)),
                   ReduceSum(sums * Roll(sums, by, 0), {0}, /*keep_dims=*/true)};
         }});
  }
}

// A ring over both axes, of a value that varies along one of them.
TEST(Manual, ARingOverMoreAxesThanItsBlocksVaryOn) {
  ExpectAgree({.name = "what comes from the neighbour, added up",
               .inputs = {kSquare},
               .manual =
                   [](const Values& in) {
                     return manual::Region(
                         *in[0].graph(), {in[0]}, {kData}, {{UNSHARDED, UNSHARDED, UNSHARDED}},
                         [](Graph&, const Values& b) -> Values {
                           const Value other = manual::Shift(b[0], 1, {"data", "model"});
                           return {manual::AllGather(ExpandDims(Sin(other), {0}), 0, {"data", "model"})};
                         });
                   },
               .global = [](const Values& in, const Mesh& mesh) -> Values {
                 const int64_t data = mesh.axis(0).size, model = mesh.axis(1).size;
                 const Value blocks = Reshape(in[0], {data, 1, 12 / data, 12});
                 const Value held = Reshape(Concat(Values(static_cast<size_t>(model), blocks), 1),
                                            {data * model, 12 / data, 12});
                 return {Sin(Roll(held, 1, 0))};
               }});
}

TEST(Manual, WhatDevicesHaveInCommon) {
  ExpectAgree({.name = "a weight that all have, and a result that all compute",
               .inputs = {kSquare, {F64, {12}}, {F64, {}}},
               .manual =
                   [](const Values& in) {
                     const Value around = Exp(in[2]);
                     return manual::Region(*in[0].graph(), {in[0], in[1]}, {kData, {UNSHARDED}},
                                           {kData, {UNSHARDED}, {"model"}},
                                           [=](Graph&, const Values& b) -> Values {
                                             return {b[0] * b[1] + around, Sin(b[1]) * around, b[1]};
                                           });
                   },
               .global = [](const Values& in, const Mesh& mesh) -> Values {
                 const int64_t models = mesh.axis(1).size;
                 return {in[0] * in[1] + Exp(in[2]), Sin(in[1]) * Exp(in[2]),
                         Concat(Values(static_cast<size_t>(models), in[1]), 0)};
               }});
}

TEST(Manual, TheNumberOfADevice) {
  ExpectAgree({.name = "each its own power",
               .inputs = {kSquare},
               .manual =
                   [](const Values& in) {
                     return manual::Region(
                         *in[0].graph(), {in[0]}, {kRing}, {kRing},
                         [](Graph& body, const Values& b) -> Values {
                           const Value i = Cast(manual::AxisIndex(body, {"data", "model"}), F64);
                           const Value j = Cast(manual::AxisIndex(body, {"model"}), F64);
                           return {b[0] * (i + 1.0) + Square(b[0]) * j};
                         });
                   },
               .global = [](const Values& in, const Mesh& mesh) -> Values {
                 const int64_t devices = mesh.num_devices(), rows = 12 / devices;
                 const Value number = Iota(*in[0].graph(), {I64, {devices, 1, 1}}, 0);
                 const Value i = Cast(number, F64),
                             j = Cast(Remainder(number, static_cast<double>(mesh.axis(1).size)), F64);
                 const Value x = Reshape(in[0], {devices, rows, 12});
                 return {Reshape(x * (i + 1.0) + Square(x) * j, {12, 12})};
               }});
}

TEST(Manual, Bools) {
  ExpectAgree(
      {.name = "or",
       .inputs = {{BOOL, {12, 12}}},
       .manual =
           [](const Values& in) {
             return manual::Region(
                 *in[0].graph(), {in[0]}, {kBoth}, {{"data"}, kBoth}, [](Graph&, const Values& b) -> Values {
                   const Value any = manual::AllReduce(ReduceAny(b[0], {1}), {"model"}, ReduceOp::kOr);
                   const Value all = manual::AllGather(b[0], 1, {"model"});
                   const Value rows =
                       manual::AllToAll(manual::AllToAll(b[0], 1, 0, {"model"}), 0, 1, {"model"});
                   return {And(any, ReduceAny(all, {1})), manual::Shift(rows, 1, {"data"})};
                 });
           },
       .global = [](const Values& in, const Mesh& mesh) -> Values {
         return {ReduceAny(in[0], {1}), Roll(in[0], 12 / mesh.axis(0).size, 0)};
       },
       .has_gradients = false});
}

// The gradient of a gradient: of what devices have in common, of sums, of a ring.
TEST(Manual, SecondGradients) {
  const auto twice = [](const Values& in, const Value& y) -> Values {
    const Value first = Gradients(ReduceSum(Square(y), {0, 1}), {in[1]})[0];
    return {ReduceSum(first * Sin(in[1]), {0}, /*keep_dims=*/true), first};
  };
  ExpectAgree({.name = "twice",
               .inputs = {kSquare, {F64, {12}}},
               .manual =
                   [=](const Values& in) {
                     const Values y = manual::Region(
                         *in[0].graph(), {in[0], in[1]}, {kRing, {UNSHARDED}}, {kRing},
                         [](Graph&, const Values& b) -> Values {
                           const Value all = manual::AllReduce(Exp(b[0] * b[1]), {"model"});
                           return {manual::Shift(b[0] * Sin(b[1]), 1, {"data", "model"}) * all};
                         });
                     return twice(in, y[0]);
                   },
               .global = [=](const Values& in, const Mesh& mesh) -> Values {
                 const int64_t data = mesh.axis(0).size, model = mesh.axis(1).size,
                               rows = 12 / (data * model);
                 const Value terms = Reshape(Exp(in[0] * in[1]), {data, model, rows, 12});
                 const Value all = BroadcastTo(ReduceSum(terms, {1}, /*keep_dims=*/true),
                                               {data, model, rows, 12}, {0, 1, 2, 3});
                 return twice(in, Roll(in[0] * Sin(in[1]), rows, 0) * Reshape(all, {12, 12}));
               }});
}

TEST(Manual, InALoop) {
  ExpectAgree(
      {.name = "each iteration a step of a ring",
       .inputs = {kSquare, {F64, {3, 12}}},
       .manual = [](const Values& in) -> Values {
         const ScanResult r = Scan(
             *in[0].graph(), {in[0]}, {in[1]}, [](Graph& body, const Values& c, const Values& x) -> ScanStep {
               const Values next = manual::Region(
                   body, {c[0], x[0]}, {kRing, {UNSHARDED}}, {kRing}, [](Graph&, const Values& b) -> Values {
                     return {Tanh(manual::Shift(b[0], 1, {"data", "model"}) + b[1])};
                   });
               return {{next[0]}};
             });
         return {r.carries[0]};
       },
       .global = [](const Values& in, const Mesh& mesh) -> Values {
         Value x = in[0];
         for (int64_t t = 0; t < 3; ++t)
           x = Tanh(Roll(x, 12 / mesh.num_devices(), 0) + Reshape(SliceDim(in[1], 0, t, t + 1), {12}));
         return {x};
       }});
}

}  // namespace
}  // namespace meshwork::manual_test
