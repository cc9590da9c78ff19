// Functions that make tensors from numbers and from other tensors. tests/fixtures/numpy_test.cc compares with NumPy.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/runtime/tensor/strided.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/runtime/tensor/tensor_text.h"

namespace meshwork::tensor_ops_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::vector<T> ListOf(const Tensor& x) {
  return {x.values<T>().begin(), x.values<T>().end()};
}

Tensor Six() { return Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6}); }

TEST(TensorOpsTest, IsMadeOfNumbersSpansAndLists) {
  const std::vector<float> vector = {1, 2};
  const std::array<float, 2> array = {1, 2};
  const float bare[] = {1, 2};
  std::vector<float> changing = {1, 2};
  for (const Tensor& x :
       {Tensor::From<float>({2}, vector), Tensor::From<float>({2}, array), Tensor::From<float>({2}, bare),
        Tensor::From<float>({2}, std::span<float>(changing)), Tensor::From<float>({2}, {1, 2}),
        Tensor::From<float>({2}, {vector.begin(), vector.end()}), Tensor::From({2}, {1.0f, 2.0f}),
        Tensor::FromMemory({F32, {2}}, bare)}) {
    EXPECT_EQ(x.type(), (Type{F32, {2}}));
    EXPECT_EQ(ListOf<float>(x), vector);
  }
  EXPECT_EQ(Tensor::From<float>({0}, {}).type(), (Type{F32, {0}}));
  EXPECT_EQ(Tensor::From<float>({1}, {0}).At({0}).value(), 0);
  EXPECT_FALSE(Tensor::From<float>({3}, array).valid());
  EXPECT_FALSE(Tensor::From<float>({3}, {1, 2}).valid());
}

TEST(TensorOpsTest, ANumberIsAScalarOfItsType) {
  const std::map<std::string, Tensor> feeds = {{"f32", 0.5f},  {"f64", 0.5},
                                               {"i32", 7},     {"i64", int64_t{1} << 40},
                                               {"bool", true}, {"bf16", BFloat16(0.5f)}};
  const std::map<std::string, double> expected = {{"f32", 0.5},    {"f64", 0.5}, {"i32", 7},
                                                  {"i64", 0x1p40}, {"bool", 1},  {"bf16", 0.5}};
  for (const auto& [name, tensor] : feeds) {
    EXPECT_EQ(tensor.type(), (Type{DTypeFromName(name).value(), {}}));
    EXPECT_EQ(tensor.Scalar().value(), expected.at(name)) << name;
  }
}

TEST(TensorOpsTest, FullAndArangeRoundAsCastDoes) {
  EXPECT_EQ(ListOf<int32_t>(Tensor::Full({I32, {3}}, -2.75)), (std::vector<int32_t>{-2, -2, -2}));
  EXPECT_EQ(ListOf<float>(Tensor::Full({F32, {2}}, 0.1)), (std::vector<float>{0.1f, 0.1f}));
  EXPECT_EQ(Tensor::Full({F32, {}}, 3).Scalar().value(), 3);
  EXPECT_EQ(ListOf<int64_t>(Tensor::Arange(I64, 0, 5, 2)), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(ListOf<int32_t>(Tensor::Arange(I32, 3, 0, -1)), (std::vector<int32_t>{3, 2, 1}));
  EXPECT_EQ(ListOf<int32_t>(Tensor::Arange(I32, 0, 2, 0.5)), (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(Tensor::Arange(F32, 1, 1).type(), (Type{F32, {0}}));
  for (const Tensor& wrong :
       {Tensor::Arange(F32, 0, 1, 0), Tensor::Arange(F32, 0, kInf), Tensor::Arange(F32, kNan, 1),
        Tensor::Arange(F32, 0, 1e30), Tensor::Full({F32, {-1}}, 0)})
    EXPECT_FALSE(wrong.valid());
}

TEST(TensorOpsTest, IndicesCountFromBothEnds) {
  const Tensor x = Six();
  for (int64_t i = -2; i < 2; ++i) {
    for (int64_t j = -3; j < 3; ++j) {
      const double expected = 3.0 * static_cast<double>((i + 2) % 2) + static_cast<double>((j + 3) % 3) + 1;
      EXPECT_EQ(x.At({i, j}).value(), expected);
      EXPECT_EQ(x.At<float>({i, j}).value(), static_cast<float>(expected));
      EXPECT_EQ(x[i][j].Scalar().value(), expected);
    }
  }
  EXPECT_EQ(Tensor(7).At({}).value(), 7);
  constexpr int64_t kLarge = (int64_t{1} << 60) + 1;
  EXPECT_EQ(Tensor(kLarge).At<int64_t>({}).value(), kLarge);
  for (const Shape& index : {Shape{2, 0}, Shape{0, 3}, Shape{-3, 0}, Shape{0, -4}, Shape{0}, Shape{0, 0, 0}})
    EXPECT_FALSE(x.At(index).ok());
  EXPECT_FALSE(x.At<int32_t>({0, 0}).ok());
  EXPECT_FALSE(Tensor().At({}).ok());
  EXPECT_FALSE(x[2].valid());
  EXPECT_FALSE(x[0][0][0].valid());
  EXPECT_FALSE(Tensor(Type{F32, {0, 3}})[0].valid());
}

TEST(TensorOpsTest, RowsShareAndSlicesCopy) {
  Tensor x = Six();
  const Tensor row = x[1], slice = x.Sliced({{1}}), turned = x.Transposed(), same = x.Cast(F32);
  x.mutable_values<float>()[3] = 40;
  EXPECT_EQ(row.At({0}).value(), 40);
  EXPECT_EQ(same.At({1, 0}).value(), 40);
  EXPECT_EQ(slice.At({0, 0}).value(), 4);
  EXPECT_EQ(turned.At({0, 1}).value(), 4);
}

TEST(TensorOpsTest, SlicesOfExtremePositionsAreWithinTheDim) {
  const Tensor x = Tensor::Arange(I32, 0, 5);
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ListOf<int32_t>(x.Sliced({{kMin, kMax}})), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(ListOf<int32_t>(x.Sliced({{kMax, kMin, -1}})), (std::vector<int32_t>{4, 3, 2, 1, 0}));
  EXPECT_EQ(ListOf<int32_t>(x.Sliced({{1, kMax, kMax}})), (std::vector<int32_t>{1}));
  EXPECT_EQ(ListOf<int32_t>(x.Sliced({{kMax, kMin, kMin}})), (std::vector<int32_t>{4}));
  EXPECT_EQ(x.Sliced({{kMax, kMin}}).type(), (Type{I32, {0}}));
  const Tensor empty(Type{F32, {0, 3}});
  EXPECT_EQ(empty.Sliced({{0, 5, -1}, {1}}).type(), (Type{F32, {0, 2}}));
  EXPECT_EQ(Tensor(1.0f).Sliced({}).Scalar().value(), 1);
}

// Large transposes go in tiles, which the sizes need not be multiples of.
TEST(TensorOpsTest, TransposesMatricesOfAnySize) {
  for (const DType dtype : {U8, F16, F32, I64}) {
    for (const int64_t rows : {1, 7, 8, 31, 32, 33, 64, 65, 130}) {
      for (const int64_t columns : {1, 8, 32, 63, 64, 97}) {
        const Tensor x = Tensor::Arange(I64, 0, 3 * rows * columns).Cast(dtype).Reshaped({3, rows, columns});
        const auto check = [&](const std::vector<int64_t>& dims, auto index) {
          const Tensor y = x.Transposed(dims);
          const int64_t size = DTypeSize(dtype);
          const auto at = [&](const Tensor& tensor, int64_t e) {
            return std::string(static_cast<const char*>(tensor.raw()) + e * size, static_cast<size_t>(size));
          };
          for (int64_t b = 0; b < 3; ++b)
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < columns; ++j)
                ASSERT_EQ(at(y, index(b, i, j)), at(x, (b * rows + i) * columns + j))
                    << rows << " " << columns;
        };
        check({0, 2, 1}, [&](int64_t b, int64_t i, int64_t j) { return (b * columns + j) * rows + i; });
        check({2, 0, 1}, [&](int64_t b, int64_t i, int64_t j) { return (j * 3 + b) * rows + i; });
        check({2, 1, 0}, [&](int64_t b, int64_t i, int64_t j) { return (j * rows + i) * 3 + b; });
        check({1, 2, 0}, [&](int64_t b, int64_t i, int64_t j) { return (i * columns + j) * 3 + b; });
      }
    }
  }
}

// Transposes with every order of the dims, against the definition.
TEST(TensorOpsTest, TransposesAllDTypesAndOrders) {
  for (const DType dtype : kAllDTypes) {
    const Tensor x = Tensor::Arange(dtype, 0, 2 * 3 * 4 * 5).Reshaped({2, 3, 4, 5});
    std::vector<int64_t> dims = {0, 1, 2, 3};
    do {
      const Tensor y = x.Transposed(dims);
      ASSERT_TRUE(y.valid()) << y.status();
      for (size_t d = 0; d < 4; ++d) ASSERT_EQ(y.shape()[d], x.shape()[static_cast<size_t>(dims[d])]);
      for (int64_t e = 0; e < x.num_elements(); ++e) {
        const Shape index = {e / 60, e / 20 % 3, e / 5 % 4, e % 5};
        Shape turned(4);
        for (size_t d = 0; d < 4; ++d) turned[d] = index[static_cast<size_t>(dims[d])];
        ASSERT_EQ(y.At(turned).value(), x.At(index).value());
      }
    } while (std::next_permutation(dims.begin(), dims.end()));
  }
  for (const std::vector<int64_t>& wrong :
       std::vector<std::vector<int64_t>>{{0}, {0, 0}, {0, 2}, {0, -2}, {0, 1, 2}, {}})
    EXPECT_FALSE(Six().Transposed(wrong).valid());
}

TEST(TensorOpsTest, CopiesWhatLiesStrided) {
  // Columns of a padded image, in reverse, and a row that is repeated.
  const std::vector<int32_t> image = {0, 1, 2, -1, 10, 11, 12, -1};
  EXPECT_EQ(ListOf<int32_t>(Tensor::FromStrided(image.data(), {2, 3}, {4, 1})),
            (std::vector<int32_t>{0, 1, 2, 10, 11, 12}));
  EXPECT_EQ(ListOf<int32_t>(Tensor::FromStrided(image.data(), {3, 2}, {1, 4})),
            (std::vector<int32_t>{0, 10, 1, 11, 2, 12}));
  EXPECT_EQ(ListOf<int32_t>(Tensor::FromStrided(image.data() + 2, {3}, {-1})),
            (std::vector<int32_t>{2, 1, 0}));
  EXPECT_EQ(ListOf<int32_t>(Tensor::FromStrided(image.data() + 4, {2, 2}, {0, 1})),
            (std::vector<int32_t>{10, 11, 10, 11}));
  EXPECT_EQ(Tensor::FromStrided(image.data() + 5, {}, {}).Scalar().value(), 11);
  EXPECT_EQ(Tensor::FromStrided<int32_t>(nullptr, {0, 3}, {1, 1}).type(), (Type{I32, {0, 3}}));
  EXPECT_FALSE(Tensor::FromStrided(image.data(), {2, 3}, {4}).valid());
  EXPECT_FALSE(Tensor::FromStrided<int32_t>(nullptr, {2}, {1}).valid());
  EXPECT_FALSE(Tensor::FromStrided(image.data(), {-2}, {1}).valid());
}

TEST(TensorOpsTest, CopiesMemoryThatIsNotAligned) {
  std::vector<char> bytes(1 + 3 * sizeof(double));
  const double numbers[] = {1.5, -2, 0.25};
  std::memcpy(bytes.data() + 1, numbers, sizeof(numbers));
  EXPECT_EQ(ListOf<double>(Tensor::FromMemory({F64, {3}}, bytes.data() + 1)),
            (std::vector<double>{1.5, -2, 0.25}));
  const char bools[] = {0, 1, 2};
  EXPECT_TRUE(Tensor::FromMemory({BOOL, {2}}, bools).valid());
  EXPECT_FALSE(Tensor::FromMemory({BOOL, {3}}, bools).valid());
  EXPECT_FALSE(Tensor::FromMemory({F32, {3}}, nullptr).valid());
  EXPECT_FALSE(Tensor::FromMemory({F32, {int64_t{1} << 40, int64_t{1} << 40}}, bools).valid());
}

TEST(TensorOpsTest, CastsAsTheOpDoes) {
  const Tensor reals = Tensor::From<double>({7}, {-2.75, 2.75, 0, kNan, kInf, -kInf, 1e10});
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min(), kMax = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(ListOf<int32_t>(reals.Cast(I32)), (std::vector<int32_t>{-2, 2, 0, 0, kMax, kMin, kMax}));
  EXPECT_EQ(ListOf<int64_t>(reals.Cast(I64))[6], 10'000'000'000);
  EXPECT_EQ(ListOf<bool>(reals.Cast(BOOL)), (std::vector<bool>{true, true, false, true, true, true, true}));
  EXPECT_EQ(ListOf<int32_t>(Tensor((int64_t{1} << 32) + 5).Cast(I32)), std::vector<int32_t>{5});
  EXPECT_EQ(ListOf<double>(Tensor::From<bool>({2}, {true, false}).Cast(F64)), (std::vector<double>{1, 0}));
  // 1 + 2^-8 lies halfway between two bf16; through f32 the small rest would be lost, and the tie would round down.
  EXPECT_EQ(Tensor(1 + 0x1p-8 + 0x1p-40).Cast(BF16).Scalar().value(), 1 + 0x1p-7);
  EXPECT_EQ(Tensor(1 + 0x1p-8).Cast(BF16).Scalar().value(), 1);
}

TEST(TensorOpsTest, JoinsAlongDimsThatAreThereAndNewOnes) {
  const Tensor a = Six(), b = Tensor::From<float>({2, 1}, {7, 8});
  EXPECT_EQ(ListOf<float>(Tensor::Concat({a, b}, 1)), (std::vector<float>{1, 2, 3, 7, 4, 5, 6, 8}));
  EXPECT_EQ(ListOf<float>(Tensor::Concat({a, b}, -1)), ListOf<float>(Tensor::Concat({a, b}, 1)));
  EXPECT_EQ(Tensor::Concat({a, a[0].Reshaped({1, 3})}, 0).type(), (Type{F32, {3, 3}}));
  EXPECT_EQ(ListOf<float>(Tensor::Concat({a, Tensor(Type{F32, {0, 3}})}, 0)), ListOf<float>(a));
  const Tensor rows = Tensor::Stack({a[0], a[1]});
  EXPECT_EQ(AllEqual(rows, a), absl::OkStatus());
  EXPECT_EQ(AllEqual(Tensor::Stack({a[0], a[1]}, 1), a.Transposed()), absl::OkStatus());
  EXPECT_EQ(AllEqual(Tensor::Stack({a[0], a[1]}, -1), a.Transposed()), absl::OkStatus());
  EXPECT_EQ(Tensor::Stack({Tensor(1), Tensor(2)}).type(), (Type{I32, {2}}));
  for (const Tensor& wrong :
       {Tensor::Concat({}, 0), Tensor::Stack({}), Tensor::Concat({a, b}, 0), Tensor::Concat({a, b}, 2),
        Tensor::Concat({a, b}, -3), Tensor::Concat({a, a.Cast(F64)}, 0), Tensor::Concat({a, a[0]}, 0),
        Tensor::Concat({Tensor(1), Tensor(2)}, 0), Tensor::Stack({a, b}), Tensor::Stack({a, a}, 3),
        Tensor::Concat({a, Tensor()}, 0), Tensor::Stack({a, Tensor()})})
    EXPECT_FALSE(wrong.valid());
}

TEST(TensorOpsTest, WhatIsMadeOfAnInvalidTensorIsInvalidForTheSameReason) {
  const Tensor wrong = Six().Rows(1, 7);
  for (const Tensor& x : {wrong[0], wrong.Sliced({{1}}), wrong.Transposed(), wrong.Transposed({0}),
                          wrong.Cast(F64), wrong.Reshaped({7}), Tensor::Concat({Six(), wrong}, 0)})
    EXPECT_EQ(x.status(), wrong.status());
  EXPECT_EQ(wrong.At({0}).status(), wrong.status());
  EXPECT_EQ(wrong.ToString(),
            "<Tensor: rows 1 to 7 of a f32[2,3], which has rows 0 to 2; "
            "give a begin and an end there.>");
}

}  // namespace
}  // namespace meshwork::tensor_ops_test
