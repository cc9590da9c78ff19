// Kernels and products that fail on a simulated GPU: the error names the op, and other sessions go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_backend/played_session.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/long_tests.h"
#include "support/small_session.h"
#include "support/small_training.h"

namespace meshwork::faults_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// The errors of a step whose nth kernel or product fails, for n = 1, 2, … up to the last one, or for every
// `every`-th n.
std::vector<std::string> ErrorsOfStep(const ExecutorOptions& options, bool has_cublas, int64_t every = 1) {
  std::vector<std::string> errors;
  RememberingPlayer player(1);
  const Program program = Compile(SmallMlp()).value();
  for (int64_t nth = 1;; nth += every) {
    SimulatedCuda cuda({.seed = 1, .compiler = &player, .has_cublas = has_cublas});
    bool failed = false;
    {
      const auto backend = CudaBackend::Create(CudaContext::Create(cuda.api(), 0).value()).value();
      std::map<std::string, DTensor> state;
      const auto executor = Executor::Create(program, *backend, options, &state).value();
      cuda.FailWork(nth);
      std::map<std::string, Tensor> outputs;
      const absl::Status status = executor->Run(MlpRows(kMlpRows), &outputs);
      failed = !status.ok();
      if (failed) errors.emplace_back(MessageOf(status));
    }
    cuda.FailWork(0);
    EXPECT_THAT(cuda.TakeFindings(), IsEmpty());
    EXPECT_THAT(cuda.TakeLeaks(), IsEmpty());
    if (!failed) return errors;
  }
}

TEST(CudaFaultsTest, NamesTheOpAndItsLine) {
  for (const bool has_cublas : {true, false}) {
    std::string named;
    const std::vector<std::string> errors =
        ErrorsOfStep({.fuse = false, .blocking_launches = true}, has_cublas);
    for (const std::string& error : errors) {
      const std::string begin = "Run: ",
                        end = ": it failed on GPU 0 (Simulated GPU): CUDA_ERROR_ILLEGAL_ADDRESS (";
      ASSERT_THAT(error, AllOf(HasSubstr(begin), HasSubstr(end)));
      const size_t from = error.find(begin) + begin.size();
      const std::string name = error.substr(from, error.find(end) - from);
      EXPECT_THAT(name, AnyOf(HasSubstr(" (small_session.h:"), StartsWith("the copy of ")));
      named += name + "\n";
    }
    EXPECT_GT(errors.size(), 20u);
    for (const char* op : {"matmul (", "tanh (", "argmax (", "the copy of input \"x\"\n"})
      EXPECT_THAT(named, HasSubstr(op));
  }
}

// Op by op and device by device, with collectives between.
TEST(CudaFaultsTest, NamesTheOpOfEachDevice) {
  const std::vector<std::string> errors = ErrorsOfStep(
      {.coalesce = false, .fuse = false, .blocking_launches = true}, /*has_cublas=*/true, EverySo(20));
  EXPECT_GT(errors.size(), 3u);
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(AnyOf(HasSubstr(" (small_session.h:"), HasSubstr("the copy of ")),
                             HasSubstr(": it failed on GPU 0")));
}

TEST(CudaFaultsTest, WithoutWaitingSaysHowToLearnTheOp) {
  const std::vector<std::string> errors = ErrorsOfStep({}, /*has_cublas=*/true);
  EXPECT_GT(errors.size(), 5u);
  for (const std::string& error : errors)
    EXPECT_THAT(error,
                AllOf(HasSubstr("a kernel failed on GPU 0"), HasSubstr("ExecutorOptions::blocking_launches"),
                      HasSubstr("MESHWORK_BLOCKING_LAUNCHES=1"), Not(HasSubstr("small_session.h"))));
}

// Waiting for each launch does not change the numbers, with or without a profile.
TEST(CudaFaultsTest, TrainsAsWithoutWaiting) {
  std::vector<double> losses;
  for (const bool profile : {false, true}) {
    for (const bool blocking : {false, true}) {
      PlayedGpu gpu(1);
      {
        const auto backend = gpu.MakeBackend().value();
        const absl::StatusOr<SmallTraining> trained =
            TrainSmall(*backend, {.blocking_launches = blocking, .profile = profile, .atomic = true});
        ASSERT_TRUE(trained.ok()) << trained.status();
        if (losses.empty()) losses = trained->losses;
        EXPECT_EQ(trained->losses, losses);
      }
      ExpectClean(gpu);
    }
  }
}

// This process then cannot use the GPU: each use says so, and there are no leaks. Other GPUs and the CPU go on.
TEST(CudaFaultsTest, OthersGoOn) {
  for (const bool blocking : {false, true}) {
    RememberingPlayer player(5);
    SimulatedCuda cuda({.gpus = {{}, {}}, .seed = 5, .compiler = &player});
    {
      const auto on = [&](int ordinal) {
        return Session::Create(
                   SmallMlp(),
                   {.backend = CudaBackend::Create(CudaContext::Create(cuda.api(), ordinal).value()).value(),
                    .executor = {.blocking_launches = blocking}})
            .value();
      };
      Session lost = on(0), also_lost = on(0), other = on(1), cpu = OnCpu(SmallMlp());
      ASSERT_TRUE(lost.Run(MlpRows(kMlpRows)).ok());
      cuda.FailWork(4, CUDA_ERROR_ASSERT);
      EXPECT_THAT(MessageOf(lost.Run(MlpRows(kMlpRows)).status()), HasSubstr("CUDA_ERROR_ASSERT"));
      for (Session* session : {&lost, &also_lost}) {
        EXPECT_THAT(
            MessageOf(session->Run(MlpRows(kMlpRows)).status()),
            AllOf(HasSubstr("CUDA_ERROR_ASSERT"), HasSubstr("It is an error of what ran on the GPU before")));
        EXPECT_THAT(MessageOf(session->Get("first/kernel").status()), HasSubstr("start it again"));
        EXPECT_FALSE(session->Set("first/bias", Tensor::Zeros({F32, {6}})).ok());
      }
      EXPECT_THAT(MessageOf(CudaContext::Create(cuda.api(), 0).status()), HasSubstr("GPU 0"));
      for (int step = 0; step < 2; ++step)
        ExpectNear(other.Run(MlpRows(kMlpRows)), cpu.Run(MlpRows(kMlpRows)));
      ExpectStateNear(other, cpu);
    }
    EXPECT_THAT(cuda.TakeFindings(), IsEmpty());
    EXPECT_THAT(cuda.TakeLeaks(), IsEmpty());
  }
}

}  // namespace
}  // namespace meshwork::faults_test
