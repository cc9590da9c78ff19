// The kernels of rows that move elements to another shape, against plain loops.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "ops/kernel_check.h"
#include "support/interpreter.h"

namespace meshwork::shape_kernels_test {
namespace {

TEST(ShapeKernelTest, BroadcastToRepeatsAsAPlainLoopDoes) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = DrawBroadcast(random, 1)[0];
    Shape from;
    Ints dims;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (random() % 3 == 0) continue;
      dims.push_back(static_cast<int64_t>(d));
      from.push_back(random() % 3 == 0 ? 1 : shape[d]);
    }
    const DType dtype = kAllDTypes[random() % 5];
    const HostTensor x({dtype, from}, Draw(random, NumElements(from), 0, dtype == BOOL ? 2 : 100, true));
    Numbers expected;
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      Shape index(from.size());
      for (size_t k = 0; k < from.size(); ++k) index[k] = from[k] == 1 ? 0 : IndexAt(shape, i)[dims[k]];
      expected.push_back(x.Numbers()[Position(from, index)]);
    }
    const Attrs attrs = {{"shape", Ints(shape.begin(), shape.end())}, {"dims", dims}};
    const HostTensor whole = Apply("broadcast_to", {x}, attrs, {dtype, shape});
    ASSERT_EQ(whole.Numbers(), expected) << x.type().ToString() << " to " << ShapeToString(shape);
    ASSERT_EQ(Apply("broadcast_to", {x}, attrs, {dtype, shape}, DrawCuts(random, NumElements(shape))), whole);
  }
}

TEST(ShapeKernelTest, TransposesAsAPlainLoopDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const Shape from = DrawBroadcast(random, 1)[0];
    Ints permutation;
    for (size_t d = 0; d < from.size(); ++d) permutation.push_back(static_cast<int64_t>(d));
    std::shuffle(permutation.begin(), permutation.end(), random);
    Shape shape;
    for (int64_t d : permutation) shape.push_back(from[d]);
    const DType dtype = kAllDTypes[random() % 5];
    const HostTensor x({dtype, from}, Draw(random, NumElements(from), 0, dtype == BOOL ? 2 : 100, true));
    Numbers expected;
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      Shape index(from.size());
      for (size_t d = 0; d < from.size(); ++d) index[permutation[d]] = IndexAt(shape, i)[d];
      expected.push_back(x.Numbers()[Position(from, index)]);
    }
    const HostTensor whole = Apply("transpose", {x}, {{"permutation", permutation}}, {dtype, shape});
    ASSERT_EQ(whole.Numbers(), expected);
    ASSERT_EQ(Apply("transpose", {x}, {{"permutation", permutation}}, {dtype, shape},
                    DrawCuts(random, NumElements(shape))),
              whole);
  }
}

TEST(ShapeKernelTest, ReshapeKeepsTheElementsInOrder) {
  const HostTensor x({I64, {2, 3}}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Apply("reshape", {x}, {{"shape", Ints{3, 2}}}, {I64, {3, 2}}, {1, 4}).Numbers(), x.Numbers());
}

TEST(ShapeKernelTest, DimensionSizeIsThatOfTheWhole) {
  const OpRow& row = GetOp("dimension_size");
  const Attrs attrs = Graph::CompleteAttrs(row, {{"dims", Ints{0, 2}}, {"dtype", I32}}).value();
  // A device that holds 2 of 7 rows.
  std::vector<TensorPart> result = {HostTensor({I32, {}})};
  RunKernel(row, attrs,
            {TensorPart(HostTensor({F32, {2, 3, 5}}), {F32, {7, 3, 5}}, {{2, 2}, {0, 3}, {0, 5}})}, result);
  EXPECT_EQ(result[0].local.Number(), 35);
}

}  // namespace
}  // namespace meshwork::shape_kernels_test
