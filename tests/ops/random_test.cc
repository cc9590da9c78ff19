// The random rows against a scalar reimplementation: Philox as in the paper, distributions by the standard
// library. Also laws about layouts and steps.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/kernels/portable/philox.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::random_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

constexpr int64_t kSeed = -0x123456789, kStream = 4;

// ---- The reference.

std::array<uint32_t, 4> PlainPhilox(std::array<uint32_t, 4> c, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = 0xD2511F53ull * c[0], q = 0xCD9E8D57ull * c[2];
    c = {static_cast<uint32_t>(q >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(q),
         static_cast<uint32_t>(p >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// The first 64 bits of the block of (seed, stream, index).
uint64_t PlainBits(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto block = PlainPhilox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                                  static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                                 seed);
  return uint64_t{block[0]} << 32 | block[1];
}

uint64_t PlainSeed(int64_t seed, const Numbers& steps) {
  auto own = static_cast<uint64_t>(seed);
  for (double step : steps) own = PlainBits(own, ~0ull, static_cast<uint64_t>(static_cast<int64_t>(step)));
  return own;
}

double PlainUniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return std::ldexp(static_cast<double>(PlainBits(seed, stream, index) >> 11), -53);
}

// P(normal < z).
long double Phi(long double z) { return std::erfc(-z / std::sqrt(2.0L)) / 2; }

// ---- Running a row.

struct Drawn {
  std::string op;
  Attrs attrs;  // without dtype and shape
};

const std::vector<Drawn>& AllDrawn() {
  static const auto* all = new std::vector<Drawn>{
      {"random_uniform", {{"seed", kSeed}, {"stream", kStream}, {"low", -1.0}, {"high", 3.0}}},
      {"random_normal", {{"seed", kSeed}, {"stream", kStream}, {"mean", 1.0}, {"stddev", 0.5}}},
      {"random_truncated_normal", {{"seed", kSeed}, {"stream", kStream}, {"mean", 1.0}, {"stddev", 0.5}}},
      {"random_bernoulli", {{"seed", kSeed}, {"stream", kStream}, {"p", 0.375}}},
      {"random_int", {{"seed", kSeed}, {"stream", kStream}, {"low", int64_t{-5}}, {"high", int64_t{1000}}}},
  };
  return *all;
}

// Draws the whole tensor. `step`: the step operands, from the outermost to the innermost loop.
HostTensor DrawBy(const Drawn& drawn, const Type& type, const Numbers& step = {}, const Ints& cuts = {}) {
  Attrs attrs = drawn.attrs;
  attrs.Set("dtype", type.dtype);
  attrs.Set("shape", Ints(type.shape.begin(), type.shape.end()));
  std::vector<TensorPart> in, out = {HostTensor(type)};
  for (double number : step) in.emplace_back(HostTensor({I64, {}}, {number}));
  RunKernel(GetOp(drawn.op), Graph::CompleteAttrs(GetOp(drawn.op), attrs).value(), in, out, cuts);
  return out[0].local;
}

// ---- Values.

TEST(RandomRowTest, BernoulliIsAUniformNumberBelowP) {
  for (const Numbers& step :
       {Numbers{}, Numbers{0}, Numbers{7}, Numbers{-1}, Numbers{3, 0}, Numbers{1, 2, 5}}) {
    const uint64_t seed = PlainSeed(kSeed, step);
    for (DType dtype : kComputeDTypes) {
      const Type type{dtype, {7, 300}};
      const Numbers got = DrawBy(AllDrawn()[3], type, step, {2}).Numbers();
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], PlainUniform(seed, kStream, i) < 0.375) << DTypeName(dtype) << " " << i;
    }
  }
}

TEST(RandomRowTest, BernoulliOfNeverAndAlways) {
  for (double p : {0.0, 1.0})
    EXPECT_THAT(DrawBy({"random_bernoulli", {{"seed", kSeed}, {"p", p}}}, {BOOL, {5000}}).Numbers(), Each(p));
}

TEST(RandomRowTest, TruncatedNormalsHaveTheProbabilityTheyAreDrawnFor) {
  const uint64_t seed = PlainSeed(kSeed, {3});
  const Numbers got = DrawBy(AllDrawn()[2], {F64, {20'000}}, {3}).Numbers();
  for (size_t i = 0; i < got.size(); ++i) {
    const double z = (got[i] - 1) / 0.5;  // exact, since 1 + z / 2 has lost at most one bit
    ASSERT_LE(std::abs(z), 2);
    const long double u = (static_cast<long double>(PlainBits(seed, kStream, i) >> 11) + 0.5L) * 0x1p-53L;
    const long double want = Phi(-2) + u * (Phi(2) - Phi(-2));
    ASSERT_NEAR(static_cast<double>(Phi(z)), static_cast<double>(want), 4e-16) << i;
  }
}

TEST(RandomRowTest, UniformAndNormalAreThoseOfPhilox) {
  for (const Numbers& step : {Numbers{}, Numbers{12}}) {
    const uint64_t seed = PlainSeed(kSeed, step);
    const Numbers uniform = DrawBy(AllDrawn()[0], {F64, {1000}}, step).Numbers();
    const Numbers normal = DrawBy(AllDrawn()[1], {F64, {1000}}, step).Numbers();
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(uniform[i], -1 + PlainUniform(seed, kStream, i) * 4);
      ASSERT_EQ(normal[i], 1 + 0.5 * portable::NormalOf(portable::PhiloxAt(seed, kStream, i)));
    }
  }
}

TEST(RandomRowTest, ValuesOfBf16AreThoseOfF32Rounded) {
  for (const Drawn& drawn : AllDrawn()) {
    if (drawn.op == "random_int") continue;
    const Type real{F32, {3, 700}}, rounded{BF16, {3, 700}};
    Numbers want = HostTensor(rounded, DrawBy(drawn, real, {5}).Numbers()).Numbers();
    for (double& x : want)
      if (drawn.op == "random_uniform" && x == 3) x = 3 - 0x1p-6;  // high itself is excluded
    EXPECT_EQ(DrawBy(drawn, rounded, {5}, {1, 2}).Numbers(), want) << drawn.op;
  }
}

TEST(RandomRowTest, UniformInBf16StaysBelowHigh) {
  // [1, 1 + 2^-6) has two numbers in bf16; draws from the upper quarter would round to the excluded end.
  struct Range {
    double low, high;
    Numbers values;
  };
  for (const Range& range :
       {Range{1, 1 + 0x1p-6, {1, 1 + 0x1p-7}}, Range{-1 - 0x1p-6, -1, {-1 - 0x1p-6, -1 - 0x1p-7}}}) {
    const Numbers got =
        DrawBy({"random_uniform", {{"seed", kSeed}, {"low", range.low}, {"high", range.high}}},
               {BF16, {4000}})
            .Numbers();
    EXPECT_THAT(got, Each(testing::AnyOf(range.values[0], range.values[1])));
    EXPECT_THAT(got, testing::Contains(range.values[0]));
    EXPECT_THAT(got, testing::Contains(range.values[1]));
  }
  const Drawn negative = {"random_uniform", {{"seed", kSeed}, {"low", -1e-3}, {"high", 0.0}}};
  EXPECT_THAT(DrawBy(negative, {BF16, {4000}}).Numbers(), Each(testing::Lt(0)));
}

// ---- Statistics, with fixed seeds.

TEST(RandomRowTest, TruncatedNormalFollowsItsDistribution) {
  constexpr int64_t kMany = 100'000;
  Numbers x = DrawBy({"random_truncated_normal", {{"seed", kSeed}}}, {F64, {kMany}}).Numbers();
  std::sort(x.begin(), x.end());
  double distance = 0, square = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto f = static_cast<double>((Phi(x[i]) - Phi(-2)) / (Phi(2) - Phi(-2)));
    distance = std::max(distance, std::abs(f - (static_cast<double>(i) + 0.5) / kMany));
    square += x[i] * x[i] / kMany;
  }
  EXPECT_LT(distance, 2.2 / std::sqrt(kMany));                 // Kolmogorov: by chance once in 8000 seeds
  EXPECT_NEAR(square, 0.7737413, 5 * std::sqrt(1.0 / kMany));  // 1 - 4 phi(2) / erf(sqrt 2)
}

TEST(PortableMathTest, NormalQuantileInvertsTheDistributionFunction) {
  EXPECT_EQ(portable::PortableNormalQuantile(0), 0);
  for (int64_t i = 1; i < 100'000; ++i) {
    const double q = static_cast<double>(i) * 0.4999e-5;
    const double z = portable::PortableNormalQuantile(q);
    // An error of 1e-15 in z changes the probability by 1e-15 times the density.
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    ASSERT_NEAR(static_cast<double>(Phi(z) - 0.5L - q), 0, density * std::max(z, 0.1) * 2e-15 + 1e-17) << q;
    ASSERT_EQ(portable::PortableNormalQuantile(-q), -z);
  }
}

// The product of the bits and the range, in the next wider arithmetic.
TEST(RandomRowTest, WholeNumbersAreSharesOfTheirRange) {
  for (const Numbers& step : {Numbers{}, Numbers{3}}) {
    const Numbers got = DrawBy(AllDrawn()[4], {I64, {1000}}, step).Numbers();
    for (size_t i = 0; i < got.size(); ++i) {
      const uint64_t bits = PlainBits(PlainSeed(kSeed, step), kStream, i);
      ASSERT_EQ(got[i], -5 + std::floor(std::ldexp(static_cast<long double>(bits) * 1005, -64)));
    }
  }
  const Drawn all{"random_int", {{"seed", kSeed}, {"low", INT64_MIN}, {"high", INT64_MAX}}};
  const Numbers got = DrawBy(all, {I64, {1000}}).Numbers();
  EXPECT_LT(*std::min_element(got.begin(), got.end()), -0x1p62);
  EXPECT_GT(*std::max_element(got.begin(), got.end()), 0x1p62);
  const Drawn die{"random_int", {{"seed", kSeed}, {"low", int64_t{1}}, {"high", int64_t{7}}}};
  std::array<int, 7> counts = {};
  for (double x : DrawBy(die, {I32, {60'000}}).Numbers()) ++counts[static_cast<size_t>(x)];
  EXPECT_EQ(counts[0], 0);
  // Five standard errors of 91.
  for (size_t side = 1; side <= 6; ++side) EXPECT_NEAR(counts[side], 10'000, 460) << side;
}

TEST(RandomPermutationTest, HasEveryNumberOnceInAnOrderOfEachStep) {
  Graph g{Mesh()};
  const Value step = g.Input("step", I64, {}, {});
  const Value permutation = RandomPermutation(g, 1000, kSeed, kStream, step);
  const Value shuffled = Shuffle(Iota(g, {F64, {1000, 2}}, 0), 0, kSeed, kStream, step);
  ASSERT_TRUE(g.status().ok()) << g.status();
  auto at = [&](double number) { return InterpretAll(g, {{"step", {number}}}); };
  const std::vector<HostTensor> first = at(1);
  const Numbers order = first[permutation.id()].Numbers(), pairs = first[shuffled.id()].Numbers();
  int still = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(pairs[2 * i], order[i]);
    EXPECT_EQ(pairs[2 * i + 1], order[i]);
    still += order[i] == static_cast<double>(i);
  }
  EXPECT_LT(still, 10);
  Numbers sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<double>(i));
  EXPECT_NE(at(2)[permutation.id()].Numbers(), order);
}

// ---- Layouts and steps.

TEST(RandomRowTest, EveryLayoutDrawsTheSameBits) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  const Shape shape = {7, 5, 4};
  for (const Drawn& drawn : AllDrawn()) {
    for (DType dtype : kComputeDTypes) {
      if (IsInteger(dtype) != (drawn.op == "random_int")) continue;
      if (dtype == BOOL && drawn.op != "random_bernoulli") continue;
      for (const Numbers& step : {Numbers{}, Numbers{9}}) {
        const HostTensor whole = DrawBy(drawn, {dtype, shape}, step);
        const Numbers want = whole.Numbers();
        for (const char* text : {"{x,y,_}", "{(y,x),_,_}", "{_,(x,y),_}", "{y,_,x}", "{_,_,_}"}) {
          const Layout layout = Layout::Parse(mesh, text).value();
          for (int64_t device = 0; device < mesh.num_devices(); ++device) {
            const Type local{dtype, layout.LocalShape(shape)};
            const Block block = layout.BlockOf(shape, device);
            Attrs attrs = drawn.attrs;
            attrs.Set("dtype", dtype);
            attrs.Set("shape", Ints(local.shape.begin(), local.shape.end()));
            std::vector<TensorPart> in, out = {{HostTensor(local), whole.type(), block}};
            if (!step.empty()) in.emplace_back(HostTensor({I64, {}}, step));
            RunKernel(GetOp(drawn.op), Graph::CompleteAttrs(GetOp(drawn.op), attrs).value(), in, out, {1});
            const Numbers got = out[0].local.Numbers();
            for (int64_t i = 0; i < block[0].size; ++i)
              for (int64_t j = 0; j < block[1].size; ++j)
                for (int64_t k = 0; k < block[2].size; ++k)
                  ASSERT_EQ(got[(i * local.shape[1] + j) * local.shape[2] + k],
                            want[((block[0].start + i) * 5 + block[1].start + j) * 4 + block[2].start + k])
                      << drawn.op << " " << text;
          }
        }
      }
    }
  }
}

// Block `block` of blocks of `part` rows has the rows of the whole tensor that RandomPlace (ir/graph.h) gives.
TEST(RandomRowTest, PartsOfATensorHaveItsNumbers) {
  struct Place {
    int64_t block, part, parts;
  };
  for (const Drawn& drawn : AllDrawn()) {
    for (DType dtype : kComputeDTypes) {
      if (IsInteger(dtype) != (drawn.op == "random_int") || (dtype == BOOL && drawn.op != "random_bernoulli"))
        continue;
      for (const Shape& shape :
           {Shape{}, Shape{1}, Shape{6}, Shape{4, 5}, Shape{3, 2, 300}, Shape{0, 4}, Shape{2, 0}}) {
        const int64_t rows = shape.empty() ? 1 : shape[0],
                      row_size = rows == 0 ? 0 : NumElements(shape) / rows;
        for (const Place& place : {Place{0, 0, 1}, {2, 0, 1}, {0, 1, 3}, {0, 2, 3}, {3, 1, 2}}) {
          for (const Numbers& steps : {Numbers{}, Numbers{4}, Numbers{4, 1}}) {
            Shape whole = shape;
            if (whole.empty()) whole = {1};
            whole[0] = (place.block + 1) * rows * place.parts;
            const Numbers all = DrawBy(drawn, {dtype, whole}, steps).Numbers();
            Drawn placed = drawn;
            placed.attrs.Set("placed", true);
            Numbers operands = steps;
            for (int64_t number : {place.block, place.part, place.parts})
              operands.push_back(static_cast<double>(number));
            const Numbers got = DrawBy(placed, {dtype, shape}, operands, {1}).Numbers();
            for (int64_t k = 0; k < rows; ++k) {
              const int64_t row = (place.block * rows + k) * place.parts + place.part;
              for (int64_t i = 0; i < row_size; ++i)
                ASSERT_EQ(got[k * row_size + i], all[row * row_size + i])
                    << drawn.op << " " << ShapeToString(shape) << " " << place.block << " " << place.part;
            }
          }
        }
      }
    }
  }
}

// The share of elements that agree between two draws of 10000 fair coins; independent ones agree on half,
// give or take 5 standard errors of 0.005.
double Agreement(const Numbers& a, const Numbers& b) {
  double equal = 0;
  for (size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
  return equal / static_cast<double>(a.size());
}

TEST(RandomRowTest, StepsSeedsAndStreamsAreUnrelated) {
  auto coins = [](int64_t seed, int64_t stream, const Numbers& step) {
    return DrawBy({"random_bernoulli", {{"seed", seed}, {"stream", stream}, {"p", 0.5}}}, {BOOL, {10'000}},
                  step)
        .Numbers();
  };
  const Numbers first = coins(1, 0, {1});
  for (const Numbers& other : {coins(1, 0, {2}), coins(1, 0, {0}), coins(1, 0, {}), coins(1, 1, {1}),
                               coins(2, 0, {1}), coins(1, 0, {-1})})
    EXPECT_NEAR(Agreement(first, other), 0.5, 0.025);
  EXPECT_EQ(coins(1, 0, {1}), first);
}

// ---- Dropout.

TEST(DropoutTest, ZeroesByTheMaskAndScalesTheRest) {
  for (DType dtype : {F32, F64, BF16}) {
    Graph g{Mesh()};
    const Value x = g.Input("x", dtype, {1000}, {UNSHARDED}), step = g.Input("step", I64, {}, {});
    const Value y = StatelessDropout(x, 0.1, kSeed, kStream, step);
    EXPECT_EQ(y.type(), x.type());
    g.Output("y", y);
    g.Output("grad", Gradients(ReduceSum(y, {0}), {x})[0]);
    Numbers in(1000);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i % 200) - 100;
    const auto outputs = Interpret(g, {{"x", in}, {"step", {6}}}).outputs;
    Numbers want, gradient;
    for (size_t i = 0; i < in.size(); ++i) {
      const bool keep = PlainUniform(PlainSeed(kSeed, {6}), kStream, i) < 1 - 0.1;
      const double scale = dtype == F64 ? 1 / (1 - 0.1) : static_cast<float>(1 / (1 - 0.1));
      want.push_back(keep ? dtype == F64 ? in[i] * scale : static_cast<float>(in[i] * scale) : 0);
      gradient.push_back(keep ? scale : 0);
    }
    EXPECT_EQ(outputs.at("y").Numbers(), HostTensor(x.type(), want).Numbers());
    EXPECT_EQ(outputs.at("grad").Numbers(), HostTensor(x.type(), gradient).Numbers());
  }
}

// A mask without the whole dims, whose elements are numbered in a tensor of the others.
TEST(DropoutTest, DropsWholeDimsTogether) {
  const Shape shape = {5, 7, 3};
  const std::vector<std::vector<int64_t>> all_dims = {{},     {0},    {1},    {2},       {-1},     {0, 1},
                                                      {0, 2}, {1, 2}, {2, 1}, {0, 1, 2}, {-1, -3}, {-2}};
  for (const std::vector<int64_t>& dims : all_dims) {
    for (double rate : {0.0, 0.3, 0.8}) {
      SCOPED_TRACE(fmt::format("[{}] {}", fmt::join(dims, ","), rate));
      Graph g{Mesh()};
      const Value x = g.Input("x", F64, shape), step = g.Input("step", I64, {});
      const Value y = StatelessDropout(x, rate, kSeed, kStream, step, dims);
      g.Output("y", y);
      g.Output("grad", Gradients(ReduceSum(y), {x})[0]);
      Numbers in, want, gradient;
      for (size_t i = 0; i < 105; ++i) {
        in.push_back(static_cast<double>(i) - 50);
        const std::array<size_t, 3> place = {i / 21, i / 3 % 7, i % 3};
        size_t element = 0;
        for (int d = 0; d < 3; ++d)
          if (std::find_if(dims.begin(), dims.end(), [&](int64_t w) { return (w + 3) % 3 == d; }) ==
              dims.end())
            element = element * static_cast<size_t>(shape[d]) + place[d];
        const bool keep = PlainUniform(PlainSeed(kSeed, {6}), kStream, element) < 1 - rate;
        gradient.push_back(keep ? 1 / (1 - rate) : 0);
        want.push_back(keep ? in[i] * (1 / (1 - rate)) : 0);
      }
      const auto outputs = Interpret(g, {{"x", in}, {"step", {6}}}).outputs;
      EXPECT_EQ(outputs.at("y").Numbers(), want);
      EXPECT_EQ(outputs.at("grad").Numbers(), gradient);
    }
  }
}

TEST(DropoutTest, WhatIsDroppedMayBeAnything) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F32, {100}, {UNSHARDED});
  g.Output("y", StatelessDropout(x, 0.5, kSeed, kStream));
  const Numbers y = Interpret(g, {{"x", Numbers(100, std::nan(""))}}).outputs.at("y").Numbers();
  EXPECT_THAT(y, testing::Contains(0));
  EXPECT_THAT(y, testing::Contains(testing::IsNan()));
}

TEST(DropoutTest, OfNothingKeepsEverything) {
  Graph g{Mesh()};
  g.Output("y", StatelessDropout(g.Input("x", F32, {3}, {UNSHARDED}), 0, kSeed, kStream));
  EXPECT_THAT(Interpret(g, {{"x", {1, 2, 3}}}).outputs.at("y").Numbers(), ElementsAre(1, 2, 3));
}

// ---- Values made in place.

TEST(GenerateTest, EyeHasItsOnesBesideTheDiagonal) {
  for (int64_t offset : {-5, -2, 0, 1, 3, 9}) {
    Graph g{Mesh()};
    g.Output("eye", Eye(g, {I32, {2, 4, 6}}, offset));
    const Numbers got = Interpret(g, {}).outputs.at("eye").Numbers();
    for (int64_t i = 0; i < 48; ++i) EXPECT_EQ(got[i], i % 6 - i / 6 % 4 == offset) << i;
  }
}

TEST(GenerateTest, LinspaceEndsWhereItShould) {
  auto linspace = [](double start, double stop, const Type& type) {
    Graph g{Mesh()};
    g.Output("x", Linspace(g, start, stop, type));
    return Interpret(g, {}).outputs.at("x").Numbers();
  };
  EXPECT_THAT(linspace(-1, 2, {F64, {4}}), ElementsAre(-1, 0, 1, 2));
  EXPECT_THAT(linspace(3, 3, {F32, {2}}), ElementsAre(3, 3));
  EXPECT_THAT(linspace(5, 9, {BF16, {1}}), ElementsAre(5));
  EXPECT_THAT(linspace(0, 1, {F32, {0}}), ElementsAre());
  for (int64_t n : {2, 3, 7, 50}) {
    const Numbers x = linspace(0.1, 0.7, {F64, {n}});
    EXPECT_EQ(x.front(), 0.1);
    EXPECT_EQ(x.back(), 0.7);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(x[i], 0.1 + 0.6 * static_cast<double>(i) / static_cast<double>(n - 1), 1e-15);
  }
}

TEST(GenerateTest, CountsAndOneHotsExistInBf16AndBool) {
  Graph g{Mesh()};
  g.Output("iota", Iota(g, {BF16, {300}}, 0));
  g.Output("hot", OneHot(Iota(g, {I32, {2}}, 0), 3, BOOL));
  const auto outputs = Interpret(g, {}).outputs;
  const Numbers iota = outputs.at("iota").Numbers();
  for (size_t i = 0; i < iota.size(); ++i)
    EXPECT_EQ(iota[i], std::nearbyint(i > 256 ? i / 2.0 : i) * (i > 256 ? 2 : 1));
  EXPECT_THAT(outputs.at("hot").Numbers(), ElementsAre(1, 0, 0, 0, 1, 0));
}

}  // namespace
}  // namespace meshwork::random_test
