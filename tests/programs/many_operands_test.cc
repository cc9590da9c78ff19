// Every op and node that takes any number of operands, with 200 of them: parsed, compiled, proven and run,
// beside the same program on one device. So many do not fit in a byte.
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/control/manual.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/spmd/compile.h"
#include "support/program_trial.h"

namespace meshwork::many_operands_test {
namespace {

constexpr int kMany = 200;
using Values = std::vector<Value>;

// Inputs of sizes that differ along dim 0: 2, 3, 4, 2, …
Values InputsOf(Graph& g, const LayoutSpec& spec, bool differ = false, Shape shape = {4, 3}) {
  Values inputs;
  for (int i = 0; i < kMany; ++i) {
    if (differ) shape[0] = 2 + i % 3;
    inputs.push_back(g.Input(fmt::format("in{}", i), F64, shape, spec));
  }
  return inputs;
}

struct OperandsCase {
  std::string name;
  std::string_view mesh;
  std::function<void(Graph& g)> build;  // adds outputs
  // The same for one device, where that is another program.
  std::function<void(Graph& g)> reference = nullptr;
};

void PrintTo(const OperandsCase& c, std::ostream* out) { *out << c.name; }

void OutputAll(Graph& g, const Values& values) {
  for (size_t i = 0; i < values.size(); ++i) g.Output(fmt::format("out{}", i), values[i]);
}

Value Total(const Values& values) {
  Value sum = values[0];
  for (size_t i = 1; i < values.size(); ++i) sum = sum + values[i] * (1.0 / static_cast<double>(i));
  return sum;
}

std::vector<OperandsCase> OperandsCases() {
  return {
      {"ConcatAlongASharded", "x=4",
       [](Graph& g) {
         g.Output("y", Concat(InputsOf(g, {"x", UNSHARDED}, true), 0));
       }},
      {"ConcatOfReplicated", "x=4",
       [](Graph& g) {
         g.Output("y", WithLayout(Concat(InputsOf(g, {UNSHARDED, UNSHARDED}), 0), {"x", UNSHARDED}));
       }},
      {"ConcatBesideASharded", "x=4",
       [](Graph& g) {
         g.Output("y", Concat(InputsOf(g, {"x", UNSHARDED}), 1));
       }},
      {"ConcatGradients", "x=2,y=2",
       [](Graph& g) {
         const Values in = InputsOf(g, {"x", "y"}, true);
         OutputAll(g, Gradients(ReduceSum(Sin(Concat(in, 0)), {0, 1}), in));
       }},
      {"Stack", "x=4",
       [](Graph& g) {
         g.Output("y", Stack(InputsOf(g, {"x", UNSHARDED}), 1));
       }},
      {"Einsum", "x=2",
       [](Graph& g) {
         const Values in = InputsOf(g, {"x"}, false, {4});
         std::string equation = "a";
         for (int i = 1; i < kMany; ++i) equation += ",a";
         Values near_one;
         for (const Value& x : in) near_one.push_back(x * 0.01 + 1.0);
         g.Output("y", Einsum(equation + "->", near_one));
       }},
      {"SumsOfProducts", "x=2,y=2",
       [](Graph& g) {
         const Values in = InputsOf(g, {"x", "y"}, false, {4, 4});
         Values products;
         for (const Value& x : in) products.push_back(MatMul(x, in[0]));
         g.Output("y", Total(products));
       }},
      {"ABucketOfGradients", "x=4",
       [](Graph& g) {
         const Value x = g.Input("x", F64, {8, 3}, {"x", UNSHARDED});
         const Values weights = InputsOf(g, {UNSHARDED, UNSHARDED}, false, {3, 2});
         Values parts;
         for (const Value& w : weights) parts.push_back(Sin(MatMul(x, w)));
         const Value loss = ReduceSum(Total(parts), {0, 1});
         g.Output("loss", loss);
         OutputAll(g, Gradients(loss, weights));
       }},
      {"ScanCarries", "x=2,y=2",
       [](Graph& g) {
         const Values in = InputsOf(g, {"x", UNSHARDED});
         OutputAll(g, Scan(g, in, {},
                           [](Graph&, const Values& c, const Values&) {
                             Values next;
                             for (size_t i = 0; i < c.size(); ++i)
                               next.push_back(Sin(c[i]) + c[(i + 1) % c.size()] * 0.5);
                             return ScanStep{next};
                           },
                           {.length = 2})
                          .carries);
       }},
      {"ScanSlicesStackedAndSums", "x=2,y=2",
       [](Graph& g) {
         const Values in = InputsOf(g, {UNSHARDED, "x"});
         const Value w = g.Input("w", F64, {3, 3}, {"x", "y"});
         const ScanResult r = Scan(g, {}, in, [&](Graph&, const Values&, const Values& x) {
           ScanStep step;
           for (const Value& slice : x) step.stacked.push_back(Sin(slice));
           for (const Value& slice : x) step.sums.push_back(MatMul(Reshape(slice, {1, 3}), w));
           return step;
         });
         OutputAll(g, r.stacked);
         g.Output("sum", Total(r.sums));
       }},
      {"ScanOwedCarries", "x=4",
       [](Graph& g) {
         const Value x = g.Input("x", F64, {3, 8, 3}, {UNSHARDED, "x", UNSHARDED});
         const Values in = InputsOf(g, {UNSHARDED, UNSHARDED}, false, {3, 2});
         OutputAll(
             g, Scan(g, in, {x}, [&](Graph&, const Values& c, const Values& slice) {
                  Values next;
                  for (size_t i = 0; i < c.size(); ++i)
                    next.push_back(c[i] * 0.5 + MatMul(Transpose(slice[0], {1, 0}), MatMul(slice[0], in[i])));
                  return ScanStep{next};
                }).carries);
       }},
      {"WhileCarries", "x=4",
       [](Graph& g) {
         Values carries = InputsOf(g, {"x", UNSHARDED});
         carries.insert(carries.begin(), Constant(g, 0, {I64, {}}));
         OutputAll(g, While(
                          g, carries, [](Graph&, const Values& c) { return Less(c[0], 2.0); },
                          [](Graph&, const Values& c) {
                            Values next = {c[0] + 1.0};
                            for (size_t i = 1; i < c.size(); ++i) next.push_back(Sin(c[i]));
                            return next;
                          }));
       }},
      {"IfOperandsAndResults", "x=4",
       [](Graph& g) {
         const Values in = InputsOf(g, {"x", UNSHARDED});
         const Value is = Less(ReduceSum(in[0], {0, 1}), 0.0);
         const auto branch = [&](double by) {
           return [&in, by](Graph&) {
             Values out;
             for (const Value& x : in) out.push_back(x * by);
             return out;
           };
         };
         OutputAll(g, If(is, branch(2), branch(3)));
       }},
      {"ManualRegion", "x=4",
       [](Graph& g) {
         const Values in = InputsOf(g, {UNSHARDED, UNSHARDED});
         const std::vector<LayoutSpec> layouts(in.size(), LayoutSpec{"x", UNSHARDED});
         OutputAll(g, manual::Region(g, in, layouts, layouts, [](Graph&, const Values& blocks) {
                     Values out;
                     for (const Value& block : blocks) out.push_back(manual::Shift(block, 1, {"x"}));
                     return out;
                   }));
       },
       [](Graph& g) {
         Values rolled;
         for (const Value& x : InputsOf(g, {UNSHARDED, UNSHARDED})) rolled.push_back(Roll(x, 1, 0));
         OutputAll(g, rolled);
       }},
      {"RelayoutAmong210Devices", "x=14,y=15",
       [](Graph& g) {
         const Value a = g.Input("a", F64, {28, 45}, {"x", "y"});
         g.Output("swapped", Relayout(a, {"y", "x"}));
         g.Output("merged", Relayout(a, {{"y", "x"}, UNSHARDED}));
       }},
      {"Outputs", "x=2",
       [](Graph& g) {
         OutputAll(g, InputsOf(g, {"x", UNSHARDED}));
       }},
  };
}

class ManyOperandsTest : public testing::TestWithParam<OperandsCase> {};

Graph Built(std::string_view mesh, const std::function<void(Graph& g)>& build) {
  Graph graph(Mesh::Parse(mesh).value());
  graph.name = "many";
  build(graph);
  return graph;
}

TEST_P(ManyOperandsTest, GiveTheOneDeviceResult) {
  const OperandsCase& c = GetParam();
  const Graph built = Built(c.mesh, c.build);
  ASSERT_TRUE(built.status().ok()) << built.status();
  absl::StatusOr<Graph> read = ParseGraph(PrintGraph(built));
  ASSERT_TRUE(read.ok()) << read.status();
  RandomProgram random{*std::move(read), {}};
  int at = 0;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      random.feeds[info.name].push_back(std::sin(static_cast<double>(++at)));
  }
  const Expected expected =
      ExpectedOf({c.reference == nullptr ? random.graph : Built("", c.reference), random.feeds});
  CpuBackend backend(2);
  EXPECT_EQ(TryProgram(random, expected, backend).error(), "");
}

INSTANTIATE_TEST_SUITE_P(Nodes, ManyOperandsTest, testing::ValuesIn(OperandsCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::many_operands_test
