// slice, pad, concat, reverse, gather and scatter_add against loops that go index by index; the results and
// errors of their builder functions.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "support/interpreter.h"

namespace meshwork::indexing_test {
namespace {

using ::testing::ElementsAre;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

constexpr int kRounds = 600;

int64_t Below(std::mt19937& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

Ints ToList(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Up to four dims, now and then an empty one.
Shape DrawShape(std::mt19937& random, int64_t least_rank = 0) {
  Shape shape;
  for (int64_t rank = least_rank + Below(random, 5 - least_rank); rank > 0; --rank)
    shape.push_back(Below(random, 10) == 0 ? 0 : 1 + Below(random, 6));
  return shape;
}

// Whole numbers that every dtype holds.
HostTensor DrawTensor(std::mt19937& random, const Type& type) {
  const double low = type.dtype == BOOL ? 0 : -100, high = type.dtype == BOOL ? 2 : 100;
  return {type, Draw(random, type.num_elements(), low, high, /*whole=*/true)};
}

DType DrawDType(std::mt19937& random) { return kComputeDTypes[Below(random, std::size(kComputeDTypes))]; }

// Expects the row to infer this type and compute this result, also when its work is cut into pieces.
void ExpectResult(std::string_view op, const std::vector<HostTensor>& operands, const Attrs& attrs,
                  const HostTensor& expected, std::mt19937& random) {
  std::vector<Type> types;
  for (const HostTensor& operand : operands) types.push_back(operand.type());
  const OpRow& row = GetOp(op);
  const auto inferred = row.infer({types, {}, Graph::CompleteAttrs(row, attrs).value()});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  ASSERT_THAT(*inferred, ElementsAre(expected.type()));
  const HostTensor whole = Apply(op, operands, attrs, expected.type());
  ASSERT_EQ(whole.Numbers(), expected.Numbers());
  const Ints cuts = DrawCuts(random, expected.type().num_elements());
  ASSERT_EQ(Apply(op, operands, attrs, expected.type(), cuts), whole);
}

// ---- slice, pad, concat, reverse.

TEST(SliceTest, TakesEveryStrideThElementFromStartToLimit) {
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    const HostTensor x = DrawTensor(random, {DrawDType(random), DrawShape(random)});
    Ints start, limit, stride;
    Type result{x.type().dtype, {}};
    for (int64_t size : x.type().shape) {
      limit.push_back(Below(random, 2) == 0 ? size : Below(random, size + 1));
      start.push_back(Below(random, 2) == 0 ? 0 : Below(random, limit.back() + 1));
      stride.push_back(Below(random, 2) == 0 ? 1 : 1 + Below(random, 4));
      int64_t count = 0;
      for (int64_t i = start.back(); i < limit.back(); i += stride.back()) ++count;
      result.shape.push_back(count);
    }
    const Numbers elements = x.Numbers();
    Numbers expected;
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      Shape index = IndexAt(result.shape, i);
      for (size_t d = 0; d < index.size(); ++d) index[d] = start[d] + index[d] * stride[d];
      expected.push_back(elements[static_cast<size_t>(Position(x.type().shape, index))]);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectResult(
        "slice", {x}, {{"start", start}, {"limit", limit}, {"stride", stride}}, {result, expected}, random));
  }
}

TEST(SliceTest, AStrideBeyondTheEndTakesTheFirst) {
  const HostTensor x({I32, {3}}, {5, 6, 7});
  std::mt19937 random(1);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  ExpectResult("slice", {x}, {{"start", Ints{1}}, {"limit", Ints{3}}, {"stride", Ints{kHuge}}},
               {{I32, {1}}, {6}}, random);
}

TEST(PadTest, LaysTheOperandOutAmongTheValue) {
  std::mt19937 random(2);
  for (int round = 0; round < kRounds; ++round) {
    const HostTensor x = DrawTensor(random, {DrawDType(random), DrawShape(random)});
    const double value = x.type().dtype == BOOL ? 1 : 77;
    Ints low, high, interior;
    Type result{x.type().dtype, {}};
    for (int64_t size : x.type().shape) {
      interior.push_back(Below(random, 2) == 0 ? 0 : Below(random, 3));
      const int64_t spread = size == 0 ? 0 : size + (size - 1) * interior.back();
      low.push_back(Below(random, 2) == 0 ? 0 : Below(random, 7) - 3);
      high.push_back(Below(random, 2) == 0 ? 0 : Below(random, 7) - 3);
      if (low.back() + spread + high.back() < 0) high.back() = -low.back();  // no more than there is
      result.shape.push_back(low.back() + spread + high.back());
    }
    Numbers expected(static_cast<size_t>(result.num_elements()), value);
    const Numbers elements = x.Numbers();
    for (int64_t i = 0; i < x.type().num_elements(); ++i) {
      Shape index = IndexAt(x.type().shape, i);
      bool inside = true;
      for (size_t d = 0; d < index.size(); ++d) {
        index[d] = low[d] + index[d] * (interior[d] + 1);
        inside = inside && index[d] >= 0 && index[d] < result.shape[d];
      }
      if (inside)
        expected[static_cast<size_t>(Position(result.shape, index))] = elements[static_cast<size_t>(i)];
    }
    ASSERT_NO_FATAL_FAILURE(
        ExpectResult("pad", {x}, {{"low", low}, {"high", high}, {"interior", interior}, {"value", value}},
                     {result, expected}, random));
  }
}

TEST(PadTest, TheValueMayBeNaN) {
  const Type type{F32, {2}};
  const Numbers padded = Apply("pad", {HostTensor({F32, {1}}, {4})},
                               {{"low", Ints{1}}, {"high", Ints{0}}, {"value", std::nan("")}}, type)
                             .Numbers();
  EXPECT_TRUE(std::isnan(padded[0]));
  EXPECT_EQ(padded[1], 4);
}

TEST(ConcatTest, LaysTheOperandsOneAfterTheOther) {
  std::mt19937 random(3);
  for (int round = 0; round < kRounds; ++round) {
    Type result{DrawDType(random), DrawShape(random, /*least_rank=*/1)};
    const auto dim = static_cast<size_t>(Below(random, result.rank()));
    std::vector<HostTensor> operands;
    std::vector<std::pair<size_t, int64_t>> at;  // per index along dim: operand, its own index
    for (int64_t n = 1 + Below(random, 4); n > 0; --n) {
      Type type = result;
      type.shape[dim] = Below(random, 4);
      for (int64_t i = 0; i < type.shape[dim]; ++i) at.emplace_back(operands.size(), i);
      operands.push_back(DrawTensor(random, type));
    }
    result.shape[dim] = static_cast<int64_t>(at.size());
    Numbers expected;
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      Shape index = IndexAt(result.shape, i);
      const auto& [operand, own] = at[static_cast<size_t>(index[dim])];
      index[dim] = own;
      const int64_t position = Position(operands[operand].type().shape, index);
      expected.push_back(operands[operand].Numbers()[static_cast<size_t>(position)]);
    }
    ASSERT_NO_FATAL_FAILURE(
        ExpectResult("concat", operands, {{"dim", static_cast<int64_t>(dim)}}, {result, expected}, random));
  }
}

TEST(ReverseTest, GoesBackwardsAlongTheDims) {
  std::mt19937 random(4);
  for (int round = 0; round < kRounds; ++round) {
    const HostTensor x = DrawTensor(random, {DrawDType(random), DrawShape(random)});
    Ints dims;
    for (int64_t d = 0; d < x.type().rank(); ++d)
      if (Below(random, 2) == 0)
        dims.insert(dims.begin() + Below(random, 1 + static_cast<int64_t>(dims.size())), d);
    const Numbers elements = x.Numbers();
    Numbers expected;
    for (int64_t i = 0; i < x.type().num_elements(); ++i) {
      Shape index = IndexAt(x.type().shape, i);
      for (int64_t d : dims) index[d] = x.type().shape[d] - 1 - index[d];
      expected.push_back(elements[static_cast<size_t>(Position(x.type().shape, index))]);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectResult("reverse", {x}, {{"dims", dims}}, {x.type(), expected}, random));
  }
}

// ---- gather, scatter_add.

// x: a tensor, and indices along dim, some of them out of range.
struct Lookup {
  Type x;
  HostTensor indices;
  int64_t dim;

  // The type of the lookup's result.
  Type gathered() const {
    Type type{x.dtype, Shape(x.shape.begin(), x.shape.begin() + dim)};
    type.shape.insert(type.shape.end(), indices.type().shape.begin(), indices.type().shape.end());
    type.shape.insert(type.shape.end(), x.shape.begin() + dim + 1, x.shape.end());
    return type;
  }
  // The element of x that element i of the lookup's result is.
  int64_t Source(int64_t i) const {
    const Shape index = IndexAt(gathered().shape, i);
    const auto rank = static_cast<int64_t>(indices.type().rank());
    const Shape which(index.begin() + dim, index.begin() + dim + rank);
    const double drawn = indices.Numbers()[static_cast<size_t>(Position(indices.type().shape, which))];
    Shape own(index.begin(), index.begin() + dim);
    own.push_back(std::clamp<int64_t>(static_cast<int64_t>(drawn), 0, x.shape[dim] - 1));
    own.insert(own.end(), index.begin() + dim + rank, index.end());
    return Position(x.shape, own);
  }
};

Lookup DrawLookup(std::mt19937& random, DType dtype) {
  Type x{dtype, DrawShape(random, /*least_rank=*/1)};
  const int64_t dim = Below(random, x.rank());
  if (x.shape[dim] == 0) x.shape[dim] = 1;
  Shape shape;
  for (int64_t rank = Below(random, 3); rank > 0; --rank)
    shape.push_back(Below(random, 10) == 0 ? 0 : 1 + Below(random, 4));
  const Type type{Below(random, 2) == 0 ? I32 : I64, shape};
  const auto high = static_cast<double>(x.shape[dim] + 2);
  return {x, {type, Draw(random, type.num_elements(), -2, high, /*whole=*/true)}, dim};
}

TEST(GatherTest, TakesTheElementsAtTheIndicesOrTheNearest) {
  std::mt19937 random(5);
  for (int round = 0; round < kRounds; ++round) {
    const Lookup lookup = DrawLookup(random, DrawDType(random));
    const HostTensor x = DrawTensor(random, lookup.x);
    const Numbers elements = x.Numbers();
    Numbers expected;
    for (int64_t i = 0; i < lookup.gathered().num_elements(); ++i)
      expected.push_back(elements[static_cast<size_t>(lookup.Source(i))]);
    ASSERT_NO_FATAL_FAILURE(ExpectResult("gather", {x, lookup.indices}, {{"dim", lookup.dim}},
                                         {lookup.gathered(), expected}, random));
  }
}

TEST(GatherTest, IndicesOfAnySizeAreClamped) {
  const HostTensor x({F32, {3}}, {10, 11, 12});
  const Type result{F32, {4}};
  EXPECT_THAT(Apply("gather", {x, {{I64, {4}}, {-0x1p63, 0x1p62, 1, 0x1p32}}}, {{"dim", int64_t{0}}}, result)
                  .Numbers(),
              ElementsAre(10, 12, 11, 12));
  EXPECT_THAT(Apply("gather", {x, {{I32, {4}}, {-0x1p31, 0x1p31 - 1, 2, 3}}}, {{"dim", int64_t{0}}}, result)
                  .Numbers(),
              ElementsAre(10, 12, 12, 12));
}

TEST(GatherTest, NothingIsTakenFromAnEmptyDim) {
  std::mt19937 random(6);
  ExpectResult("gather", {{{F32, {0, 2}}, {}}, {{I32, {0}}, {}}}, {{"dim", int64_t{0}}}, {{F32, {0, 2}}, {}},
               random);
  ExpectResult("scatter_add", {{{F32, {0, 2}}, {}}, {{I32, {0}}, {}}},
               {{"shape", Ints{0, 2}}, {"dim", int64_t{0}}}, {{F32, {0, 2}}, {}}, random);
}

Numbers PlainSums(const Lookup& lookup, const HostTensor& updates) {
  Numbers sums(static_cast<size_t>(lookup.x.num_elements()), 0);
  const Numbers elements = updates.Numbers();
  for (size_t i = 0; i < elements.size(); ++i)
    sums[static_cast<size_t>(lookup.Source(static_cast<int64_t>(i)))] += elements[i];
  return sums;
}

TEST(ScatterAddTest, AddsTheUpdatesWhereGatherTakesThem) {
  std::mt19937 random(7);
  for (int round = 0; round < kRounds; ++round) {
    const DType dtype = kComputeDTypes[Below(random, 5)];  // not bool
    const Lookup lookup = DrawLookup(random, dtype);
    const HostTensor updates = DrawTensor(random, lookup.gathered());
    const Numbers sums = PlainSums(lookup, updates);
    ASSERT_NO_FATAL_FAILURE(ExpectResult("scatter_add", {updates, lookup.indices},
                                         {{"shape", ToList(lookup.x.shape)}, {"dim", lookup.dim}},
                                         {lookup.x, sums}, random));
  }
}

TEST(ScatterAddTest, AddsInTheOrderOfTheIndices) {
  // 1e8 absorbs a 1, so every other order gives another sum.
  const HostTensor updates({F32, {4}}, {1e8, 1, -1e8, 1}), indices({I32, {4}}, {1, 1, 1, 1});
  const Attrs attrs = {{"shape", Ints{3}}, {"dim", int64_t{0}}};
  EXPECT_THAT(Apply("scatter_add", {updates, indices}, attrs, {F32, {3}}).Numbers(), ElementsAre(0, 1, 0));
  EXPECT_THAT(Apply("scatter_add", {updates, indices}, attrs, {F32, {3}}, {1, 2}).Numbers(),
              ElementsAre(0, 1, 0));
}

TEST(ScatterAddTest, Bfloat16IsRoundedOnce) {
  // If every step were rounded, the sum would stay at 256.
  const HostTensor ones({BF16, {300}}, Numbers(300, 1)), indices({I32, {300}}, Numbers(300, 0));
  EXPECT_THAT(
      Apply("scatter_add", {ones, indices}, {{"shape", Ints{2}}, {"dim", int64_t{0}}}, {BF16, {2}}).Numbers(),
      ElementsAre(300, 0));
}

// The result is larger than the part that is summed at a time, in rows and in columns.
TEST(ScatterAddTest, LargeBfloat16ResultsAreSummedPieceByPiece) {
  std::mt19937 random(8);
  for (const Shape& shape : {Shape{3, 20000}, Shape{5000, 5}, Shape{20000}}) {
    const Lookup lookup{{BF16, shape}, {{I32, {4}}, {2, 0, 2, 1}}, 0};
    const HostTensor updates = DrawTensor(random, lookup.gathered());
    const Numbers sums = PlainSums(lookup, updates);
    ASSERT_NO_FATAL_FAILURE(ExpectResult("scatter_add", {updates, lookup.indices},
                                         {{"shape", ToList(shape)}, {"dim", int64_t{0}}}, {lookup.x, sums},
                                         random));
  }
}

TEST(ScatterAddTest, WholeNumbersWrapAround) {
  const double max = 0x1p31 - 1;
  EXPECT_THAT(Apply("scatter_add", {{{I32, {2}}, {max, 1}}, {{I32, {2}}, {0, 0}}},
                    {{"shape", Ints{1}}, {"dim", int64_t{0}}}, {I32, {1}})
                  .Numbers(),
              ElementsAre(-0x1p31));
}

double Dot(const HostTensor& a, const HostTensor& b) {
  const Numbers x = a.Numbers(), y = b.Numbers();
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

// <gather(x), u> == <x, scatter_add(u)>; on whole numbers exactly.
TEST(ScatterAddTest, IsTheTransposeOfGather) {
  std::mt19937 random(9);
  for (int round = 0; round < kRounds; ++round) {
    const Lookup lookup = DrawLookup(random, F64);
    const HostTensor x = DrawTensor(random, lookup.x), u = DrawTensor(random, lookup.gathered());
    const HostTensor gathered = Apply("gather", {x, lookup.indices}, {{"dim", lookup.dim}}, u.type());
    const HostTensor scattered = Apply("scatter_add", {u, lookup.indices},
                                       {{"shape", ToList(lookup.x.shape)}, {"dim", lookup.dim}}, x.type());
    ASSERT_EQ(Dot(gathered, u), Dot(x, scattered));
  }
}

// ---- Builder functions.

// The result of a function of the input x.
HostTensor Make(const HostTensor& x, const std::function<Value(const Value&)>& build) {
  Graph g{Mesh()};
  const Value input =
      g.Input("x", x.type().dtype, x.type().shape, LayoutSpec(x.type().shape.size(), UNSHARDED));
  g.Output("y", build(input));
  return Interpret(g, {{"x", x.Numbers()}}).outputs.at("y");
}

const HostTensor& Counted() {  // 0 … 11 as [3,4]
  static const auto* x = new HostTensor({F32, {3, 4}}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  return *x;
}

TEST(IndexingTest, SliceDimLeavesTheOtherDims) {
  EXPECT_EQ(Make(Counted(), [](const Value& x) { return SliceDim(x, 1, 1, 3); }),
            HostTensor({F32, {3, 2}}, {1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(Make(Counted(), [](const Value& x) { return SliceDim(x, 0, 0, 3, 2); }),
            HostTensor({F32, {2, 4}}, {0, 1, 2, 3, 8, 9, 10, 11}));
}

TEST(IndexingTest, SplitGivesPartsThatConcatJoins) {
  EXPECT_EQ(Make(Counted(), [](const Value& x) { return Split(x, 2, 1)[1]; }),
            HostTensor({F32, {3, 2}}, {2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(Make(Counted(),
                 [](const Value& x) {
                   return SplitSizes(x, {1, 0, 2}, 0)[2];
                 }),
            HostTensor({F32, {2, 4}}, {4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(Make(Counted(), [](const Value& x) { return Concat(SplitSizes(x, {1, 3}, 1), 1); }), Counted());
}

TEST(IndexingTest, StackMakesANewDim) {
  const HostTensor x({I32, {2}}, {1, 2});
  EXPECT_EQ(Make(x,
                 [](const Value& v) {
                   return Stack({v, Neg(v), v}, 0);
                 }),
            HostTensor({I32, {3, 2}}, {1, 2, -1, -2, 1, 2}));
  EXPECT_EQ(Make(x,
                 [](const Value& v) {
                   return Stack({v, Neg(v), v}, 1);
                 }),
            HostTensor({I32, {2, 3}}, {1, -1, 1, 2, -2, 2}));
}

TEST(IndexingTest, SqueezeUndoesExpandDims) {
  const auto expand = [](const Value& x) { return ExpandDims(x, {0, 2}); };
  EXPECT_EQ(Make(Counted(), expand), HostTensor({F32, {1, 3, 1, 4}}, Counted().Numbers()));
  EXPECT_EQ(Make(Counted(), [&](const Value& x) { return Squeeze(expand(x), {0, 2}); }), Counted());
  EXPECT_EQ(Make(Counted(), [&](const Value& x) { return Squeeze(expand(x), {2}); }),
            HostTensor({F32, {1, 3, 4}}, Counted().Numbers()));
}

}  // namespace
}  // namespace meshwork::indexing_test
