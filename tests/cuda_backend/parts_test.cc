// Updates of weights on a simulated GPU: few launches for many weights, with the bits of one launch per weight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend/caught_plan.h"
#include "cuda_backend/played_gpu.h"
#include "cuda_backend/start_weights.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/optim/optimizers.h"
#include "support/long_tests.h"

namespace meshwork::parts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "adam_update f32 bf16: 3" per launch: the op, the dtypes of weights and of gradients (of a cast's operands and
// results), and the number of parts.
std::vector<std::string> PartsIn(const Graph& graph) {
  const StepPlan plan = OrderForFusion(CaughtPlanOf(graph));
  std::vector<std::string> all;
  for (const CudaGroup& group : FindCudaGroups(plan)) {
    if (!group.parts.has_value()) continue;
    const KernelSpec& spec = group.parts->spec;
    const bool is_cast = group.parts->row->name == "cast";
    all.push_back(fmt::format("{} {} {}: {}", group.parts->row->name, DTypeName(spec.operands[0].local.dtype),
                              DTypeName((is_cast ? spec.results[0] : spec.operands[1]).local.dtype),
                              group.parts->parts.size()));
  }
  return all;
}
std::vector<std::string> PartsIn(std::string_view lines) {
  return PartsIn(ParseGraph(fmt::format(R"(mesh []
func step(%g: bf16[4,6] {{_,_}}, %h: f32[7] {{_}}, %n: i64[] {{}}, %k: i64[] {{}}, var %w: f32[4,6] {{_,_}}, var %m: f32[4,6] {{_,_}},
          var %v: f32[4,6] {{_,_}}, var %u: f32[7] {{_}}, var %p: f32[7] {{_}}, var %q: f32[7] {{_}}) {{
{}}})",
                                        lines))
                     .value());
}

TEST(CudaPartsPlanTest, UpdatesOfOneKindAreOneLaunch) {
  EXPECT_THAT(PartsIn(R"(  %e = mul %h, %h
  %w1, %m1, %v1 = adam_update %u, %e, %p, %q, %n learning_rate=0.1
  %d = exp %h
  %s = reduce_sum %d dims=[0]
  %f = cast %w dtype=f32
  %w2, %m2, %v2 = adam_update %w, %f, %m, %v, %n learning_rate=0.1
  update %u = %w1
  update %p = %m1
  update %q = %v1
  update %w = %w2
  update %m = %m2
  update %v = %v2
  return s=%s
)"),
              ElementsAre("adam_update f32 f32: 2"));
}

// A reader of a new weight must not wait for other updates. Another rate is another text, another step another operand.
TEST(CudaPartsPlanTest, UpdatesOfOtherKindsAreNot) {
  constexpr std::string_view kTwo = R"(  %w1, %m1, %v1 = adam_update %u, %h, %p, %q, %n learning_rate=0.1
  {}
  %w2, %m2, %v2 = adam_update %w, %w, %m, %v, {}
  update %u = %w1
  update %w = %w2
  return s=%s
)";
  const std::string_view sum = "%s = reduce_sum %h dims=[0]";
  EXPECT_THAT(PartsIn(fmt::format(kTwo, sum, "%n learning_rate=0.1")), ElementsAre("adam_update f32 f32: 2"));
  EXPECT_THAT(PartsIn(fmt::format(kTwo, sum, "%n learning_rate=0.2")), IsEmpty());
  EXPECT_THAT(PartsIn(fmt::format(kTwo, sum, "%k learning_rate=0.1")), IsEmpty());
  // The second gradient depends on the first new weight.
  EXPECT_THAT(PartsIn(R"(  %w1, %m1, %v1 = adam_update %u, %h, %p, %q, %n learning_rate=0.1
  %w2, %m2, %v2 = adam_update %w1, %h, %m1, %v1, %n learning_rate=0.1
  return s=%w2
)"),
              IsEmpty());
}

TEST(CudaPartsPlanTest, CastsOfGradientsAreDoneByTheUpdate) {
  constexpr std::string_view kCast = R"(  %f = cast %g dtype=f32
  %s = reduce_sum %h dims=[0]
  %w1, %m1, %v1 = adam_update %w, %f, %m, %v, %n learning_rate=0.1
  update %w = %w1
  return s={}
)";
  EXPECT_THAT(PartsIn(fmt::format(kCast, "%s")), ElementsAre("adam_update f32 bf16: 1"));
  // The cast gradient has another reader.
  EXPECT_THAT(PartsIn(fmt::format(kCast, "%f")), IsEmpty());
}

// The casts move to the first product that reads one of them, but not across a write of a variable.
TEST(CudaPartsPlanTest, CastsOfVariablesAreOneLaunch) {
  constexpr std::string_view kCasts = R"(  %a = cast %w dtype=bf16
  %x = matmul %g, %a transpose_b=true
  %b = cast %m dtype=bf16
  %y = matmul %x, %b
  {}
  %c = cast {} dtype=bf16
  %z = matmul %x, %c
  update %v = %o
  return y=%y, z=%z
)";
  EXPECT_THAT(PartsIn(fmt::format(kCasts, "%o = cast %y dtype=f32", "%v")), ElementsAre("cast f32 bf16: 3"));
  EXPECT_THAT(PartsIn(fmt::format(kCasts, "%o = exp %v", "%o")), ElementsAre("cast f32 bf16: 2"));
}

// Dense layers and norms in bf16, with weights in f32.
Graph NetworkOfParts(std::string_view mesh) {
  Graph graph(Mesh::Parse(mesh).value());
  const DimSpec batch = graph.mesh().num_axes() > 0 ? DimSpec("batch") : DimSpec(UNSHARDED);
  const Value x = graph.Input("x", F32, {16, 24}, {batch, UNSHARDED});
  const Value labels = graph.Input("labels", I32, {16}, {batch});
  graph.SetPrecision({.compute = BF16, .variables = F32});
  Value h = x;
  for (const std::string layer : {"a", "b", "c"})
    h = Gelu(Dense(graph, layer, 24, 24)(LayerNormalization(graph, "norm_" + layer, 24)(h)));
  const Value loss = SparseSoftmaxCrossEntropy(Dense(graph, "out", 24, 11)(h), labels);
  AdamW({.learning_rate = 0.01}).Minimize(loss);
  graph.Output("loss", loss);
  return graph;
}

struct TrainedParts {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> state;
  bool operator==(const TrainedParts&) const = default;
};

absl::StatusOr<TrainedParts> TrainParts(Backend& backend, const Graph& graph,
                                        const ExecutorOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph));
  std::map<std::string, DTensor> state;
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                            Executor::Create(program, backend, options, &state));
  MESHWORK_RETURN_IF_ERROR(PackStartWeights(state));
  TrainedParts trained;
  for (int step = 0; step < 5; ++step) {
    std::vector<float> x(16 * 24);
    std::vector<int32_t> labels(16);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(static_cast<double>(i) + step));
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 11);
    std::map<std::string, Tensor> outputs;
    MESHWORK_RETURN_IF_ERROR(executor->Run(
        {{"x", Tensor::From<float>({16, 24}, x)}, {"labels", Tensor::From<int32_t>({16}, labels)}},
        &outputs));
    trained.losses.push_back(outputs.at("loss").Scalar().value());
  }
  for (const auto& [name, variable] : state) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, Unpack(variable));
    if (variable.type().dtype != F32) continue;
    for (const float number : tensor.values<float>()) trained.state[name].push_back(number);
  }
  return trained;
}

// One update for the weights of products, which are cast to bf16, and one for those of the norms.
TEST(CudaPartsPlanTest, ANetworkHasTwoUpdates) {
  EXPECT_THAT(PartsIn(NetworkOfParts("[]")),
              ElementsAre("cast f32 bf16: 8", "adam_update f32 bf16: 8", "adam_update f32 f32: 6"));
}

TEST(CudaPartsRunsTest, TrainingsGiveTheSameBits) {
  for (const std::string_view mesh : {"[]", "[batch=4, model=2]"}) {
    const Graph graph = NetworkOfParts(mesh);
    for (const bool atomic : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, atomic));
      TrainedParts trained[2];
      int64_t launches[2];
      for (const bool fuse : {false, true}) {
        PlayedGpu gpu(1);
        const ExecutorOptions options{.fuse = fuse, .poison_padding = true, .atomic = atomic};
        trained[fuse] = TrainParts(*gpu.MakeBackend().value(), graph, options).value();
        launches[fuse] = gpu.player.launches();
        EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
        EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
      }
      EXPECT_EQ(trained[0], trained[1]);
      EXPECT_NE(trained[1].losses[0], trained[1].losses[4]);
      // In each of five steps, 14 updates and 16 casts became three launches.
      EXPECT_LE(launches[1], launches[0] - 5 * 27);
    }
  }
}

// A profile names the updates that ran.
TEST(CudaPartsRunsTest, AProfileNamesUpdates) {
  PlayedGpu gpu(1);
  const auto backend = gpu.MakeBackend().value();
  const Program program = Compile(NetworkOfParts("[]")).value();
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(program, *backend, {.profile = true}, &state).value();
  std::vector<std::string> updates;
  for (const ProfileRow& row : executor->Profile().rows) {
    if (row.op.find("adam_update") == std::string::npos) continue;
    updates.push_back(row.op + " of " + row.result);
  }
  EXPECT_THAT(updates, ElementsAre("cast+adam_update of 8 tensors", "adam_update of 6 tensors"));
}

TEST(CudaPartsRunsTest, AnyCallMayFail) {
  PlayedGpu gpu(1);
  const Graph graph = NetworkOfParts("[]");
  TrainedParts whole;
  int failed = 0;
  for (int64_t nth = 0;; nth += nth == 0 ? 1 : EverySo(211)) {
    if (nth > 0) gpu.cuda.FailAnyCall(nth, CUDA_ERROR_INVALID_VALUE);
    absl::StatusOr<TrainedParts> trained = absl::ResourceExhaustedError("Memory::Allocate");
    try {
      const auto backend = gpu.MakeBackend();
      trained = backend.ok() ? TrainParts(**backend, graph, {.atomic = true}) : backend.status();
    } catch (const std::bad_alloc&) {
    }
    const std::string call = nth == 0 ? "" : gpu.cuda.failed_call();
    if (nth == 0) whole = trained.value();
    else if (call.empty()) break;
    else if (trained.ok()) EXPECT_EQ(*trained, whole) << call << ", call " << nth;
    else ++failed;
    EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty()) << call << ", call " << nth;
    EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty()) << call << ", call " << nth;
  }
  EXPECT_GT(failed, 2);
}

}  // namespace
}  // namespace meshwork::parts_test
