#include "meshwork/train/optim/microbatches.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/optim/optimizers.h"
#include "support/arguments.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork::microbatches_test {
namespace {

// Two layers, 0: the whole batch at once.
Graph Model(const Mesh& mesh, int64_t microbatches, DType dtype = F64, int64_t batch = 32) {
  Graph g(mesh);
  const Value x = g.Input("x", dtype, {batch, 6}, {"batch", UNSHARDED});
  const Value y = g.Input("y", I32, {batch}, {"batch"});
  const Variable w1 = g.Var("w1", GlorotUniform({6, 16}, dtype), {UNSHARDED, UNSHARDED});
  const Variable w2 = g.Var("w2", GlorotUniform({16, 5}, dtype), {UNSHARDED, UNSHARDED});
  const auto loss_of = [&](const std::vector<Value>& part) {
    return SparseSoftmaxCrossEntropy(MatMul(Tanh(MatMul(part[0], w1)), w2), part[1]);
  };
  const Value loss =
      microbatches == 0 ? loss_of({x, y}) : MeanOverMicrobatches(microbatches, {x, y}, loss_of);
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

NumbersByName Numbers(const Graph& graph) {
  return DrawNumbers(graph, /*seed=*/3, [](Random& random, DType dtype, int64_t i) {
    return dtype == I32 ? static_cast<double>(i % 5) : random.Uniform(-1, 1);
  });
}

// A short last batch is cut into as many parts if they divide it, else into more; the mean is that over all its rows.
TEST(MicrobatchesTest, TakeShortBatches) {
  for (const char* mesh : {"batch=1", "batch=2"}) {
    const Graph full = Model(Mesh::Parse(mesh).value(), 4);
    for (int64_t rows : {31, 30, 28, 16, 15, 7, 6, 4, 3, 1}) {
      SCOPED_TRACE(rows);
      const Graph whole = Model(Mesh::Parse("batch=1").value(), 0, F64, rows);
      const auto feeds = Numbers(whole);
      const InterpretedStep want = Interpret(whole, feeds),
                            got = Interpret(Rebatch(full, 32, rows).value(), feeds);
      EXPECT_NEAR(got.outputs.at("loss").Numbers()[0], want.outputs.at("loss").Numbers()[0], 1e-13);
      for (const char* name : {"w1", "w2"}) {
        const std::vector<double> a = got.variables.at(name).Numbers(), b = want.variables.at(name).Numbers();
        for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-13);
      }
    }
  }
}

// The parts of a short batch are of one size and no larger than those of the full batch: 32 rows in 4 parts are 8 each.
TEST(MicrobatchesTest, PartsOfAShortBatchAreNoLarger) {
  const Graph full = Model(Mesh::Parse("batch=2").value(), 4);
  for (int64_t rows = 1; rows <= 32; ++rows) {
    const Graph graph = Rebatch(full, 32, rows).value();
    int64_t length = 0;
    for (const Node& node : graph.nodes())
      if (node.row->name == "scan") length = node.attrs.Get<int64_t>("length");
    EXPECT_EQ(rows % length, 0) << rows;
    EXPECT_LE(rows / length, 8) << rows;
    for (int64_t fewer = std::min<int64_t>(4, rows); fewer < length; ++fewer)
      EXPECT_NE(rows % fewer, 0) << rows << ": " << fewer << " parts would do";
  }
}

TEST(MicrobatchesTest, GiveTheStepOfTheWholeBatchOnOneDevice) {
  const InterpretedStep whole =
      Interpret(Model(Mesh::Parse("batch=1").value(), 0), Numbers(Model(Mesh::Parse("batch=1").value(), 0)));
  for (const char* mesh : {"batch=1", "batch=2", "batch=4"}) {
    for (int64_t count : {1, 2, 4, 8}) {
      const Graph graph = Model(Mesh::Parse(mesh).value(), count);
      ASSERT_TRUE(graph.status().ok()) << graph.status();
      const Program program = Compile(graph).value();
      CpuBackend backend(2);
      std::map<std::string, DTensor> state;
      const auto executor = Executor::Create(program, backend, {}, &state).value();
      std::map<std::string, Tensor> outputs;
      ASSERT_TRUE(executor->Run(PackArguments(graph, Numbers(graph), state).value(), &outputs).ok());
      EXPECT_NEAR(NumbersOf(outputs.at("loss"))[0], whole.outputs.at("loss").Number(), 1e-12);
      for (const auto& [name, value] : whole.variables) {
        const std::vector<double> want = value.Numbers(),
                                  have = NumbersOf(Unpack(state.at(name), true).value());
        for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-12) << name << " " << mesh;
      }
    }
  }
}

// The loss may be of another dtype than the weights, as in mixed precision.
TEST(MicrobatchesTest, TakeLossesOfAnyDtype) {
  const auto digits = [](DType dtype) { return dtype == BF16 ? 2e-2 : dtype == F32 ? 1e-6 : 1e-14; };
  for (const DType weights : {BF16, F32, F64}) {
    for (const DType losses : {BF16, F32, F64}) {
      SCOPED_TRACE(fmt::format("{} {}", DTypeName(weights), DTypeName(losses)));
      const auto gradient = [&](int64_t microbatches) {
        Graph g(Mesh::Parse("batch=2").value());
        const Value x = g.Input("x", weights, {8, 6}, {"batch", UNSHARDED});
        const Variable w = g.Var("w", GlorotUniform({6, 3}, weights), {UNSHARDED, UNSHARDED});
        const auto loss_of = [&](const std::vector<Value>& part) {
          return ReduceMean(Square(InDType(MatMul(part[0], w), losses)));
        };
        const Value loss =
            microbatches == 0 ? loss_of({x}) : MeanOverMicrobatches(microbatches, {x}, loss_of);
        g.Output("gradient", Gradients(loss, {w})[0]);
        EXPECT_EQ(MessageOf(g.status()), "");
        return Interpret(g, Numbers(g)).outputs.at("gradient");
      };
      const HostTensor whole = gradient(0), parts = gradient(4);
      EXPECT_EQ(parts.type(), whole.type());
      double largest = 0;
      for (const double x : whole.Numbers()) largest = std::max(largest, std::abs(x));
      const std::vector<double> want = whole.Numbers(), have = parts.Numbers();
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(have[i], want[i], std::max(digits(weights), digits(losses)) * largest);
    }
  }
}

// A mean square over many microbatches. The weight is cast to `compute` before the loop, which adds up its gradient.
Graph ManyParts(const std::string& mesh, int64_t count, DType compute) {
  constexpr int64_t kRows = 4096;
  const DType dtype = compute == BF16 ? F32 : F64;
  Graph g(Mesh::Parse(mesh).value());
  const Value x = g.Input("x", dtype, {kRows, 6}, {"batch", UNSHARDED});
  const Variable w = g.Var("w", GlorotUniform({6, 4}, dtype), {UNSHARDED, UNSHARDED});
  const Value narrow = Cast(w, compute);
  const Value loss = MeanOverMicrobatches(count, {x}, [&](const std::vector<Value>& part) {
    return ReduceMean(Square(Cast(MatMul(Cast(part[0], compute), narrow), dtype)));
  });
  g.Output("gradient", Gradients(loss, {w})[0]);
  return g;
}

TEST(MicrobatchesTest, GradientsOfManyInBf16AreThoseOfF64) {
  const Graph exact = ManyParts("batch=1", 1, F64);
  const NumbersByName numbers = Numbers(exact);
  const std::vector<double> want = Interpret(exact, numbers).outputs.at("gradient").Numbers();
  double largest = 0;
  for (double number : want) largest = std::max(largest, std::abs(number));
  for (const char* mesh : {"batch=1", "batch=2", "batch=4"}) {
    SCOPED_TRACE(mesh);
    const Graph graph = ManyParts(mesh, 1024, BF16);
    CpuBackend backend(2);
    std::map<std::string, DTensor> state;
    const auto executor = Executor::Create(Compile(graph).value(), backend, {}, &state).value();
    ASSERT_TRUE(Pack(ToTensor(HostTensor(state.at("w").type(), numbers.at("w"))), state.at("w")).ok());
    std::map<std::string, Tensor> outputs;
    const Tensor x = ToTensor(HostTensor({F32, {4096, 6}}, numbers.at("x")));
    ASSERT_TRUE(executor->Run({{"x", x}}, &outputs).ok());
    const std::vector<double> got = NumbersOf(outputs.at("gradient"));
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.01 * largest) << i;
  }
}

// The collectives are those without microbatches: the loop sends nothing, whatever the number of parts.
TEST(MicrobatchesTest, ReduceOnceAfterTheLoop) {
  const Mesh mesh = Mesh::Parse("batch=4").value();
  const std::vector<CollectiveSummary> whole = SummarizeCollectives(Compile(Model(mesh, 0)).value().body);
  for (int64_t count : {2, 4, 8}) {
    const Program program = Compile(Model(mesh, count)).value();
    const std::vector<CollectiveSummary> summary = SummarizeCollectives(program.body);
    ASSERT_EQ(summary.size(), 1u) << PrintGraph(program.body);
    EXPECT_EQ(summary[0].type, "all_reduce");
    EXPECT_EQ(summary[0].bytes, whole[0].bytes);
    EXPECT_LE(summary[0].count, whole[0].count);
    for (const Node& node : program.body.nodes())
      for (const auto& region : node.regions) EXPECT_TRUE(SummarizeCollectives(*region).empty());
  }
}

TEST(MicrobatchesTest, NeedTheMemoryOfOne) {
  const Mesh mesh = Mesh::Parse("batch=4").value();
  const int64_t whole = LogicalPeakBytes(Compile(Model(mesh, 0, F32, 8192)).value().body);
  const int64_t parts = LogicalPeakBytes(Compile(Model(mesh, 16, F32, 8192)).value().body);
  EXPECT_LT(parts, whole);
}

}  // namespace
}  // namespace meshwork::microbatches_test
