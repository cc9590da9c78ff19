// Messages if there is no GPU, if its memory is short, or if work on it fails.
#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/gpus.h"

#ifdef MESHWORK_HAVE_CUDA
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/runtime/cuda/code_backend.h"
#include "meshwork/runtime/cuda/cuda_convolutions.h"
#include "meshwork/runtime/cuda/nccl_group.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/spmd/compile.h"
#include "runtime/cuda/gpu_fixture.h"
#include "support/counted_end.h"
#include "support/cross_device_ops.h"
#endif

namespace meshwork::cuda_test {
namespace {

#ifndef MESHWORK_HAVE_CUDA

TEST(CudaErrors, None) { ExpectErrors("cuda_none", {MISTAKE(ListGpus()), MISTAKE(CudaBackend::Create())}); }

#else

// A machine that lacks something.
absl::Status Load(const SimulatedCudaOptions& options, const std::string& lacks = "none") {
  const SimulatedCuda cuda(options);
  LibraryLoader loader = cuda.loader();
  loader.open = [open = loader.open, lacks](const std::string& file) {
    return file.starts_with(lacks) ? nullptr : open(file);
  };
  loader.find = [find = loader.find, lacks](void* library, const std::string& symbol) {
    return symbol.starts_with(lacks) ? nullptr : find(library, symbol);
  };
  const absl::StatusOr<CudaApi> api = LoadCudaApi(loader);
  if (!api.ok()) return api.status();
  for (const absl::Status& status : {api->nvrtc_status, api->cublas_status, api->cudnn_status})
    if (!status.ok()) return status;
  return api->nccl_status;
}

TEST(CudaErrors, Machines) {
  auto fails = [](const char* function, CUresult result) {
    SimulatedCuda cuda;
    cuda.FailCall(function, 1, result);
    const absl::StatusOr<CudaApi> api = LoadCudaApi(cuda.loader());
    return api.ok() ? ListGpus(*api).status() : api.status();
  };
  auto without = [](const char* variable) {
    setenv(variable, "off", /*overwrite=*/1);
    absl::Status status = Load({});
    unsetenv(variable);
    return status;
  };
  auto none_counted = [] {
    const SimulatedCuda cuda({.gpus = {}});
    return ListGpus(cuda.api());
  };
  auto context = [](int ordinal, const SimulatedGpu& gpu) {
    const SimulatedCuda cuda({.gpus = {gpu}});
    return CudaContext::Create(cuda.api(), ordinal).status();
  };
  ExpectErrors("cuda_machines", {
                                    MISTAKE(Load({}, "libcuda")),
                                    MISTAKE(Load({.driver_version = 11080})),
                                    MISTAKE(Load({}, "cuDriverGetVersion")),
                                    MISTAKE(Load({}, "cuMemAllocAsync")),
                                    MISTAKE(Load({}, "cuEventElapsedTime")),
                                    MISTAKE(Load({.gpus = {}})),
                                    MISTAKE(Load({}, "libnvrtc")),
                                    MISTAKE(Load({}, "nvrtcGetPTX")),
                                    MISTAKE(Load({.driver_version = 12040})),
                                    MISTAKE(Load({}, "libcublasLt")),
                                    MISTAKE(Load({}, "cublasLtMatmul")),
                                    MISTAKE(Load({}, "libcudnn")),
                                    MISTAKE(Load({}, "cudnnGetVersion")),
                                    MISTAKE(Load({}, "cudnnBackendExecute")),
                                    MISTAKE(without("MESHWORK_CUDNN")),
                                    MISTAKE(Load({}, "libnccl")),
                                    MISTAKE(Load({.nccl_version = 21703})),
                                    MISTAKE(Load({}, "ncclGetVersion")),
                                    MISTAKE(Load({}, "ncclSend")),
                                    MISTAKE(without("MESHWORK_NCCL")),
                                    MISTAKE(fails("cuInit", CUDA_ERROR_UNKNOWN)),
                                    MISTAKE(fails("cuDeviceGetCount", CUDA_ERROR_UNKNOWN)),
                                    MISTAKE(fails("cuDevicePrimaryCtxRetain", CUDA_ERROR_DEVICE_UNAVAILABLE)),
                                    MISTAKE(none_counted()),
                                    MISTAKE(context(1, {})),
                                    MISTAKE(context(-1, {})),
                                    MISTAKE(context(0, {.has_pools = false})),
                                });
}

TEST(CudaErrors, Memory) {
  auto allocate = [](int64_t bytes, const char* failing = "") {
    GpuPlayer gpu(0, {{.bytes = 1000}});
    gpu.cuda.FailCall(failing, *failing == '\0' ? 0 : 1);
    const CudaBuffer x = CudaBuffer::Allocate(gpu.stream, 600).value();
    return CudaBuffer::Allocate(gpu.stream, bytes).status();
  };
  // No memory, and nobody says how much there is.
  auto nobody_knows = [] {
    GpuPlayer gpu(0, {{.bytes = 1000}});
    gpu.cuda.FailCall("cuMemGetInfo", 1);
    return CudaBuffer::Allocate(gpu.stream, 1001).status();
  };
  auto pin = [](int64_t bytes) {
    GpuPlayer gpu;
    gpu.cuda.FailCall("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    return PinnedBuffer::Allocate(gpu.context, bytes).status();
  };
  auto while_capturing = [] {
    GpuPlayer gpu;
    return CudaGraph::Capture(*gpu.stream, [&] { return CudaBuffer::Allocate(gpu.stream, 64).status(); })
        .status();
  };
  ExpectErrors("cuda_memory", {
                                  MISTAKE(allocate(401)),
                                  MISTAKE(nobody_knows()),
                                  MISTAKE(pin(4096)),
                                  MISTAKE(while_capturing()),
                              });
}

// The error that follows if this function of the table fails.
absl::Status Failing(const char* function, const std::function<absl::Status(GpuPlayer&)>& use) {
  GpuPlayer gpu;
  gpu.cuda.FailCall(function, 1);
  const absl::Status status = use(gpu);
  EXPECT_EQ(gpu.cuda.failed_call(), function);
  return status;
}

TEST(CudaErrors, Calls) {
  const auto copy = [](GpuPlayer& gpu) -> absl::Status {
    const CudaBuffer x = gpu.NewBuffer(4), y = gpu.NewBuffer(4);
    float host[4];
    MESHWORK_RETURN_IF_ERROR(Fill(*gpu.stream, x.address(), std::byte{0}, 1));
    MESHWORK_RETURN_IF_ERROR(CopyToDevice(*gpu.stream, x.address(), host, 16));
    MESHWORK_RETURN_IF_ERROR(CopyOnDevice(*gpu.stream, y.address(), x.address(), 16));
    MESHWORK_RETURN_IF_ERROR(
        CopyBetweenDevices(*gpu.stream, *gpu.context, y.address(), *gpu.context, x.address(), 16));
    return CopyToHost(*gpu.stream, host, y.address(), 16);
  };
  const auto order = [](GpuPlayer& gpu) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const auto stream, CudaStream::Create(gpu.context));
    MESHWORK_ASSIGN_OR_RETURN(const auto event, CudaEvent::Create(gpu.context, CudaEvent::Kind::kTiming));
    MESHWORK_RETURN_IF_ERROR(event->Record(*stream));
    MESHWORK_RETURN_IF_ERROR(gpu.stream->Wait(*event));
    MESHWORK_RETURN_IF_ERROR(gpu.stream->IsDone().status());
    MESHWORK_RETURN_IF_ERROR(gpu.stream->Synchronize());
    MESHWORK_RETURN_IF_ERROR(event->IsDone().status());
    MESHWORK_RETURN_IF_ERROR(event->Synchronize());
    MESHWORK_RETURN_IF_ERROR(event->MillisecondsSince(*event).status());
    MESHWORK_RETURN_IF_ERROR(gpu.context->Synchronize());
    return gpu.context->Trim();
  };
  const auto graph = [](GpuPlayer& gpu) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const CudaGraph graph, CudaGraph::Capture(*gpu.stream, [&] {
                                return gpu.Launch("write", *gpu.stream,
                                                  Arguments(CUdeviceptr{0}, int64_t{0}, 1.0f));
                              }));
    return graph.Launch(*gpu.stream);
  };
  std::vector<Mistake> mistakes;
  for (const char* function : {"cuMemsetD8Async", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync",
                               "cuMemcpyPeerAsync", "cuMemcpyDtoHAsync"})
    mistakes.emplace_back(function, [=] { return Failing(function, copy); });
  for (const char* function :
       {"cuCtxPushCurrent", "cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent",
        "cuStreamQuery", "cuStreamSynchronize", "cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime",
        "cuCtxSynchronize", "cuMemPoolTrimTo"})
    mistakes.emplace_back(function, [=] { return Failing(function, order); });
  for (const char* function : {"cuModuleGetFunction", "cuStreamBeginCapture", "cuStreamEndCapture",
                               "cuGraphGetNodes", "cuGraphInstantiate", "cuGraphLaunch"})
    mistakes.emplace_back(function, [=] { return Failing(function, graph); });
  for (const char* function : {"cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
                               "cuDeviceGetDefaultMemPool", "cuMemPoolSetAttribute", "cuMemGetInfo"})
    mistakes.emplace_back(function, [=] {
      return Failing(function, [](GpuPlayer& gpu) { return ListGpus(gpu.cuda.api()).status(); });
    });
  ExpectErrors("cuda_calls", mistakes);
}

TEST(CudaErrors, Kernels) {
  const std::string text = "extern \"C\" __global__ void f(float* x) {\n#error\n}\n";
  auto compile = [](const CudaSource& source, int architecture = 90, const char* failing = "none") {
    FunctionCompiler compiler(GpuFunctions());
    SimulatedCuda cuda({.gpus = {{.architecture = architecture}}, .compiler = &compiler});
    const auto context = CudaContext::Create(cuda.api(), 0).value();
    cuda.FailCall(failing, 1);
    return CudaModule::Compile(context, source).status();
  };
  auto no_nvrtc = [] {
    const absl::Status status = Load({}, "libnvrtc");
    const SimulatedCuda cuda;
    CudaApi api = cuda.api();
    api.nvrtc_status = status;
    return CompileCuda(api, 90, {"f.cu", ""}).status();
  };
  auto knows_none = [] {
    const SimulatedCuda cuda({.nvrtc_architectures = {}});
    return CompileCuda(cuda.api(), 90, {"f.cu", ""}).status();
  };
  auto load = [](int made_for, int architecture) {
    FunctionCompiler compiler(GpuFunctions());
    const SimulatedCuda cuda({.gpus = {{.architecture = architecture}}, .compiler = &compiler});
    const auto context = CudaContext::Create(cuda.api(), 0).value();
    return CudaModule::Load(context, "f.cu", CompileCuda(cuda.api(), made_for, {"f.cu", ""}).value())
        .status();
  };
  auto find = [](const std::string& kernel) {
    GpuPlayer gpu;
    return gpu.module->GetKernel(kernel).status();
  };
  auto launch = [](const LaunchShape& shape) {
    GpuPlayer gpu;
    KernelArguments arguments;
    return gpu.module->GetKernel("fail")->Launch(*gpu.stream, shape, arguments);
  };
  auto allow = [](int bytes) {
    GpuPlayer gpu;
    return gpu.module->GetKernel("fail")->AllowSharedBytes(bytes);
  };
  auto fails = [] {
    GpuPlayer gpu;
    MESHWORK_CHECK(gpu.Launch("fail", *gpu.stream, Arguments()).ok());
    return gpu.stream->Synchronize();
  };
  auto lost = [] {
    GpuPlayer gpu;
    MESHWORK_CHECK(gpu.Launch("fail", *gpu.stream, Arguments()).ok());
    gpu.stream->Synchronize().IgnoreError();
    return CudaStream::Create(gpu.context).status();
  };
  ExpectErrors("cuda_kernels", {
                                   MISTAKE(compile({"f.cu", text})),
                                   MISTAKE(compile({"f.cu", "", {"fast"}})),
                                   MISTAKE(compile({"f.cu", ""}, 70)),
                                   MISTAKE(compile({"f.cu", ""}, 90, "nvrtcCreateProgram")),
                                   MISTAKE(compile({"f.cu", ""}, 90, "nvrtcCompileProgram")),
                                   MISTAKE(compile({"f.cu", ""}, 90, "nvrtcGetNumSupportedArchs")),
                                   MISTAKE(compile({"f.cu", ""}, 90, "nvrtcGetCUBIN")),
                                   MISTAKE(compile({"f.cu", ""}, 110, "nvrtcGetPTX")),
                                   MISTAKE(compile({"f.cu", text}, 90, "nvrtcGetProgramLog")),
                                   MISTAKE(no_nvrtc()),
                                   MISTAKE(knows_none()),
                                   MISTAKE(load(80, 90)),
                                   MISTAKE(find("scale")),
                                   MISTAKE(launch({.grid = {0}})),
                                   MISTAKE(launch({.grid = {7, 8}, .block = {1024, 2}, .shared_bytes = 64})),
                                   MISTAKE(allow(1 << 20)),
                                   MISTAKE(fails()),
                                   MISTAKE(lost()),
                               });
}

// cuDNN's errors about a convolution, in its own words.
absl::Status OfConvolution(const char* function) {
  SimulatedCuda cuda;
  const auto context = CudaContext::Create(cuda.api(), 0).value();
  const auto stream = CudaStream::Create(context).value();
  CudaConvolutions convolutions(context);
  const CudaConvolution::Dim dim{.in = 8, .out = 8, .filter = 3, .low = 1, .high = 1};
  const CudaConvolution convolution{
      .kind = CudaConvolution::Kind::kFilterGrad, .in_channels = 4, .out_channels = 16, .dims = {dim, dim}};
  const TakenConvolution taken = convolutions.Add(convolution, 4, MatmulPrecision::kFull).value().value();
  cuda.FailCall(function, 1);
  return convolutions.Launch(*stream, taken.number, {}, 0);
}

// Kernels that are compiled ahead, for a GPU that need not exist.
TEST(CudaErrors, CompiledAhead) {
  const auto without_nvrtc = [] {
    const SimulatedCuda cuda;
    LibraryLoader loader = cuda.loader();
    loader.open = [](const std::string&) -> void* { return nullptr; };
    return LoadCudaCompiler(loader).status();
  };
  const auto read = [] {
    const SimulatedCuda cuda;
    const auto backend = CodeBackend::Create(std::make_shared<const CudaApi>(cuda.api()), 90);
    return backend->memory()->Download({}, 4, nullptr, nullptr);
  };
  ExpectErrors("cuda_ahead", {
                                 MISTAKE(ParseArchitecture("90")),
                                 MISTAKE(ParseArchitecture("sm_")),
                                 MISTAKE(without_nvrtc()),
                                 MISTAKE(read()),
                             });
}

TEST(CudaErrors, Convolutions) {
  ExpectErrors("cuda_convolutions", {
                                        MISTAKE(OfConvolution("cudnnSetStream")),
                                        MISTAKE(OfConvolution("cudnnBackendCreateDescriptor")),
                                        MISTAKE(OfConvolution("cudnnBackendExecute")),
                                    });
}

// The error about a program for a library, if this function fails.
absl::Status OfLibrary(const char* function, const char* program) {
  const auto nothing = [](const SimulatedLaunch&) { return absl::OkStatus(); };
  FunctionCompiler compiler({{"move_4", nothing}});
  SimulatedCuda cuda({.compiler = &compiler});
  const auto backend = CudaBackend::Create(CudaContext::Create(cuda.api(), 0).value()).value();
  const Graph graph = ParseGraph(program, "layer.mw").value();
  cuda.FailCall(function, 1);
  std::map<std::string, DTensor> state;
  MESHWORK_ASSIGN_OR_RETURN(const auto executor,
                            Executor::Create(Compile(graph).value(), *backend, {}, &state));
  std::map<std::string, Tensor> feeds, outputs;
  for (const Argument& argument : graph.arguments())
    feeds.emplace(graph.value(argument.value).name, Tensor::Zeros(graph.value(argument.value).type));
  return executor->Run(feeds, &outputs);
}

TEST(CudaErrors, Products) {
  std::vector<Mistake> mistakes;
  for (const char* function :
       {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute",
        "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"})
    mistakes.emplace_back(function, [=] {
      return OfLibrary(function,
                       "mesh [x=2]\nfunc f(%x: f32[4,3,5] {x,_,_}, %y: f32[4,5,7] {x,_,_}) {\n"
                       "  %z = matmul %x, %y\n  return %z\n}");
    });
  ExpectErrors("cuda_products", mistakes);
}

// Errors of a backend before it needs a kernel.
TEST(CudaErrors, Backend) {
  // Of a program with values of 8 MB.
  auto run = [](const SimulatedGpu& gpu, const ExecutorOptions& options = {}) {
    SimulatedCuda cuda({.gpus = {gpu}});
    const auto backend = CudaBackend::Create(CudaContext::Create(cuda.api(), 0).value()).value();
    const Graph graph =
        ParseGraph(
            "mesh [x=2]\nfunc f(%x: f32[1000,1000] {x,_}) {\n  %y = exp %x\n  %z = matmul %y, %y\n"
            "  return %z\n}")
            .value();
    std::map<std::string, DTensor> state;
    return Executor::Create(Compile(graph).value(), *backend, options, &state).status();
  };
  // A block for each product of two numbers, in bf16; cuBLASLt has no batch of this kind.
  auto run_many = [] {
    SimulatedCuda cuda(SimulatedCudaOptions{});
    const auto backend = CudaBackend::Create(CudaContext::Create(cuda.api(), 0).value()).value();
    const Graph graph = ParseGraph(
                            "mesh []\nfunc f(%x: bf16[2147483648,1,1] {_,_,_}) {\n  %y = matmul %x, %x\n"
                            "  return %y\n}",
                            "many.mw")
                            .value();
    std::map<std::string, DTensor> state;
    return Executor::Create(Compile(graph).value(), *backend, {}, &state).status();
  };
  ExpectErrors("cuda_backend", {
                                   MISTAKE(run({}, {.cross_device_ops = std::make_shared<BackwardsOps>()})),
                                   MISTAKE(run({.bytes = 4000000})),
                                   MISTAKE(run_many()),
                               });
}

// The error that the last of several domains gets when it prepares a step. `play`: makes its backend, and prepares.
using InDomain = std::function<absl::Status(size_t domain, Transport& end)>;
absl::Status OfDomains(size_t count, const InDomain& play) {
  const auto ends = MakeLoopback(static_cast<int64_t>(count));
  std::vector<absl::Status> statuses(count);
  std::vector<std::thread> threads;
  for (size_t d = 0; d < count; ++d)
    threads.emplace_back([&, d] {
      statuses[d] = play(d, *ends[d]);
      if (!statuses[d].ok()) ends[d]->Abort(statuses[d]);
    });
  for (std::thread& thread : threads) thread.join();
  return statuses.back();
}

// The end of a domain whose version states less about its GPU.
class OlderEnd : public CountedEnd {
 public:
  using CountedEnd::CountedEnd;
  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    return CountedEnd::ExchangeTexts(what, what == "the GPUs" ? "the GPUs\n0 {\"where\":\"GPU 0\"}" : text);
  }
};

// GPUs that do not fit together, and NCCL if it cannot be used, or fails.
TEST(CudaErrors, Gpus) {
  using Way = CudaBackendOptions::Way;
  const Graph graph = ParseGraph(
                          "mesh [x=2]\nfunc f(%a: f32[4] {x}) {\n  %s = reduce_sum %a dims=[0] : f32[] {}\n"
                          "  return s=%s\n}",
                          "sum.mw")
                          .value();
  const Program program = Compile(graph, {.num_domains = 2}).value();
  const auto prepare = [&](const CudaApi& api, int gpu, Way way, Transport& end,
                           ExecutorOptions more = {}) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const auto context, CudaContext::Create(api, gpu));
    MESHWORK_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create(context, {.way = way}));
    std::map<std::string, DTensor> state;
    more.check_replicas = false;
    more.transport = &end;
    return Executor::Create(program, *backend, more, &state).status();
  };
  FunctionCompiler compiler({{"move_4", [](const SimulatedLaunch&) { return absl::OkStatus(); }}});
  const auto on = [&](const SimulatedCudaOptions& options, std::vector<int> gpus,
                      std::vector<Way> ways = {Way::kNccl, Way::kNccl}, const char* failing = "") {
    SimulatedCudaOptions with_compiler = options;
    with_compiler.compiler = &compiler;
    SimulatedCuda cuda(with_compiler);
    cuda.FailCall(failing, *failing == '\0' ? 0 : 1);
    const absl::Status status =
        OfDomains(2, [&](size_t d, Transport& end) { return prepare(cuda.api(), gpus[d], ways[d], end); });
    // The message is the same, whichever domain comes to the call first.
    std::string message(MessageOf(status));
    if (const size_t at = message.find("domain 1 on GPU 1"); at != std::string::npos)
      message.replace(at, 17, "domain 0 on GPU 0");
    return absl::Status(status.code(), message);
  };
  // By ncclAllReduce.
  const auto adds_up = [&](const SimulatedCudaOptions& options, Way way = Way::kAuto, bool coalesce = true,
                           int64_t bytes_per_pack = 0) {
    SimulatedCuda cuda(options);
    return OfDomains(2, [&](size_t d, Transport& end) {
      return prepare(
          cuda.api(), static_cast<int>(d), way, end,
          {.coalesce = coalesce, .cross_device_ops = NcclAllReduce(), .bytes_per_pack = bytes_per_pack});
    });
  };
  const SimulatedCudaOptions two{.gpus = {{}, {}}};
  const auto beside_cpu = [&] {
    SimulatedCuda cuda;
    return OfDomains(2, [&](size_t d, Transport& end) -> absl::Status {
      if (d == 0) return prepare(cuda.api(), 0, Way::kAuto, end);
      CpuBackend backend(1);
      std::map<std::string, DTensor> state;
      return Executor::Create(program, backend, {.check_replicas = false, .transport = &end}, &state)
          .status();
    });
  };
  const auto of_versions = [&](const std::vector<int>& versions) {
    SimulatedCuda cuda({.gpus = {{}, {}}, .compiler = &compiler});
    return OfDomains(2, [&](size_t d, Transport& end) {
      CudaApi api = cuda.api();
      api.nccl_version = versions[d];
      return prepare(api, static_cast<int>(d), Way::kNccl, end);
    });
  };
  // Domain 0 runs another version of meshwork, which does not state all that this one does.
  const auto beside_another_version = [&] {
    SimulatedCuda cuda({.gpus = {{}, {}}, .compiler = &compiler});
    return OfDomains(2, [&](size_t d, Transport& end) {
      OlderEnd older(end);
      return prepare(cuda.api(), static_cast<int>(d), Way::kAuto, d == 0 ? older : end);
    });
  };
  ExpectErrors("cuda_gpus", {
                                MISTAKE(on({.gpus = {{}}}, {0, 1})),
                                MISTAKE(on({.gpus = {{}, {.architecture = 80}}}, {0, 1})),
                                MISTAKE(on({.gpus = {{}, {}}, .nccl_version = 0}, {0, 1})),
                                MISTAKE(on(two, {1, 1})),
                                MISTAKE(on(two, {0, 1}, {Way::kNccl, Way::kHost})),
                                MISTAKE(on(two, {0, 1}, {Way::kNccl, Way::kNccl}, "ncclGetUniqueId")),
                                MISTAKE(on(two, {0, 1}, {Way::kNccl, Way::kNccl}, "ncclCommInitRankConfig")),
                                MISTAKE(of_versions({22809, 22703})),
                                MISTAKE(beside_cpu()),
                                MISTAKE(beside_another_version()),
                                MISTAKE(adds_up({.gpus = {{}, {}}, .nccl_version = 0})),
                                MISTAKE(adds_up(two, Way::kHost)),
                                MISTAKE(adds_up(two, Way::kAuto, /*coalesce=*/false)),
                                MISTAKE(adds_up(two, Way::kAuto, true, /*bytes_per_pack=*/4096)),
                            });
}

// Errors of NCCL within a step, and before it.
TEST(CudaErrors, Nccl) {
  using Way = CudaBackendOptions::Way;
  const Graph graph =
      ParseGraph("mesh [x=2]\nfunc f(%a: f32[4] {x}) {\n  %g = relayout %a {_}\n  return g=%g\n}",
                 "gather.mw")
          .value();
  const Program program = Compile(graph, {.num_domains = 2}).value();
  // Domain 0 runs a step in which a call fails, or in which domain 1 is lost or does not come.
  const auto step = [&](const char* failing, bool is_lost) {
    FunctionCompiler compiler({{"move_4", [](const SimulatedLaunch&) { return absl::OkStatus(); }}});
    SimulatedCuda cuda({.gpus = {{}, {}}, .compiler = &compiler});
    absl::Status first;
    OfDomains(2, [&](size_t d, Transport& end) -> absl::Status {
      const bool has_time = is_lost || *failing != '\0';
      const CudaBackendOptions options{.way = Way::kNccl,
                                       .deadline = std::chrono::milliseconds(has_time ? 600'000 : 50)};
      const auto context = CudaContext::Create(cuda.api(), static_cast<int>(d)).value();
      const auto backend = CudaBackend::Create(context, options).value();
      std::map<std::string, DTensor> state;
      const auto executor = Executor::Create(program, *backend, {.transport = &end}, &state).value();
      MESHWORK_CHECK(end.AllGather("prepared", "").ok());
      if (d == 1 && is_lost) cuda.LoseRank(1);
      if (d == 0 && *failing != '\0') cuda.FailCall(failing, 1);
      // Domain 0 may have failed before domain 1 gets its text.
      end.AllGather("ready", "").status().IgnoreError();
      if (d == 1) {
        while (end.aborted().ok()) std::this_thread::yield();
        return end.aborted();
      }
      std::map<std::string, Tensor> outputs;
      return first = executor->Run({{"a", Tensor::From<float>({4}, {1, 2, 3, 4})}}, &outputs);
    }).IgnoreError();
    return first;
  };
  // Domain 0 of this many joins, and no other one does.
  const auto alone =
      [](int64_t count,
         const std::function<absl::Status(NcclGroup&, const std::shared_ptr<const CudaStream>&)>& use,
         const char* failing = "") -> absl::Status {
    SimulatedCuda cuda;
    cuda.FailCall(failing, *failing == '\0' ? 0 : 1);
    const auto ends = MakeLoopback(count);
    const auto context = CudaContext::Create(cuda.api(), 0).value();
    const auto stream = CudaStream::Create(context).value();
    MESHWORK_ASSIGN_OR_RETURN(
        const auto group,
        NcclGroup::Join(context, *ends[0], {}, {.join_deadline = std::chrono::milliseconds(20)}));
    return use(*group, stream);
  };
  const auto exchange_after_abort = [](NcclGroup& group, const std::shared_ptr<const CudaStream>& stream) {
    group.Abort();
    return group.Exchange("all_gather (gather.mw:2)", {}, {}, *stream);
  };
  const auto add_up = [](NcclGroup& group, const std::shared_ptr<const CudaStream>& stream) {
    const CudaBuffer buffer = CudaBuffer::Allocate(stream, 4).value();
    const NcclGroup::Sum sum{buffer.address(), buffer.address(), {F32, ReduceOp::kSum, 1}};
    return group.AllReduce("all_reduce (sum.mw:2)", {{sum}}, *stream);
  };
  ExpectErrors("cuda_nccl", {
                                MISTAKE(step("ncclGroupStart", false)),
                                MISTAKE(step("ncclGroupEnd", false)),
                                MISTAKE(step("", true)),
                                MISTAKE(step("", false)),
                                MISTAKE(alone(2, nullptr)),
                                MISTAKE(alone(1, exchange_after_abort)),
                                MISTAKE(alone(1, add_up, "ncclAllReduce")),
                            });
}

#endif

}  // namespace
}  // namespace meshwork::cuda_test
