// Programs on a simulated GPU give the same bits with and without fusion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend/caught_plan.h"
#include "cuda_backend/played_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/check/double_tensor.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/optim/optimizers.h"
#include "support/arguments.h"
#include "support/long_tests.h"
#include "support/random_program.h"
#include "support/random_training.h"

namespace meshwork::fused_runs_test {
namespace {

using ::testing::IsEmpty;

struct Ran {
  std::map<std::string, Tensor> outputs;
  int64_t launches = 0;
  std::vector<std::string> findings;
};

// Two steps.
absl::StatusOr<Ran> RunOnGpu(const RandomProgram& random, uint64_t seed, const ExecutorOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(random.graph));
  PlayedGpu gpu(seed);
  Ran ran;
  {
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<CudaBackend> backend, gpu.MakeBackend());
    std::map<std::string, DTensor> state;
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                              Executor::Create(program, *backend, options, &state));
    MESHWORK_ASSIGN_OR_RETURN(const auto feeds, PackArguments(random.graph, random.feeds, state));
    for (int step = 0; step < 2; ++step) MESHWORK_RETURN_IF_ERROR(executor->Run(feeds, &ran.outputs));
    for (const auto& [name, variable] : state) {
      MESHWORK_ASSIGN_OR_RETURN(ran.outputs["variable " + name], Unpack(variable));
    }
  }
  ran.launches = gpu.player.launches();
  ran.findings = gpu.cuda.TakeFindings();
  return ran;
}

// All numbers, encoded so that == takes all NaNs for equal, and 0 and -0 for different.
std::map<std::string, std::vector<double>> NumbersIn(const Ran& ran) {
  std::map<std::string, std::vector<double>> numbers;
  for (const auto& [name, tensor] : ran.outputs)
    for (const double x : FromBytes(tensor.type(), static_cast<const std::byte*>(tensor.raw())).values)
      numbers[name].push_back(std::isnan(x) ? 1e308 : x == 0 && std::signbit(x) ? 1e-308 : x);
  return numbers;
}

// The host's compiler compiles each program twice.
uint64_t NumFusedPrograms() { return LongTests() ? 300 : 6; }

template <typename Draw>
void TryFused(Draw&& draw) {
  for (uint64_t seed = 1000, tried = 0; tried < NumFusedPrograms(); ++seed) {
    const RandomProgram random = draw(seed);
    if (FindCudaGroups(OrderForFusion(CaughtPlanOf(random.graph))).empty()) continue;
    ++tried;
    const ExecutorOptions options{.poison_padding = true, .check_replicas = seed % 3 == 0};
    ExecutorOptions alone_options = options;
    alone_options.fuse = false;
    const absl::StatusOr<Ran> alone = RunOnGpu(random, seed, alone_options),
                              fused = RunOnGpu(random, seed, options);
    ASSERT_TRUE(alone.ok()) << alone.status();
    ASSERT_TRUE(fused.ok()) << fused.status();
    EXPECT_EQ(NumbersIn(*alone), NumbersIn(*fused)) << "seed " << seed;
    EXPECT_THAT(alone->findings, IsEmpty()) << "seed " << seed;
    EXPECT_THAT(fused->findings, IsEmpty()) << "seed " << seed;
    EXPECT_LT(fused->launches, alone->launches) << "seed " << seed;
  }
}

TEST(CudaFusedRunsTest, RandomProgramsGiveTheSameBits) {
  const RandomPrograms programs;
  TryFused([&](uint64_t seed) { return programs.Draw(seed); });
}

TEST(CudaFusedRunsTest, LoopsAndBranchesGiveTheSameBits) {
  const RandomPrograms programs;
  TryFused([&](uint64_t seed) { return programs.DrawLoops(seed); });
}

TEST(CudaFusedRunsTest, TrainingsGiveTheSameBits) {
  TryFused([](uint64_t seed) { return DrawTraining(seed); });
}

// A transformer's feed-forward network, with norms, gelu and a softmax over classes, in bf16 and f32.
RandomProgram Network(std::string_view mesh) {
  Graph graph(Mesh::Parse(mesh).value());
  const DimSpec batch = graph.mesh().num_axes() > 0 ? DimSpec("batch") : DimSpec(UNSHARDED);
  const Value x = graph.Input("x", F32, {64, 24}, {batch, UNSHARDED});
  const Value labels = graph.Input("labels", I32, {64}, {batch});
  graph.SetPrecision({.compute = BF16, .variables = F32});
  Value h = LayerNormalization(graph, "norm", 24)(x);
  h = Gelu(Dense(graph, "in", 24, 48)(h));
  h = Dense(graph, "out", 48, 12)(h);
  const Value loss = SparseSoftmaxCrossEntropy(h, labels);
  Adam({.learning_rate = 0.01}).Minimize(loss);
  graph.Output("loss", loss);
  RandomProgram program{graph, {}};
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    std::vector<double>& numbers = program.feeds[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      numbers.push_back(IsFloat(info.type.dtype) ? 0.5 + 0.5 * std::sin(static_cast<double>(7 * i))
                                                 : static_cast<double>(i % 12));
  }
  return program;
}

TEST(CudaFusedRunsTest, ANetworkTakesFarFewerLaunches) {
  for (const std::string_view mesh : {"[]", "[batch=4, model=2]"}) {
    const RandomProgram network = Network(mesh);
    const absl::StatusOr<Ran> alone = RunOnGpu(network, 1, {.fuse = false}), fused = RunOnGpu(network, 2, {});
    ASSERT_TRUE(alone.ok()) << alone.status();
    ASSERT_TRUE(fused.ok()) << fused.status();
    EXPECT_EQ(NumbersIn(*alone), NumbersIn(*fused));
    EXPECT_THAT(fused->findings, IsEmpty());
    EXPECT_LT(3 * fused->launches, 2 * alone->launches);
  }
}

// The kernel of these rows asks for more shared memory than a kernel gets by default.
TEST(CudaFusedRunsTest, LongRowsGiveTheSameBits) {
  Graph graph(Mesh::Parse("[]").value());
  const Value x = graph.Input("x", F32, {64, 16400}, {UNSHARDED, UNSHARDED});
  graph.Output("y", Softmax(x, 1));
  RandomProgram program{graph, {}};
  for (int i = 0; i < 64 * 16400; ++i) program.feeds["x"].push_back(std::sin(i));
  const absl::StatusOr<Ran> alone = RunOnGpu(program, 1, {.fuse = false}), fused = RunOnGpu(program, 2, {});
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(NumbersIn(*alone), NumbersIn(*fused));
  EXPECT_THAT(fused->findings, IsEmpty());
  EXPECT_LT(fused->launches, alone->launches);
}

}  // namespace
}  // namespace meshwork::fused_runs_test
