#include "meshwork/runtime/tensor/tensor.h"

#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"

namespace meshwork::tensor_test {
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

TEST(TensorTest, AMistakeIsAnInvalidTensorThatSaysWhy) {
  const Tensor t = Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(t.status().ok());
  EXPECT_EQ(MessageOf(Tensor().status()),
            "Tensor: it has no elements yet; a default-constructed Tensor is empty, "
            "make one by Tensor::From or Tensor::Zeros.");
  const Tensor few = Tensor::From<float>({2, 3}, {1});
  EXPECT_FALSE(few.valid());
  EXPECT_EQ(few.type(), t.type());
  EXPECT_EQ(MessageOf(few.status()),
            "Tensor: 1 value for a f32[2,3], which has 6 elements; give one for each.");
  EXPECT_EQ(MessageOf(t.Rows(1, 3).status()),
            "Tensor: rows 1 to 3 of a f32[2,3], which has rows 0 to 2; "
            "give a begin and an end there.");
  EXPECT_EQ(MessageOf(t.Rows(-1, 1).status()),
            "Tensor: rows -1 to 1 of a f32[2,3], which has rows 0 to 2; "
            "give a begin and an end there.");
  EXPECT_EQ(MessageOf(t.Reshaped({}).Rows(0, 1).status()),
            "Tensor: a f32[2,3] reshaped to []; 6 elements are not 1, give sizes whose "
            "product is the first.");  // the first mistake
  EXPECT_EQ(MessageOf(Tensor::Zeros({F32, {}}).Rows(0, 1).status()),
            "Tensor: rows 0 to 1 of a f32[], which has no dims.");
  EXPECT_EQ(MessageOf(t.Reshaped({4, -1}).status()), MessageOf(Tensor(Type{F32, {4, -1}}).status()));
  EXPECT_EQ(
      MessageOf(t.TryValues<int32_t>().status()),
      "Tensor: elements of i32 are asked for, of a f32[2,3]; values<T>() takes the C++ type of its dtype.");
  EXPECT_THROW(t.values<int32_t>(), absl::BadStatusOrAccess);
  EXPECT_THROW(few.values<float>(), absl::BadStatusOrAccess);
  EXPECT_EQ(t.TryValues<float>()->size(), 6u);
  EXPECT_EQ(t.Rows(1, 2).values<float>()[0], 4);
  EXPECT_EQ(t.Reshaped({3, 2}).shape(), (Shape{3, 2}));
}

TEST(TensorTest, LiesOverMemoryThatItsElementsFit) {
  std::vector<float> mine(7, 5);
  auto over = [&](std::byte* address) {
    return Tensor(Type{F32, {6}}, std::shared_ptr<void>(address, [](void*) {}));
  };
  auto* const bytes = reinterpret_cast<std::byte*>(mine.data());
  EXPECT_EQ(over(bytes + 4).values<float>()[0], 5);
  EXPECT_NE(
      MessageOf(over(bytes + 1).status()).find("elements lie at multiples of 4 bytes, so copy them there."),
      std::string_view::npos);
  EXPECT_EQ(MessageOf(over(nullptr).status()), "Tensor: a f32[6] over no memory; give an address.");
}

}  // namespace
}  // namespace meshwork::tensor_test
