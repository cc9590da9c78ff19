// The kernels of a step, compiled by several threads and kept one by one.
#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/compile_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_functions.h"
#include "support/simulated_cuda.h"
#include "support/temp_dir.h"

namespace meshwork::compile_kernels_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A source "…\nkernel NAME" has the kernel NAME. Kernel "wrong" does not compile, and "large" runs out of memory.
class NamingCompiler : public SimulatedCompiler {
 public:
  absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string& source) override {
    if (wait_for.valid()) wait_for.wait();
    const std::string name = source.substr(source.rfind(' ') + 1);
    ++compiled[name];
    order.push_back(name);
    if (name == "wrong") return absl::InvalidArgumentError("error: it is wrong");
    if (name == "large") throw std::bad_alloc();
    return std::make_unique<One>(name);
  }

  std::map<std::string, int> compiled;  // how often each kernel was compiled
  std::vector<std::string> order;
  std::shared_future<void> wait_for;

 private:
  class One : public SimulatedKernels {
   public:
    explicit One(std::string name) : name_(std::move(name)) {}
    bool Has(const std::string& name) const override { return name == name_; }
    absl::Status Launch(const std::string&, Dim3, Dim3, size_t, void**) override { return absl::OkStatus(); }

   private:
    const std::string name_;
  };
};

std::vector<CudaKernel> KernelsOf(const std::vector<std::string>& names) {
  std::vector<CudaKernel> kernels;
  for (const std::string& name : names)
    kernels.push_back({.name = name, .source = fmt::format("kernel {}", name), .blocks = 1});
  return kernels;
}

std::vector<std::string> Names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("k{}{}", std::string(i % 7, 'x'), i));
  return names;
}

class CompileKernelsTest : public TempDirTest {
 protected:
  CompileKernelsTest() : cuda_({.compiler = &compiler_}), api_(cuda_.api()) {}

  absl::StatusOr<KernelCodes> Compile(const std::vector<std::string>& names) {
    return CompileKernels(api_, 90, "step", KernelsOf(names));
  }
  // The kernels among `names` that are compiled now.
  std::set<std::string> CompiledOf(const std::vector<std::string>& names) {
    compiler_.compiled.clear();
    const absl::StatusOr<KernelCodes> codes = Compile(names);
    EXPECT_TRUE(codes.ok()) << codes.status();
    std::set<std::string> compiled;
    for (const auto& [name, times] : compiler_.compiled) {
      EXPECT_EQ(times, 1) << name;
      compiled.insert(name);
    }
    if (codes.ok()) {
      EXPECT_EQ(codes->num_compiled, std::ssize(compiled));
    }
    return compiled;
  }
  // Loads the kernels, and finds each one in the code that is reported for it.
  absl::Status Load(const std::vector<std::string>& names) {
    MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaContext> context, CudaContext::Create(api_, 0));
    CudaKernels kernels;
    for (CudaKernel& kernel : KernelsOf(names)) kernels.Add(std::move(kernel));
    return CudaFunctions::Compile(context, "step", kernels).status();
  }

  NamingCompiler compiler_;
  SimulatedCuda cuda_;
  CudaApi api_;
};

TEST_F(CompileKernelsTest, EachIsCompiledOnceByAnyNumberOfThreads) {
  const std::vector<std::string> names = Names(40);
  for (const int threads : {1, 2, 5, 100, 0}) {
    api_.compile_threads = threads;
    EXPECT_EQ(CompiledOf(names), std::set<std::string>(names.begin(), names.end())) << threads;
    const absl::Status loaded = Load(names);
    EXPECT_TRUE(loaded.ok()) << loaded;
    EXPECT_THAT(cuda_.TakeLeaks(), IsEmpty());
  }
  EXPECT_THAT(CompiledOf({}), IsEmpty());
}

TEST_F(CompileKernelsTest, ProgramsShareTheirKernels) {
  api_.compile_threads = 3;
  api_.code_folder = dir() + "/cuda";
  EXPECT_THAT(CompiledOf({"a", "b", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(CompiledOf({"a", "b", "c"}), IsEmpty());
  EXPECT_THAT(CompiledOf({"d", "c", "e", "a"}), ElementsAre("d", "e"));
  const absl::Status loaded = Load({"c", "e", "a", "d", "b"});
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_THAT(compiler_.compiled, testing::SizeIs(2));
}

TEST_F(CompileKernelsTest, NamesTheOneThatDoesNotCompile) {
  for (const int threads : {1, 3}) {
    api_.compile_threads = threads;
    const absl::Status status = Load({"a", "b", "wrong", "c", "d", "e"});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                HasSubstr("step/wrong.cu does not compile for sm_90:\nerror: it is wrong\n"));
    EXPECT_THAT(status.message(), HasSubstr(" | kernel wrong"));
    EXPECT_THAT(cuda_.TakeLeaks(), IsEmpty());
  }
}

// Kernels marked as long are compiled first, then those with the longest text.
TEST_F(CompileKernelsTest, BeginsWithTheLongest) {
  std::vector<CudaKernel> kernels = KernelsOf({"a", "bbb", "cc", "d"});
  kernels[3].is_long = true;
  EXPECT_TRUE(CompileKernels(api_, 90, "step", kernels).ok());
  EXPECT_THAT(compiler_.order, ElementsAre("d", "bbb", "cc", "a"));
}

// Its thread does not begin the kernels after the error.
TEST_F(CompileKernelsTest, StopsAtAnError) {
  EXPECT_FALSE(Compile({"wrong", "a", "b"}).ok());
  EXPECT_THAT(compiler_.compiled, ElementsAre(testing::Pair("wrong", 1)));
}

TEST_F(CompileKernelsTest, ThrowsWhereThereIsNoMemory) {
  for (const int threads : {1, 3}) {
    api_.compile_threads = threads;
    EXPECT_THROW(Compile({"a", "b", "large", "c", "d"}).IgnoreError(), std::bad_alloc);
    EXPECT_THAT(cuda_.TakeLeaks(), IsEmpty());
  }
}

TEST_F(CompileKernelsTest, WithoutNvrtcItSaysWhy) {
  api_.nvrtc_status = absl::FailedPreconditionError("CUDA: there is no libnvrtc.so.");
  EXPECT_EQ(Compile({"a"}).status(), api_.nvrtc_status);
}

TEST_F(CompileKernelsTest, WhicheverCallFailsNothingIsLeft) {
  api_.compile_threads = 3;
  const std::vector<std::string> names = Names(5);
  int64_t refused = 0;
  for (int64_t nth = 1;; ++nth) {
    ASSERT_LT(nth, 200);
    cuda_.FailAnyCall(nth);
    const absl::Status status = Load(names);
    const std::string failed = cuda_.failed_call();
    const bool released = cuda_.failed_call_released();
    EXPECT_THAT(cuda_.TakeLeaks(), IsEmpty()) << failed << ", call " << nth;
    if (failed.empty()) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    // A failed release cannot be reported; destructors also make their context current.
    if (released || (failed == "cuCtxPushCurrent" && status.ok())) continue;
    ++refused;
    EXPECT_FALSE(status.ok()) << failed << ", call " << nth;
  }
  EXPECT_GT(refused, 5 * 6);
}

// ---- Reports of long compilations.

TEST_F(CompileKernelsTest, SaysThatItTakesLong) {
  std::vector<std::string> lines;
  std::promise<void> reported;
  api_.compile_threads = 2;
  api_.report_after = std::chrono::milliseconds(0);
  api_.code_folder = dir() + "/cuda";
  api_.report = [&](std::string_view line) {
    lines.emplace_back(line);
    reported.set_value();
  };
  compiler_.wait_for = reported.get_future().share();
  EXPECT_THAT(CompiledOf({"a", "b", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(lines,
              ElementsAre(fmt::format(
                  "CUDA: 3 kernels of \"step\" are being compiled for sm_90 by 2 threads; 0 done after 0.0 "
                  "seconds; the next run finds them in {}",
                  api_.code_folder)));
  // Everything is compiled already.
  lines.clear();
  EXPECT_THAT(CompiledOf({"a", "b", "c"}), IsEmpty());
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(CompileKernelsTest, SaysNothingOfWhatIsQuick) {
  int lines = 0;
  api_.report_after = std::chrono::hours(1);
  api_.report = [&](std::string_view) { ++lines; };
  EXPECT_THAT(CompiledOf({"a", "b"}), ElementsAre("a", "b"));
  EXPECT_EQ(lines, 0);
}

}  // namespace
}  // namespace meshwork::compile_kernels_test

#endif  // MESHWORK_HAVE_CUDA
