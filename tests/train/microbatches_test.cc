#include "meshwork/train/microbatches.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/control/rebatch.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/plan/memory_report.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/train/initializers.h"
#include "meshwork/train/optimizers.h"
#include "meshwork/train/random.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork {
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

std::map<std::string, std::vector<double>> Numbers(const Graph& graph) {
  std::map<std::string, std::vector<double>> numbers;
  Random random(/*seed=*/3);
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      numbers[info.name].push_back(info.type.dtype == I32 ? static_cast<double>(i % 5)
                                                          : random.Uniform(-1, 1));
  }
  return numbers;
}

// A last batch that is short: in as many parts, or refused with the name of what the user called.
TEST(MicrobatchesTest, TakeShortBatchesThatFallIntoTheParts) {
  for (const char* mesh : {"batch=1", "batch=2"}) {
    const Graph full = Model(Mesh::Parse(mesh).value(), 4);
    for (int64_t rows : {28, 16, 4}) {
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
    for (int64_t rows : {6, 1}) {
      const std::string message(MessageOf(Rebatch(full, 32, rows).status()));
      EXPECT_THAT(message, ::testing::StartsWith("reshape of MeanOverMicrobatches (microbatches_test.cc:"));
      EXPECT_THAT(message,
                  ::testing::EndsWith(
                      "dim 0 of f64[8,4,6] is tied to the batch of 32 and would be no whole number, so the "
                      "program cannot run with " +
                      std::to_string(rows) + "; it runs with multiples of 4."));
    }
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
      const auto numbers = Numbers(graph);
      CpuBackend backend(2);
      std::map<std::string, DTensor> state;
      const auto executor = Executor::Create(program, backend, {}, &state).value();
      std::map<std::string, Tensor> feeds, outputs;
      for (const Argument& argument : graph.arguments()) {
        const ValueInfo& info = graph.value(argument.value);
        const Tensor tensor = ToTensor(HostTensor(info.type, numbers.at(info.name)));
        if (argument.is_variable) ASSERT_TRUE(Pack(tensor, state.at(info.name)).ok());
        else feeds.emplace(info.name, tensor);
      }
      ASSERT_TRUE(executor->Run(feeds, &outputs).ok());
      EXPECT_NEAR(NumbersOf(outputs.at("loss"))[0], whole.outputs.at("loss").Number(), 1e-12);
      for (const auto& [name, value] : whole.variables) {
        const std::vector<double> want = value.Numbers(),
                                  have = NumbersOf(Unpack(state.at(name), true).value());
        for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-12) << name << " " << mesh;
      }
    }
  }
}

// As without microbatches: their loop sends nothing, whatever their number.
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
}  // namespace meshwork
