// The memory of a GPU, used by the runtime's interface.
#ifdef MESHWORK_HAVE_CUDA
#include <numeric>

#include "gmock/gmock.h"
#include "meshwork/runtime/cuda/cuda_memory.h"
#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::memory_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

const std::byte* BytesOf(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
std::byte* BytesOf(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }

TEST(CudaMemoryTest, AllocationsAreZero) {
  GpuPlayer gpu;
  const auto memory = MakeCudaMemory(gpu.context).value();
  EXPECT_FALSE(memory->is_host());
  EXPECT_EQ(memory->name(), "the memory of GPU 0 (Simulated GPU)");
  const std::shared_ptr<void> x = memory->Allocate(16), nothing = memory->Allocate(0);
  EXPECT_NE(nothing, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.get()) % 64, 0u);
  std::vector<float> host(4, 7);
  ASSERT_TRUE(memory->Download(BoxCopy::Linear(4), 4, static_cast<std::byte*>(x.get()), BytesOf(host)).ok());
  EXPECT_THAT(host, Each(0.0f));
}

TEST(CudaMemoryTest, AllocationsOutliveTheMemory) {
  GpuPlayer gpu;
  std::shared_ptr<void> x;
  {
    const auto memory = MakeCudaMemory(gpu.context).value();
    x = memory->Allocate(16);
  }
  EXPECT_EQ(gpu.cuda.BytesInUse(0), 16);
  x.reset();
  EXPECT_TRUE(gpu.context->Synchronize().ok());
  EXPECT_EQ(gpu.cuda.BytesInUse(0), 0);
}

// Copies boxes of [6,8] from a tensor to a block and back, with staging memory of every size from one element on.
TEST(CudaMemoryTest, BoxesAreCopiedAsOnTheCpu) {
  const BoxBuffer whole = BoxBuffer::Whole({6, 8});
  std::vector<float> tensor(48);
  std::iota(tensor.begin(), tensor.end(), 1.0f);
  for (const Block& box :
       {Block{{0, 6}, {0, 8}}, Block{{1, 3}, {2, 5}}, Block{{0, 6}, {3, 1}}, Block{{2, 0}, {0, 8}}}) {
    for (const BoxBuffer& block : {whole, BoxBuffer::OfBox(box)}) {
      const int64_t size =
          std::accumulate(block.shape.begin(), block.shape.end(), int64_t{1}, std::multiplies<>());
      const BoxCopy up(box, whole, block), down(box, block, whole);
      std::vector<float> expected_block(static_cast<size_t>(size)), expected(48, -1);
      up.Copy(BytesOf(std::as_const(tensor)), BytesOf(expected_block), 4, 0, up.elements());
      down.Copy(BytesOf(std::as_const(expected_block)), BytesOf(expected), 4, 0, down.elements());
      for (const int64_t staging : {1, 4, 12, 20, 1000}) {
        GpuPlayer gpu(static_cast<uint64_t>(staging));
        const auto memory = MakeCudaMemory(gpu.context, {.staging_bytes = staging}).value();
        const std::shared_ptr<void> x = memory->Allocate(4 * size);
        auto* const place = static_cast<std::byte*>(x.get());
        ASSERT_TRUE(memory->Upload(up, 4, BytesOf(std::as_const(tensor)), place).ok());
        std::vector<float> found_block(expected_block.size()), found(48, -1);
        ASSERT_TRUE(memory->Download(BoxCopy::Linear(size), 4, place, BytesOf(found_block)).ok());
        ASSERT_TRUE(memory->Download(down, 4, place, BytesOf(found)).ok());
        EXPECT_EQ(found_block, expected_block);
        EXPECT_EQ(found, expected);
      }
    }
  }
}

TEST(CudaMemoryTest, SaysWhatIsFree) {
  GpuPlayer gpu(0, {{.bytes = 1000}});
  const auto memory = MakeCudaMemory(gpu.context).value();
  const std::shared_ptr<void> x = memory->Allocate(600);
  try {
    memory->Allocate(500);
    FAIL() << "there is no memory";
  } catch (const std::bad_alloc& error) {
    EXPECT_THAT(error.what(), HasSubstr("allocating 500 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("400 of 1000 are free"));
  }
}

TEST(CudaMemoryTest, ErrorsOfCopiesLeaveNoWorkBehind) {
  GpuPlayer gpu;
  const auto memory = MakeCudaMemory(gpu.context).value();
  const std::shared_ptr<void> x = memory->Allocate(192);
  const BoxCopy column({{0, 6}, {3, 1}}, BoxBuffer::Whole({6, 8}), BoxBuffer::Whole({6, 8}));
  std::vector<float> host(48, 1);
  gpu.cuda.FailCall("cuMemcpyHtoDAsync", 3);
  EXPECT_FALSE(
      memory->Upload(column, 4, BytesOf(std::as_const(host)), static_cast<std::byte*>(x.get())).ok());
  EXPECT_EQ(gpu.cuda.num_pending(), 0);
  gpu.cuda.FailCall("cuMemcpyDtoHAsync", 2);
  EXPECT_FALSE(memory->Download(column, 4, static_cast<std::byte*>(x.get()), BytesOf(host)).ok());
  EXPECT_EQ(gpu.cuda.num_pending(), 0);
  EXPECT_TRUE(memory->Download(column, 4, static_cast<std::byte*>(x.get()), BytesOf(host)).ok());
}

}  // namespace
}  // namespace meshwork::memory_test

#endif  // MESHWORK_HAVE_CUDA
