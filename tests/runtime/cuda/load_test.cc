// The table of functions, found in libraries or not. The toolkit's own libraries are there even without a GPU.
#ifdef MESHWORK_HAVE_CUDA
#include <filesystem>

#include "gmock/gmock.h"
#include "meshwork/runtime/cuda/build_id.h"
#include "meshwork/runtime/cuda/cuda_products.h"
#include "meshwork/runtime/cuda/gpus.h"
#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::load_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CudaLoadTest, EveryFunctionIsFound) {
  const SimulatedCuda cuda;
  const absl::StatusOr<CudaApi> api = LoadCudaApi(cuda.loader());
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ(api->driver_version, 13000);
  EXPECT_EQ(api->nvrtc_version, 13000);
  EXPECT_TRUE(api->nvrtc_status.ok());
  EXPECT_EQ(api->cublas_version, 130001);
  EXPECT_TRUE(api->cublas_status.ok());
  EXPECT_EQ(api->cuMemAlloc, cuda.api().cuMemAlloc);
  EXPECT_EQ(api->nvrtcGetPTX, cuda.api().nvrtcGetPTX);
  EXPECT_EQ(api->cublasLtMatmul, cuda.api().cublasLtMatmul);
  EXPECT_EQ(api->cudnn_version, 91900);
  EXPECT_TRUE(api->cudnn_status.ok());
  EXPECT_EQ(api->cudnnBackendExecute, cuda.api().cudnnBackendExecute);
  EXPECT_EQ(api->nccl_version, 22809);
  EXPECT_TRUE(api->nccl_status.ok());
  EXPECT_EQ(api->ncclSend, cuda.api().ncclSend);
}

// Drivers before CUDA 12.8 have only the older function.
TEST(CudaLoadTest, TheOlderFunctionForTimesDoes) {
  const SimulatedCuda cuda;
  LibraryLoader loader = cuda.loader();
  loader.find = [find = loader.find](void* library, const std::string& symbol) -> void* {
    if (symbol == "cuEventElapsedTime_v2") return nullptr;
    return find(library, symbol == "cuEventElapsedTime" ? "cuEventElapsedTime_v2" : symbol);
  };
  const absl::StatusOr<CudaApi> api = LoadCudaApi(loader);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_NE(api->cuEventElapsedTime, nullptr);
}

TEST(CudaLoadTest, WithoutNvrtcThereIsATableAllTheSame) {
  const SimulatedCuda cuda;
  LibraryLoader loader = cuda.loader();
  loader.open = [open = loader.open](const std::string& file) {
    return file.starts_with("libcuda.") ? open(file) : nullptr;
  };
  const absl::StatusOr<CudaApi> api = LoadCudaApi(loader);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_TRUE(ListGpus(*api).ok());
  EXPECT_EQ(CompileCuda(*api, 90, {"a.cu", ""}).status(), api->nvrtc_status);
}

TEST(CudaLoadTest, WithoutCublasThereIsATableAllTheSame) {
  const SimulatedCuda cuda({.has_cublas = false});
  LibraryLoader loader = cuda.loader();
  loader.open = [open = loader.open](const std::string& file) {
    return file.find("cublas") == std::string::npos ? open(file) : nullptr;
  };
  const absl::StatusOr<CudaApi> api = LoadCudaApi(loader);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_TRUE(api->nvrtc_status.ok());
  EXPECT_EQ(api->cublas_version, 0);
  EXPECT_THAT(api->cublas_status.message(), HasSubstr("there is no libcublasLt.so of CUDA 12 or later"));
}

// A driver older than cuBLASLt cannot run its kernels; a cuBLASLt older than the driver is accepted.
TEST(CudaLoadTest, TakesTheCublasThatFitsTheDriver) {
  const SimulatedCuda cuda({.driver_version = 12040});
  EXPECT_THAT(LoadCudaApi(cuda.loader())->cublas_status.message(),
              HasSubstr("libcublasLt.so.13 is for drivers of CUDA 13.0 or later"));
  LibraryLoader loader = cuda.loader();
  loader.open = [open = loader.open](const std::string& file) {
    return open(file == "libcublasLt.so.12" ? "libcublasLt.so.13" : file);
  };
  loader.find = [find = loader.find](void* library, const std::string& symbol) -> void* {
    if (symbol != "cublasLtGetVersion") return find(library, symbol);
    return reinterpret_cast<void*>(+[]() -> size_t { return 120805; });
  };
  const absl::StatusOr<CudaApi> api = LoadCudaApi(loader);
  EXPECT_TRUE(api->cublas_status.ok()) << api->cublas_status;
  EXPECT_EQ(api->cublas_version, 120805);
}

TEST(CudaLoadTest, WithoutCudnnThereIsATableAllTheSame) {
  const SimulatedCuda cuda({.has_cudnn = false});
  const absl::StatusOr<CudaApi> api = LoadCudaApi(cuda.loader());
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ(api->cudnn_version, 0);
  EXPECT_THAT(api->cudnn_status.message(), HasSubstr("there is no libcudnn_graph.so.9"));
}

// A driver older than NVRTC cannot run its code; an NVRTC older than the driver is accepted.
TEST(CudaLoadTest, TakesTheNvrtcThatFitsTheDriver) {
  const SimulatedCuda cuda({.driver_version = 12040});
  EXPECT_THAT(LoadCudaApi(cuda.loader())->nvrtc_status.message(),
              HasSubstr("libnvrtc.so.13 makes code for drivers of CUDA 13.0 or later"));
  LibraryLoader loader = cuda.loader();
  loader.open = [open = loader.open](const std::string& file) {
    return open(file == "libnvrtc.so.12" ? "libnvrtc.so.13" : file);
  };
  loader.find = [find = loader.find](void* library, const std::string& symbol) -> void* {
    if (symbol != "nvrtcVersion") return find(library, symbol);
    return reinterpret_cast<void*>(+[](int* major, int* minor) {
      *major = 12;
      *minor = 4;
      return NVRTC_SUCCESS;
    });
  };
  const absl::StatusOr<CudaApi> api = LoadCudaApi(loader);
  EXPECT_TRUE(api->nvrtc_status.ok()) << api->nvrtc_status;
  EXPECT_EQ(api->nvrtc_version, 12040);
}

// Without a driver any NVRTC is accepted.
TEST(CudaLoadTest, CompilesWithoutADriver) {
  const SimulatedCuda cuda;
  LibraryLoader loader = cuda.loader();
  loader.open = [open = loader.open](const std::string& file) {
    return file.starts_with("libnvrtc.") ? open(file) : nullptr;
  };
  const absl::StatusOr<CudaApi> api = LoadCudaCompiler(loader);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ(api->nvrtc_version, 13000);
  EXPECT_EQ(api->nvrtcGetCUBIN, cuda.api().nvrtcGetCUBIN);
  EXPECT_EQ(api->cuInit, nullptr);
  EXPECT_EQ(api->code_folder, "");
  loader.open = [](const std::string&) { return nullptr; };
  const absl::Status none = LoadCudaCompiler(loader).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(none.message(), HasSubstr("there is no libnvrtc.so of CUDA 12 or later; install"));
}

// On this machine there is a driver, or the status says why there is none.
TEST(CudaLoadTest, OfThisProcess) {
  const absl::StatusOr<const CudaApi*> api = LoadCudaApi();
  EXPECT_EQ(api.status(), LoadCudaApi().status());
  if (!api.ok()) {
    EXPECT_EQ(api.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(MessageOf(api.status())), StartsWith("CUDA: "));
    EXPECT_EQ(ListGpus().status(), api.status());
    GTEST_SKIP() << api.status().message();
  }
  const absl::StatusOr<Gpus> gpus = ListGpus();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_FALSE(gpus->gpus.empty());
}

// The toolkit's stub of the driver library has the symbols of a real one.
TEST(CudaLoadTest, TheNamesAreThoseOfTheDriver) {
  std::string stub;
  for (const char* folder : {"/stubs", "64/stubs"})
    if (std::filesystem::exists(MESHWORK_CUDA_LIBRARY_DIR + std::string(folder) + "/libcuda.so"))
      stub = MESHWORK_CUDA_LIBRARY_DIR + std::string(folder) + "/libcuda.so";
  if (stub.empty()) GTEST_SKIP() << "the toolkit has no stub of libcuda.so";
  const LibraryLoader system = SystemLoader();
  void* const library = system.open(stub);
  ASSERT_NE(library, nullptr) << system.error();
  int functions = 0;
#define MESHWORK_EXPECT_SYMBOL(name) MESHWORK_EXPECT_SYMBOL_OF(name)
#define MESHWORK_EXPECT_SYMBOL_OF(name)                     \
  EXPECT_NE(system.find(library, #name), nullptr) << #name; \
  ++functions;
  MESHWORK_CUDA_DRIVER_FUNCTIONS(MESHWORK_EXPECT_SYMBOL)
  EXPECT_GT(functions, 50);
}

// NVIDIA's own NCCL has all functions of the table, and reports its version without a GPU.
TEST(CudaLoadTest, TheNamesAreThoseOfNccl) {
  const LibraryLoader system = SystemLoader();
  void* library = system.open("libnccl.so.2");
  if (library == nullptr) library = system.open(MESHWORK_CUDA_LIBRARY_DIR + std::string("/libnccl.so.2"));
  if (library == nullptr) GTEST_SKIP() << system.error();
#define MESHWORK_EXPECT_NCCL_SYMBOL(result, name, parameters) \
  EXPECT_NE(system.find(library, #name), nullptr) << #name;
  MESHWORK_NCCL_FUNCTIONS(MESHWORK_EXPECT_NCCL_SYMBOL)
  const auto get_version =
      reinterpret_cast<decltype(CudaApi::ncclGetVersion)>(system.find(library, "ncclGetVersion"));
  int version = 0;
  ASSERT_EQ(get_version(&version), NcclResult::kSuccess);
  EXPECT_GE(version, kOldestNccl);
}

// ---- The real NVRTC, which does not need a GPU.

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    // A simulated driver, and the system's NVRTC.
    LibraryLoader loader = SystemLoader();
    loader.open = [this, open = loader.open](const std::string& file) {
      return file == "libcuda.so.1" ? cuda_.loader().open(file) : open(file);
    };
    loader.find = [this, find = loader.find](void* library, const std::string& symbol) {
      const bool is_driver =
          symbol.starts_with("cu") && !symbol.starts_with("cublas") && !symbol.starts_with("cudnn");
      return is_driver ? cuda_.loader().find(library, symbol) : find(library, symbol);
    };
    api_ = LoadCudaApi(loader).value();
    if (!api_.nvrtc_status.ok()) GTEST_SKIP() << api_.nvrtc_status.message();
  }

  const SimulatedCuda cuda_;
  CudaApi api_;
};

// So the code of another build of the same version is not taken for this build's.
TEST_F(NvrtcTest, SaysWhichBuildItIs) {
  EXPECT_EQ(api_.nvrtc_build, BuildIdOf(reinterpret_cast<const void*>(api_.nvrtcGetPTX)));
  EXPECT_NE(api_.nvrtc_build, BuildIdOf(reinterpret_cast<const void*>(&BuildIdOf)));
}

TEST_F(NvrtcTest, MakesCodeForAGpu) {
  const CudaSource source{"scale.cu", R"(
extern "C" __global__ void scale(float* x, long n, float by) {
  const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
})"};
  for (const int architecture : {80, 90}) {
    const absl::StatusOr<std::string> code = CompileCuda(api_, architecture, source);
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_THAT(*code, StartsWith("\x7f"
                                  "ELF"));
    EXPECT_THAT(*code, HasSubstr("scale"));
  }
  // For an architecture that NVRTC does not know: PTX, which the driver compiles.
  const absl::StatusOr<std::string> ptx = CompileCuda(api_, 999, source);
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_THAT(*ptx, HasSubstr(".visible .entry scale("));
}

TEST_F(NvrtcTest, SaysWhatIsWrong) {
  const absl::Status status =
      CompileCuda(api_, 90, {"wrong.cu", "extern \"C\" __global__ void f(float* x) {\n  x[0] = y;\n}\n"})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("wrong.cu(2): error: identifier \"y\" is undefined"));
  EXPECT_THAT(status.message(), HasSubstr("\n   2 |   x[0] = y;"));
  EXPECT_FALSE(CompileCuda(api_, 90, {"a.cu", "", {"--no-such-option"}}).ok());
}

// ---- The real cuBLASLt, which describes products without a GPU.

// A simulated cuBLASLt with the descriptors of the real one. It chooses no algorithm, so that no product is taken.
TEST(CublasTest, TakesTheDescriptors) {
  const SimulatedCuda cuda;
  LibraryLoader loader = SystemLoader();
  loader.open = [&cuda, open = loader.open](const std::string& file) {
    return file == "libcuda.so.1" ? cuda.loader().open(file) : open(file);
  };
  loader.find = [&cuda, find = loader.find](void* library, const std::string& symbol) -> void* {
    const bool is_driver =
        symbol.starts_with("cu") && !symbol.starts_with("cublas") && !symbol.starts_with("cudnn");
    return is_driver ? cuda.loader().find(library, symbol) : find(library, symbol);
  };
  CudaApi api = LoadCudaApi(loader).value();
  if (!api.cublas_status.ok()) GTEST_SKIP() << api.cublas_status.message();
  EXPECT_STREQ(api.cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  api.cublasLtCreate = cuda.api().cublasLtCreate;
  api.cublasLtDestroy = cuda.api().cublasLtDestroy;
  static int asked = 0;
  api.cublasLtMatmulAlgoGetHeuristic = [](auto...) {
    ++asked;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  };
  for (const MatmulPrecision precision : {MatmulPrecision::kFull, MatmulPrecision::kTf32}) {
    CudaProducts products(CudaContext::Create(api, 0).value());
    for (const DType dtype : {F32, F64, BF16})
      for (const int64_t batch : {1, 5}) {
        const CudaProduct product{.dtype = dtype,
                                  .m = 3,
                                  .n = 7,
                                  .k = 4,
                                  .transpose_a = batch == 5,
                                  .transpose_b = dtype == F32,
                                  .batch = batch,
                                  .stride_a = 12,
                                  .stride_d = 21,
                                  .calls = {{}}};
        const absl::StatusOr<std::optional<size_t>> number =
            products.Add(product, {.a = 256, .b = 256, .d = 64}, precision);
        ASSERT_TRUE(number.ok()) << number.status();
        EXPECT_EQ(*number, std::nullopt);
      }
  }
  EXPECT_EQ(asked, 12);
}

}  // namespace
}  // namespace meshwork::load_test

#endif  // MESHWORK_HAVE_CUDA
