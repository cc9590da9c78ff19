// The mistakes that the simulated cuBLASLt finds, and the order of its products.
#ifdef MESHWORK_HAVE_CUDA
#include "gmock/gmock.h"
#include "meshwork/runtime/cuda/cuda_products.h"
#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::cublas_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ProductAlignment kWellAligned{.a = 256, .b = 256, .d = 256};
CudaProduct Square() { return {.m = 4, .n = 4, .k = 4, .calls = {{}}}; }

// A product [4,4] * [4,4] with its buffers.
struct SquarePlayer {
  explicit SquarePlayer(uint64_t seed = 0)
      : gpu(seed),
        products(std::make_unique<CudaProducts>(gpu.context)),
        number(products->Add(Square(), kWellAligned, MatmulPrecision::kFull).value().value()),
        a(gpu.NewBuffer(16)),
        b(gpu.NewBuffer(16)),
        d(gpu.NewBuffer(16)),
        workspace(CudaBuffer::Allocate(gpu.stream, products->workspace_bytes()).value()) {}

  absl::Status Launch(const CudaProducts::Addresses& addresses) {
    return products->Launch(*gpu.stream, number, addresses, workspace.address());
  }
  absl::Status Launch() { return Launch({a.address(), b.address(), d.address()}); }

  GpuPlayer gpu;
  std::unique_ptr<CudaProducts> products;
  size_t number;
  CudaBuffer a, b, d, workspace;
};

// Also in a graph: the product reads what was written before it, and later work reads its result.
TEST(SimulatedCublasTest, ProductsAreInTheOrderOfTheirStream) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SquarePlayer player(seed);
    const GpuPlayer& gpu = player.gpu;
    float first = 0;
    const auto enqueue = [&]() -> absl::Status {
      MESHWORK_RETURN_IF_ERROR(gpu.Launch("write", *gpu.stream, player.a, 2));
      MESHWORK_RETURN_IF_ERROR(gpu.Launch("write", *gpu.stream, player.b, 3));
      MESHWORK_RETURN_IF_ERROR(player.Launch());
      return gpu.Launch("add", *gpu.stream, player.d, 1);
    };
    if (seed % 2 == 0) {
      ASSERT_TRUE(enqueue().ok());
    } else {
      const absl::StatusOr<CudaGraph> graph = CudaGraph::Capture(*gpu.stream, enqueue);
      ASSERT_TRUE(graph.ok()) << graph.status();
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(graph->Launch(*gpu.stream).ok());
      ASSERT_TRUE(gpu.stream->Synchronize().ok());
    }
    first = gpu.First(*gpu.stream, player.d);
    EXPECT_EQ(first, 25);
    EXPECT_THAT(player.gpu.cuda.TakeFindings(), IsEmpty());
  }
}

TEST(SimulatedCublasTest, EqualProductsAreOne) {
  SquarePlayer player;
  EXPECT_EQ(player.products->Add(Square(), kWellAligned, MatmulPrecision::kFull).value(), 0u);
  EXPECT_EQ(player.products->Add(Square(), kWellAligned, MatmulPrecision::kTf32).value(), 1u);
  EXPECT_EQ(player.products->Add(Square(), {.a = 256, .b = 256, .d = 4}, MatmulPrecision::kFull).value(), 2u);
  EXPECT_EQ(
      player.products->Add({.m = 4, .n = 4, .k = 5, .calls = {{}}}, kWellAligned, MatmulPrecision::kFull)
          .value(),
      3u);
}

TEST(SimulatedCublasTest, FindsWhatIsLessAlignedThanWasSaid) {
  SquarePlayer player;
  const CudaBuffer long_a = player.gpu.NewBuffer(32);
  ASSERT_TRUE(player.Launch({long_a.address() + 64, player.b.address(), player.d.address()}).ok());
  // cuBLASLt counts columns first, so that a is its second operand.
  EXPECT_THAT(player.gpu.cuda.TakeFindings(),
              ElementsAre("a product on GPU 0: matrix b is less aligned than its algorithm was chosen for."));
}

TEST(SimulatedCublasTest, FindsWhatLiesBeyondAnAllocation) {
  SquarePlayer player;
  const CudaBuffer short_d = player.gpu.NewBuffer(15);
  ASSERT_TRUE(player.Launch({player.a.address(), player.b.address(), short_d.address()}).ok());
  EXPECT_THAT(player.gpu.cuda.TakeFindings(), Contains(HasSubstr("at bytes 0 to 64")));
  EXPECT_FALSE(player.gpu.stream->Synchronize().ok());
}

TEST(SimulatedCublasTest, FindsResultsOverOperandsAndWorkspaces) {
  SquarePlayer player;
  ASSERT_TRUE(player.Launch({player.a.address(), player.b.address(), player.b.address()}).ok());
  EXPECT_THAT(player.gpu.cuda.TakeFindings(), ElementsAre("a product on GPU 0 is written over an operand."));
  const CudaBuffer big = player.gpu.NewBuffer(1000);
  ASSERT_TRUE(player.products
                  ->Launch(*player.gpu.stream, player.number,
                           {big.address(), player.b.address(), player.d.address()}, big.address())
                  .ok());
  EXPECT_THAT(player.gpu.cuda.TakeFindings(), ElementsAre("a product on GPU 0 works where a tensor lies."));
}

TEST(SimulatedCublasTest, FindsProductsWhoseHandleIsGone) {
  SquarePlayer player;
  ASSERT_TRUE(player.Launch().ok());
  player.products.reset();
  EXPECT_FALSE(player.gpu.stream->Synchronize().ok());
  EXPECT_THAT(player.gpu.cuda.TakeFindings(),
              ElementsAre("a product on GPU 0 runs after its handle was destroyed."));
}

TEST(SimulatedCublasTest, FindsWhatIsLeft) {
  SimulatedCuda cuda;
  const auto context = CudaContext::Create(cuda.api(), 0).value();
  const CudaContext::Scope scope(*context);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  ASSERT_EQ(cuda.api().cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cuda.api().cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 4, 4), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(cuda.TakeLeaks(),
              ElementsAre("1 handle of cuBLASLt is left.", "1 descriptor of cuBLASLt is left.",
                          "the context of GPU 0 is not released."));
  cuda.api().cublasLtMatrixLayoutDestroy(layout);
  cuda.api().cublasLtDestroy(handle);
}

}  // namespace
}  // namespace meshwork::cublas_test

#endif  // MESHWORK_HAVE_CUDA
