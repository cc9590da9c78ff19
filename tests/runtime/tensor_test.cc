#include "runtime/tensor.h"

#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"

namespace meshwork {
namespace {

TEST(AllocateAlignedTest, IsAlignedToLinesAndLargeBlocksToHugePages) {
  constexpr int64_t kMi = int64_t{1} << 20;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{100}, kMi, 4 * kMi - 1, 4 * kMi, 9 * kMi + 1}) {
    const std::shared_ptr<void> block = AllocateAligned(bytes);
    const auto address = reinterpret_cast<uintptr_t>(block.get());
    EXPECT_EQ(address % (bytes >= 4 * kMi ? 2 * kMi : 64), 0u) << bytes;
    std::memset(block.get(), 1, static_cast<size_t>(bytes));  // all of it is ours
  }
}

}  // namespace
}  // namespace meshwork
