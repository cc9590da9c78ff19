#include "meshwork/runtime/tensor/dlpack.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/dlpack_abi.h"
#include "meshwork/runtime/tensor/tensor_compare.h"

namespace meshwork::dlpack_test {
namespace {

constexpr dlpack::DataType kFloat32 = {dlpack::kFloat, 32, 1};

dlpack::ManagedTensor* Managed(DLManagedTensor* managed) {
  return reinterpret_cast<dlpack::ManagedTensor*>(managed);
}

// An array of another library, which counts the calls of its deleter.
class ForeignArray {
 public:
  ForeignArray(dlpack::DataType type, std::vector<int64_t> shape, std::vector<int64_t> strides, void* data)
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    managed_.dl_tensor = {.data = data,
                          .device = {dlpack::kCpu, 0},
                          .ndim = static_cast<int32_t>(shape_.size()),
                          .dtype = type,
                          .shape = shape_.data(),
                          .strides = strides_.empty() ? nullptr : strides_.data(),
                          .byte_offset = 0};
    managed_.manager_ctx = this;
    managed_.deleter = [](dlpack::ManagedTensor* self) {
      ++static_cast<ForeignArray*>(self->manager_ctx)->deleted_;
    };
  }

  dlpack::TensorView& view() { return managed_.dl_tensor; }
  dlpack::ManagedTensor& managed() { return managed_; }
  absl::StatusOr<Tensor> Import() { return FromDlpack(reinterpret_cast<DLManagedTensor*>(&managed_)); }
  int deleted() const { return deleted_; }

 private:
  std::vector<int64_t> shape_, strides_;
  dlpack::ManagedTensor managed_ = {};
  int deleted_ = 0;
};

TEST(DlpackTest, SharesWhatIsDenseAndReleasesItWithTheLastCopy) {
  std::vector<float> data = {1, 2, 3, 4, 5, 6};
  for (const std::vector<int64_t>& strides : std::vector<std::vector<int64_t>>{{}, {3, 1}}) {
    ForeignArray array(kFloat32, {2, 3}, strides, data.data());
    {
      Tensor x = array.Import().value();
      EXPECT_EQ(x.type(), (Type{F32, {2, 3}}));
      EXPECT_EQ(x.raw(), data.data());
      const Tensor row = x[1];
      x = Tensor();
      EXPECT_EQ(array.deleted(), 0);
      EXPECT_EQ(row.At({0}).value(), 4);
    }
    EXPECT_EQ(array.deleted(), 1);
  }
}

TEST(DlpackTest, CopiesWhatIsNotDenseAndReleasesItAtOnce) {
  std::vector<float> data = {1, 2, 3, 4, 5, 6};
  ForeignArray columns(kFloat32, {2, 3}, {1, 2}, data.data());
  const Tensor x = columns.Import().value();
  EXPECT_EQ(columns.deleted(), 1);
  EXPECT_EQ(AllEqual(x, Tensor::From<float>({2, 3}, {1, 3, 5, 2, 4, 6})), absl::OkStatus());
  ForeignArray backwards(kFloat32, {3}, {-1}, data.data() + 2);
  EXPECT_EQ(AllEqual(backwards.Import().value(), Tensor::From<float>({3}, {3, 2, 1})), absl::OkStatus());
  ForeignArray repeated(kFloat32, {2, 2}, {0, 1}, data.data());
  EXPECT_EQ(AllEqual(repeated.Import().value(), Tensor::From<float>({2, 2}, {1, 2, 1, 2})), absl::OkStatus());
  // The stride of a dim of one element has no meaning.
  ForeignArray one(kFloat32, {1, 3}, {77, 1}, data.data());
  EXPECT_EQ(one.Import()->raw(), data.data());
}

TEST(DlpackTest, HeedsTheOffsetAndTheAlignment) {
  std::vector<float> data = {1, 2, 3, 4};
  ForeignArray later(kFloat32, {2}, {}, data.data());
  later.view().byte_offset = 8;
  const Tensor x = later.Import().value();
  EXPECT_EQ(x.raw(), data.data() + 2);
  EXPECT_EQ(x.At({1}).value(), 4);
  std::vector<char> bytes(9);
  std::memcpy(bytes.data() + 1, data.data(), 8);
  ForeignArray odd(kFloat32, {2}, {}, bytes.data());
  odd.view().byte_offset = 1;
  EXPECT_EQ(AllEqual(odd.Import().value(), Tensor::From<float>({2}, {1, 2})), absl::OkStatus());
  EXPECT_EQ(odd.deleted(), 1);
}

TEST(DlpackTest, TakesWhatHasNoElementsOrNoDeleter) {
  ForeignArray empty(kFloat32, {0, 3}, {}, nullptr);
  EXPECT_EQ(empty.Import()->type(), (Type{F32, {0, 3}}));
  EXPECT_EQ(empty.deleted(), 1);
  float number = 7;
  ForeignArray scalar(kFloat32, {}, {}, &number);
  scalar.managed().deleter = nullptr;
  EXPECT_EQ(scalar.Import()->Scalar().value(), 7);
}

TEST(DlpackTest, WhatIsRefusedStaysTheCallers) {
  std::vector<float> data(6);
  const auto refuse = [&](const std::function<void(ForeignArray&)>& change) {
    ForeignArray array(kFloat32, {2, 3}, {}, data.data());
    change(array);
    EXPECT_FALSE(array.Import().ok());
    EXPECT_EQ(array.deleted(), 0);
  };
  refuse([](ForeignArray& a) { a.view().device.type = 2; });
  refuse([](ForeignArray& a) { a.view().data = nullptr; });
  refuse([](ForeignArray& a) { a.view().ndim = -1; });
  refuse([](ForeignArray& a) { a.view().shape = nullptr; });
  refuse([](ForeignArray& a) { a.view().shape[0] = -2; });
  refuse([](ForeignArray& a) { a.view().shape[0] = int64_t{1} << 62; });
  for (const dlpack::DataType type : {dlpack::DataType{dlpack::kFloat, 8, 1},
                                      {dlpack::kFloat, 32, 4},
                                      {dlpack::kUInt, 16, 1},
                                      {dlpack::kInt, 16, 1},
                                      {dlpack::kComplex, 64, 1},
                                      {dlpack::kBool, 1, 1},
                                      {99, 8, 1}})
    refuse([&](ForeignArray& a) { a.view().dtype = type; });
  uint8_t bools[] = {0, 1, 2};
  ForeignArray array({dlpack::kBool, 8, 1}, {3}, {}, bools);
  EXPECT_FALSE(array.Import().ok());
  EXPECT_EQ(array.deleted(), 0);
  bools[2] = 1;
  EXPECT_TRUE(array.Import().ok());
  EXPECT_EQ(array.deleted(), 1);
}

TEST(DlpackTest, WhatIsLentLivesUntilItIsReturned) {
  for (const DType dtype : kAllDTypes) {
    Tensor x = Tensor::Arange(dtype, 0, 6).Reshaped({2, 3});
    const void* const elements = x.raw();
    const Tensor copy = Tensor::FromMemory(x.type(), x.raw());
    DLManagedTensor* const lent = ToDlpack(x[1]).value();
    x = Tensor();
    const dlpack::TensorView& view = Managed(lent)->dl_tensor;
    EXPECT_EQ(static_cast<std::byte*>(view.data) + view.byte_offset,
              static_cast<const std::byte*>(elements) + 3 * DTypeSize(dtype));
    ASSERT_EQ(view.ndim, 1);
    EXPECT_EQ(view.shape[0], 3);
    EXPECT_EQ(view.strides[0], 1);
    EXPECT_EQ(view.dtype.bits, 8 * DTypeSize(dtype));
    EXPECT_EQ(view.dtype.lanes, 1);
    EXPECT_EQ(view.device.type, dlpack::kCpu);
    const Tensor back = FromDlpack(lent).value();  // which calls the deleter in the end; the sanitizer counts
    EXPECT_EQ(back.raw(), static_cast<const std::byte*>(elements) + 3 * DTypeSize(dtype));
    EXPECT_EQ(AllEqual(back, copy[1]), absl::OkStatus());
  }
}

TEST(DlpackTest, LendsEveryDTypeByItsName) {
  const auto code = [](DType dtype) {
    DLManagedTensor* const lent = ToDlpack(Tensor::Zeros({dtype, {}})).value();
    const uint8_t found = Managed(lent)->dl_tensor.dtype.code;
    Managed(lent)->deleter(Managed(lent));
    return found;
  };
  EXPECT_EQ(code(F32), 2);
  EXPECT_EQ(code(F64), 2);
  EXPECT_EQ(code(BF16), 4);
  EXPECT_EQ(code(I32), 0);
  EXPECT_EQ(code(I64), 0);
  EXPECT_EQ(code(BOOL), 6);
  EXPECT_FALSE(ToDlpack(Tensor()).ok());
}

}  // namespace
}  // namespace meshwork::dlpack_test
