// Kernels that make values in place, and kernels whose result depends on the position of a block: every
// device computes its block of the whole result.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "ops/kernel_check.h"
#include "ops/special_numbers.h"
#include "support/interpreter.h"

namespace meshwork::block_kernels_test {
namespace {

using ::testing::ElementsAre;

TEST(GenerateKernelTest, ConstantsFillTheTensor) {
  for (DType dtype : kAllDTypes) {
    EXPECT_THAT(
        Apply("constant", {}, {{"value", 1.0}, {"dtype", dtype}, {"shape", Ints{3}}}, {dtype, {3}}, {1})
            .Numbers(),
        ElementsAre(1, 1, 1));
  }
  EXPECT_EQ(Apply("constant", {}, {{"value", 0.1}, {"dtype", F32}, {"shape", Ints{}}}, {F32, {}}).Number(),
            0.1f);
}

TEST(GenerateKernelTest, OneHotIsZeroOutOfRange) {
  const HostTensor x({I64, {4}}, {2, 0, -1, 3});
  EXPECT_THAT(Apply("one_hot", {x}, {{"depth", int64_t{3}}, {"dtype", F64}}, {F64, {4, 3}}, {1, 3}).Numbers(),
              ElementsAre(0, 0, 1, /**/ 1, 0, 0, /**/ 0, 0, 0, /**/ 0, 0, 0));
}

// The part of a whole tensor that `device` holds under a layout; padding is 77.
TensorPart PartOf(const HostTensor& whole, const Layout& layout, int64_t device) {
  const Shape& shape = whole.type().shape;
  const Type local{whole.type().dtype, layout.LocalShape(shape)};
  const Block block = layout.BlockOf(shape, device);
  Numbers numbers;
  for (int64_t i = 0; i < local.num_elements(); ++i) {
    Shape index = IndexAt(local.shape, i);
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      inside &= index[d] < block[d].size;
      index[d] += block[d].start;
    }
    numbers.push_back(inside ? whole.Numbers()[Position(shape, index)] : 77);
  }
  return {HostTensor(local, numbers), whole.type(), block};
}

// Expects the two parts to agree within their block; padding may be anything.
void ExpectSameWithinBlock(const TensorPart& got, const TensorPart& want) {
  ASSERT_EQ(got.local.type(), want.local.type());
  const Numbers a = got.local.Numbers(), b = want.local.Numbers();
  for (int64_t i = 0; i < got.local.type().num_elements(); ++i) {
    const Shape index = IndexAt(got.local.type().shape, i);
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) inside &= index[d] < want.block[d].size;
    if (!inside) continue;
    ASSERT_EQ(a[i], b[i]) << ShapeToString(index);
  }
}

TEST(BlockKernelTest, EveryDeviceMakesItsOwnPart) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  const Shape shape = {7, 5};
  Ints bits(35);
  std::iota(bits.begin(), bits.end(), 1);
  const std::pair<const char*, Attrs> kGenerators[] = {
      {"elements", {{"bits", bits}, {"of", Ints{7, 5}}, {"dtype", I64}}},
      {"iota", {{"dim", int64_t{0}}, {"dtype", I32}}},
      {"iota", {{"dim", int64_t{1}}, {"dtype", F64}}},
      {"random_uniform", {{"seed", int64_t{3}}, {"low", -1.0}}},
      {"random_normal", {{"seed", int64_t{3}}, {"stream", int64_t{1}}, {"dtype", F64}}},
  };
  for (const auto& [op, attrs] : kGenerators) {
    const OpRow& row = GetOp(op);
    Attrs given = attrs;
    given.Set("shape", Ints(shape.begin(), shape.end()));
    const Type type{std::get<DType>(*Graph::CompleteAttrs(row, given)->Find("dtype")), shape};
    const HostTensor whole = Apply(op, {}, given, type);
    for (const char* text : {"{x,y}", "{(y,x),_}", "{_,(x,y)}", "{_,_}"}) {
      const Layout layout = Layout::Parse(mesh, text).value();
      for (int64_t device = 0; device < mesh.num_devices(); ++device) {
        const TensorPart want = PartOf(whole, layout, device);
        std::vector<TensorPart> got = {{HostTensor(want.local.type()), want.global, want.block}};
        Attrs local = given;
        local.Set("shape", Ints(want.local.type().shape.begin(), want.local.type().shape.end()));
        RunKernel(row, Graph::CompleteAttrs(row, local).value(), {}, got, {1});
        ExpectSameWithinBlock(got[0], want);
      }
    }
  }
}

TEST(BlockKernelTest, OneHotMakesItsPartOfTheDepth) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  const HostTensor x({I32, {5}}, {6, 0, -3, 9, 4});
  const HostTensor whole = Apply("one_hot", {x}, {{"depth", int64_t{7}}}, {F32, {5, 7}});
  const Layout in = Layout::Parse(mesh, "{y}").value(), out = Layout::Parse(mesh, "{y,x}").value();
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    const TensorPart want = PartOf(whole, out, device);
    std::vector<TensorPart> got = {{HostTensor(want.local.type()), want.global, want.block}};
    RunKernel(GetOp("one_hot"), {{"depth", want.local.type().shape[1]}, {"dtype", F32}},
              {PartOf(x, in, device)}, got);
    ExpectSameWithinBlock(got[0], want);
  }
}

TEST(BlockKernelTest, ShardSliceKeepsTheDevicesPart) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  std::mt19937 random(9);
  for (DType dtype : kAllDTypes) {
    const HostTensor whole({dtype, {7, 5, 2}}, Draw(random, 70, 0, dtype == BOOL ? 2 : 90, true));
    struct Case {
      const char *from, *to;
      int64_t dim;
    };
    for (const Case& c : {Case{"{_,_,_}", "{x,_,_}", 0},
                          {"{x,_,_}", "{(x,y),_,_}", 0},
                          {"{_,_,y}", "{_,x,y}", 1},
                          {"{x,_,_}", "{x,_,y}", 2},
                          {"{_,_,_}", "{_,(y,x),_}", 1}}) {
      const Layout from = Layout::Parse(mesh, c.from).value(), to = Layout::Parse(mesh, c.to).value();
      for (int64_t device = 0; device < mesh.num_devices(); ++device) {
        const TensorPart want = PartOf(whole, to, device);
        std::vector<TensorPart> got = {{HostTensor(want.local.type()), want.global, want.block}};
        RunKernel(GetOp("shard_slice"), {{"axes", AxisList{0}}, {"dim", c.dim}},
                  {PartOf(whole, from, device)}, got, {1});
        ExpectSameWithinBlock(got[0], want);
      }
    }
  }
}

TEST(BlockKernelTest, MaskPaddingFillsTheMaskedDimsWithTheIdentity) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  const Layout layout = Layout::Parse(mesh, "{x,y}").value();
  auto identity = [](DType dtype, ReduceOp op) -> double {
    if (op == ReduceOp::kSum || op == ReduceOp::kOr) return 0;
    if (op == ReduceOp::kProd || op == ReduceOp::kAnd) return 1;
    const double limit = dtype == I32 ? 0x1p31 : 0x1p63;
    const double largest = IsFloat(dtype) ? kInf : dtype == I32 ? limit - 1 : limit;  // 2^63 - 1 as a double
    return op == ReduceOp::kMin ? largest : IsFloat(dtype) ? -kInf : -limit;
  };
  std::mt19937 random(10);
  for (DType dtype : kComputeDTypes) {
    const HostTensor whole({dtype, {7, 5}}, Draw(random, 35, 0, dtype == BOOL ? 2 : 70, true));
    for (ReduceOp op : kAllReduceOps) {
      if ((op == ReduceOp::kAnd || op == ReduceOp::kOr) != (dtype == BOOL)) continue;
      for (const Ints& dims : {Ints{}, Ints{0}, Ints{1}, Ints{0, 1}}) {
        for (int64_t device = 0; device < mesh.num_devices(); ++device) {
          const TensorPart in = PartOf(whole, layout, device);
          Numbers expected = in.local.Numbers();
          std::vector<bool> known(expected.size(), true);
          for (size_t i = 0; i < expected.size(); ++i) {
            const Shape index = IndexAt(in.local.type().shape, static_cast<int64_t>(i));
            bool masked = false;
            for (int64_t d = 0; d < 2; ++d) {
              if (index[d] < in.block[d].size) continue;
              known[i] = false;
              masked |= std::find(dims.begin(), dims.end(), d) != dims.end();
            }
            if (masked) {
              expected[i] = identity(dtype, op);
              known[i] = true;
            }
          }
          std::vector<TensorPart> got = {{HostTensor(in.local.type()), in.global, in.block}};
          RunKernel(GetOp("mask_padding"), {{"dims", dims}, {"op", op}}, {in}, got, {1});
          const Numbers numbers = got[0].local.Numbers();
          for (size_t i = 0; i < expected.size(); ++i) {
            if (!known[i]) continue;
            ASSERT_EQ(numbers[i], expected[i]) << "device " << device << " element " << i;
          }
        }
      }
    }
  }
}

TEST(BlockKernelTest, MaskPaddingTakesScalarsAndEmptyBlocks) {
  std::vector<TensorPart> scalar = {HostTensor({F32, {}})};
  RunKernel(GetOp("mask_padding"), {{"dims", Ints{}}, {"op", ReduceOp::kSum}}, {HostTensor({F32, {}}, {5})},
            scalar);
  EXPECT_EQ(scalar[0].local.Number(), 5);
  std::vector<TensorPart> empty = {HostTensor({F32, {2, 0}})};
  RunKernel(GetOp("mask_padding"), {{"dims", Ints{1}}, {"op", ReduceOp::kSum}}, {HostTensor({F32, {2, 0}})},
            empty);
  EXPECT_TRUE(empty[0].local.Numbers().empty());
}

}  // namespace
}  // namespace meshwork::block_kernels_test
