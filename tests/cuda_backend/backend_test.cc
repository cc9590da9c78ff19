// Programs on a simulated GPU give the numbers of one device of a CPU, in every order of work that the driver and the
// threads of kernels are free to choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend/played_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"
#include "support/small_training.h"

namespace meshwork::backend_test {
namespace {

using ::testing::IsEmpty;

// The host's compiler compiles each program, which takes a second.
uint64_t NumPrograms() { return LongTests() ? 300 : 8; }

// Returns how many products cuBLASLt computed.
template <typename Draw>
int64_t TryAll(Draw&& draw) {
  int tried = 0;
  int64_t products = 0;
  for (uint64_t seed = 0; seed < NumPrograms(); ++seed) {
    const RandomProgram random = draw(seed);
    const Expected expected = ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    PlayedGpu gpu(seed);
    const auto backend = gpu.MakeBackend();
    EXPECT_TRUE(backend.ok()) << backend.status();
    if (!backend.ok()) break;
    EXPECT_EQ(TryProgram(random, expected, **backend).error(), "") << "seed " << seed;
    EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty()) << "seed " << seed;
    products += gpu.cuda.num_products();
    ++tried;
  }
  EXPECT_GT(tried, 0);
  return products;
}

TEST(CudaBackendTest, RandomProgramsGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.Draw(seed); });
}

TEST(CudaBackendTest, LoopsAndBranchesGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.DrawLoops(seed); });
}

TEST(CudaBackendTest, TrainingsGiveTheOneDeviceResult) {
  EXPECT_GT(TryAll([](uint64_t seed) { return DrawTraining(seed); }), 0);
}

// Kernels with the same text that differ only in the number of blocks of their launches, in either order.
TEST(CudaBackendTest, KernelsOfOneTextHaveGridsOfTheirOwn) {
  for (const std::vector<int>& sizes : {std::vector<int>{2, 7, 3}, std::vector<int>{7, 2, 3}}) {
    std::string arguments, nodes, results;
    for (int n : sizes) {
      arguments += fmt::format("{0}%a{1}: f32[{1},4,3] {{_,_,_}}, %b{1}: f32[{1},3,5] {{_,_,_}}",
                               arguments.empty() ? "" : ", ", n);
      nodes += fmt::format(
          "  %p{0} = matmul %a{0}, %b{0}\n  %s{0} = scatter_add %b{0}, %i shape=[{0},4,5] dim=1\n", n);
      results += fmt::format("{0}p{1}=%p{1}, s{1}=%s{1}", results.empty() ? "" : ", ", n);
    }
    const absl::StatusOr<Graph> graph = ParseGraph(
        fmt::format("mesh [x=2]\nfunc f({}) {{\n  %i = iota dim=0 dtype=i32 shape=[3]\n{}  return {}\n}}",
                    arguments, nodes, results));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const RandomProgram program = WithFeeds(*graph);
    PlayedGpu gpu(3);
    const auto backend = gpu.MakeBackend().value();
    EXPECT_EQ(TryProgram(program, ExpectedOf(program), *backend).error(), "");
    EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
  }
}

// A product in a loop's body, whose arguments lie in the memory of the level above; and a product computed only once.
TEST(CudaBackendTest, ProductsAreMadeInLoopsAndBeforeTheFirstStep) {
  const absl::StatusOr<Graph> graph = ParseGraph(R"(mesh [x=2]
func f(%h0: f32[8,6] {x,_}, %xs: f32[5,8,6] {_,x,_}) {
  %i = iota dim=0 dtype=f32 shape=[6,6]
  %w = matmul %i, %i transpose_b=true
  %tenth = constant value=0.01 dtype=f32 shape=[]
  %v = mul %w, %tenth
  %h, %all = scan %h0, %xs, %v length=5 slices=1 (var %h: f32[8,6], %x: f32[8,6], %w: f32[6,6]) {
    %p = matmul %h, %w
    %q = add %p, %x
    %n = tanh %q
    update %h = %n
    return %n
  }
  return last=%h, all=%all
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const RandomProgram program = WithFeeds(*graph);
  PlayedGpu gpu(0);
  const auto backend = gpu.MakeBackend().value();
  EXPECT_EQ(TryProgram(program, ExpectedOf(program), *backend).error(), "");
  EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
  EXPECT_GE(gpu.cuda.num_products(), 6);
}

constexpr std::string_view kProfiled = R"(mesh [x=2]
func f(%a: f32[4,8] {x,_}, %w: f32[8,6] {_,_}) {
  %p = matmul %a, %w
  %s = reduce_sum %p dims=[0,1]
  return s=%s
})";

// With atomic, variables and their spares change places after each step.
TEST(CudaBackendTest, TrainsAsTheCpuDoes) {
  CpuBackend cpu(2);
  const absl::StatusOr<SmallTraining> expected = TrainSmall(cpu, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const bool atomic : {false, true}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      PlayedGpu gpu(seed);
      {
        const auto backend = gpu.MakeBackend().value();
        const absl::StatusOr<SmallTraining> trained =
            TrainSmall(*backend, {.poison_padding = true, .check_replicas = seed % 2 == 1, .atomic = atomic});
        ASSERT_TRUE(trained.ok()) << trained.status();
        for (size_t i = 0; i < 5; ++i)
          EXPECT_NEAR(trained->losses[i], expected->losses[i], 1e-5 * expected->losses[i]);
        EXPECT_EQ(trained->n.values<int64_t>()[0], 5);
        for (size_t i = 0; i < 30; ++i)
          EXPECT_NEAR(trained->w.values<float>()[i], expected->w.values<float>()[i], 1e-6);
      }
      EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
      EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
      EXPECT_EQ(gpu.cuda.num_products() > 0, seed != 3);
    }
  }
}

TEST(CudaBackendTest, ProfilesWhatItLaunches) {
  PlayedGpu gpu(0);
  const auto backend = gpu.MakeBackend().value();
  const RandomProgram program = WithFeeds(ParseGraph(kProfiled).value());
  const Program compiled = Compile(program.graph).value();
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(compiled, *backend, {.profile = true}, &state).value();
  std::map<std::string, Tensor> feeds, outputs;
  feeds = {{"a", Tensor::From<float>({4, 8}, std::vector<float>(32, 1.0f))},
           {"w", Tensor::From<float>({8, 6}, std::vector<float>(48, 2.0f))}};
  EXPECT_EQ(executor->Profile().steps, 0);
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(executor->Run(feeds, &outputs).ok());
  const Profile profile = executor->Profile();
  EXPECT_EQ(profile.workers, 1);
  EXPECT_EQ(profile.steps, 3);
  std::map<std::string, ProfileRow> rows;
  int64_t ns = 0;
  for (const ProfileRow& row : profile.rows) {
    rows[row.op] = row;
    ns += row.ns;
  }
  EXPECT_EQ(ns + profile.other_ns(), profile.wall_ns);
  EXPECT_EQ(rows.at("pack").bytes, 3 * 2 * (32 + 48) * 4);
  EXPECT_EQ(rows.at("unpack").bytes, 3 * 2 * 4);
  EXPECT_EQ(rows.at("matmul").calls, 3);
  EXPECT_EQ(rows.at("matmul").flops, 3 * 2.0 * 4 * 8 * 6);
  EXPECT_EQ(rows.at("matmul").result, "f32[4,6]");
  executor->ClearProfile();
  EXPECT_EQ(executor->Profile().steps, 0);
}

// Whichever call of the driver fails, the training returns a status, or the right numbers if the call was to free
// something. There are no leaks, and freed memory is not touched.
TEST(CudaBackendTest, AnyCallMayFail) {
  PlayedGpu gpu(1);
  std::vector<double> losses;
  int failed = 0;
  for (int64_t nth = 0;; nth += nth == 0 ? 1 : EverySo(3)) {  // nothing fails the first time
    if (nth > 0) gpu.cuda.FailAnyCall(nth, CUDA_ERROR_INVALID_VALUE);
    absl::StatusOr<SmallTraining> trained = absl::ResourceExhaustedError("Memory::Allocate");
    try {
      const auto backend = gpu.MakeBackend();
      trained = backend.ok() ? TrainSmall(**backend, {.atomic = true}) : backend.status();
    } catch (const std::bad_alloc&) {
    }
    const std::string call = nth == 0 ? "" : gpu.cuda.failed_call();
    if (nth == 0) losses = trained.value().losses;
    else if (call.empty()) break;
    else if (trained.ok()) EXPECT_EQ(trained->losses, losses) << call << ", call " << nth;
    else ++failed;
    EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty()) << call << ", call " << nth;
    EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty()) << call << ", call " << nth;
  }
  EXPECT_GT(failed, 100);
}

TEST(CudaBackendTest, HasEveryRowThatComputes) {
  PlayedGpu gpu(0);
  const auto backend = gpu.MakeBackend().value();
  for (const OpRow* row : AllOps())
    if (CpuKernelOf(*row) != nullptr && row->kind != OpKind::kIdentity) {
      EXPECT_TRUE(backend->Has(*row)) << row->name;
    }
}

}  // namespace
}  // namespace meshwork::backend_test
