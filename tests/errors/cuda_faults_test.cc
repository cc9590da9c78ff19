// Messages about kernels that fail on a GPU.
#include "errors/errors.h"
#include "gtest/gtest.h"

#ifdef MESHWORK_HAVE_CUDA
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "meshwork/ir/text.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/simulated_cuda.h"

namespace meshwork::cuda_faults_test {
namespace {

// Kernels of any name, which do nothing.
class IdleCompiler : public SimulatedCompiler {
 public:
  absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string&) override {
    return std::make_unique<Idle>();
  }

 private:
  struct Idle : SimulatedKernels {
    absl::Status Launch(const std::string&, Dim3, Dim3, size_t, void**) override { return absl::OkStatus(); }
  };
};

// A product, two groups of ops, a sum between devices; a table that is computed once.
constexpr const char* kLayer = R"(mesh [x=2]
func layer(%a: f32[8,8] {x,_}, %w: f32[8,6] {_,_}, %b: f32[6] {_}) {
  %i = iota dim=0 dtype=f32 shape=[6,6]
  %q = matmul %i, %i
  %p = matmul %a, %w
  %c = broadcast_to %b shape=[8,6] dims=[1]
  %d = add %p, %c
  %e = tanh %d
  %f = exp %e
  %g = neg %f
  %h = sin %g
  %k = matmul %h, %q
  %s = reduce_sum %k dims=[0]
  return s=%s
})";

struct Machine {
  IdleCompiler compiler;
  SimulatedCuda cuda{{.compiler = &compiler}};
  std::unique_ptr<CudaBackend> backend =
      CudaBackend::Create(CudaContext::Create(cuda.api(), 0).value()).value();
  std::map<std::string, DTensor> state;

  absl::StatusOr<std::unique_ptr<Executor>> Prepare(const char* text, ExecutorOptions options) {
    // A debug build would copy and fill more.
    options.check_replicas = options.poison_padding = false;
    return Executor::Create(Compile(ParseGraph(text, "layer.mw").value()).value(), *backend, options, &state);
  }
  static absl::Status Run(Executor& executor, const char* text) {
    const Graph graph = ParseGraph(text, "layer.mw").value();
    std::map<std::string, Tensor> feeds, outputs;
    for (const Argument& argument : graph.arguments())
      feeds.emplace(graph.value(argument.value).name, Tensor::Zeros(graph.value(argument.value).type));
    return executor.Run(feeds, &outputs);
  }
};

TEST(CudaErrors, Faults) {
  // The nth kernel or product of a step fails.
  const auto run = [](int64_t nth, bool blocking, const char* text = kLayer,
                      CUresult result = CUDA_ERROR_ILLEGAL_ADDRESS) {
    Machine machine;
    const auto executor = machine.Prepare(text, {.blocking_launches = blocking}).value();
    machine.cuda.FailWork(nth, result);
    return Machine::Run(*executor, text);
  };
  const auto by_environment = [&] {
    setenv("MESHWORK_BLOCKING_LAUNCHES", "1", 1);
    const absl::Status status = run(4, false);
    unsetenv("MESHWORK_BLOCKING_LAUNCHES");
    return status;
  };
  // One of the kernels that run once, before the steps, fails.
  const auto prepare = [](int64_t nth, bool blocking) {
    Machine machine;
    machine.cuda.FailWork(nth);
    return machine.Prepare(kLayer, {.blocking_launches = blocking}).status();
  };
  const auto run_again = [](bool blocking) {
    Machine machine;
    const auto executor = machine.Prepare(kLayer, {.blocking_launches = blocking}).value();
    machine.cuda.FailWork(1);
    Machine::Run(*executor, kLayer).IgnoreError();
    return Machine::Run(*executor, kLayer);
  };
  const auto prepare_again = [] {
    Machine machine;
    const auto executor = machine.Prepare(kLayer, {}).value();
    machine.cuda.FailWork(1);
    Machine::Run(*executor, kLayer).IgnoreError();
    return machine.Prepare(kLayer, {}).status();
  };
  // The host reads its predicate after the kernel.
  constexpr const char* kBranch = R"(mesh [x=2]
func branch(%a: f32[8] {x}) {
  %s = reduce_sum %a dims=[0]
  %zero = constant value=0 dtype=f32 shape=[]
  %c = greater %s, %zero
  %r = if %c, %a (%a: f32[8]) {
    %t = exp %a
    return %t
  } else (%a: f32[8]) {
    %t = neg %a
    return %t
  }
  return r=%r
})";
  ExpectErrors("cuda_faults", {
                                  MISTAKE(run(1, false)),
                                  MISTAKE(run(1, true)),
                                  MISTAKE(run(6, true)),
                                  MISTAKE(run(7, true)),
                                  MISTAKE(run(8, true)),
                                  MISTAKE(run(4, true)),
                                  MISTAKE(run(4, true, kLayer, CUDA_ERROR_ASSERT)),
                                  MISTAKE(run(4, true, kLayer, CUDA_ERROR_MISALIGNED_ADDRESS)),
                                  MISTAKE(run(4, true, kLayer, CUDA_ERROR_ECC_UNCORRECTABLE)),
                                  MISTAKE(by_environment()),
                                  MISTAKE(prepare(1, false)),
                                  MISTAKE(prepare(1, true)),
                                  MISTAKE(prepare(2, true)),
                                  MISTAKE(run_again(false)),
                                  MISTAKE(run_again(true)),
                                  MISTAKE(prepare_again()),
                                  MISTAKE(run(1, false, kBranch)),
                                  MISTAKE(run(2, true, kBranch)),
                              });
}

}  // namespace
}  // namespace meshwork::cuda_faults_test

#endif  // MESHWORK_HAVE_CUDA
