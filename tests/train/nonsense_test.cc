// "No builder call aborts": every function of the headers that meshwork.h includes, called with what no
// program means. A call may record mistakes, return a status or an invalid value, and throw the exceptions
// that its header names; nothing else.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::nonsense_test {
namespace {

using Values = std::vector<Value>;
using Ints = std::vector<int64_t>;

constexpr int64_t kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
const int64_t kInts[] = {kLow, -5, -1, 0, 1, 2, 7, int64_t{1} << 31, int64_t{1} << 41, kHigh};
const double kNumbers[] = {0, -1, 1e300, NAN, INFINITY, -INFINITY};

LayoutSpec Open(size_t rank) { return LayoutSpec(rank, UNSHARDED); }

// A graph with values of all kinds. The first ones are invalid, or not values of this graph.
struct Nonsense {
  Graph g{Mesh::Parse("batch=2,model=4").value()};
  Graph other{Mesh::Parse("x=3").value()};
  Values values;

  Nonsense() {
    values.emplace_back();
    {
      Graph gone{Mesh()};
      values.push_back(gone.Input("gone", F32, {4, 6}, Open(2)));
    }
    values.push_back(g.Input("typo", F32, {4, 6}, {"bacth", UNSHARDED}));
    values.emplace_back(&g, 12345);
    values.push_back(other.Input("foreign", F32, {4, 6}, Open(2)));
    int i = 0;
    for (const Type& type :
         {Type{F32, {}}, Type{F32, {4, 6}}, Type{F64, {4, 6, 6}}, Type{BF16, {0, 3}}, Type{I32, {4}},
          Type{BOOL, {4, 6}}, Type{I64, {}}, Type{F32, {2, 5, 5, 3}}, Type{F32, Shape(26, 1)}})
      values.push_back(g.Input("v" + std::to_string(i++), type.dtype, type.shape, Open(type.shape.size())));
  }

  // Reads everything that a model can read of a value.
  static void Read(const Value& value) {
    EXPECT_EQ(value.rank(), static_cast<int>(value.shape().size()));
    if (!value.valid()) {
      EXPECT_EQ(value.shape()[1], 1);
      EXPECT_EQ(value.shape().back(), 1);
    }
    EXPECT_FALSE(value.type().ToString().empty());
  }
  static void Read(const Values& all) {
    for (const Value& value : all) Read(value);
  }

  void Each(const std::function<void(const Value&)>& f) {
    for (const Value& value : Values(values)) f(value);
  }
  void Pairs(const std::function<void(const Value&, const Value&)>& f) {
    Each([&](const Value& a) { Each([&](const Value& b) { f(a, b); }); });
  }
};

TEST(NonsenseTest, ElementwiseFunctions) {
  Nonsense n;
  using Unary = Value (*)(const Operand&);
  for (Unary f : {(Unary)Neg,
                  (Unary)Abs,
                  (Unary)Sign,
                  (Unary)Square,
                  (Unary)Reciprocal,
                  (Unary)IsFinite,
                  (Unary)IsInf,
                  (Unary)IsNan,
                  (Unary)Not,
                  (Unary)Exp,
                  (Unary)Expm1,
                  (Unary)Log,
                  (Unary)Log1p,
                  (Unary)Sqrt,
                  (Unary)Rsqrt,
                  (Unary)Cbrt,
                  (Unary)Erf,
                  (Unary)Erfc,
                  (Unary)Sin,
                  (Unary)Cos,
                  (Unary)Tan,
                  (Unary)Asin,
                  (Unary)Acos,
                  (Unary)Atan,
                  (Unary)Sinh,
                  (Unary)Cosh,
                  (Unary)Tanh,
                  (Unary)Asinh,
                  (Unary)Acosh,
                  (Unary)Atanh,
                  (Unary)Floor,
                  (Unary)Ceil,
                  (Unary)Round,
                  (Unary)Trunc,
                  (Unary)Exp2,
                  (Unary)Log2,
                  (Unary)Log10,
                  (Unary)LogGamma,
                  (Unary)Digamma,
                  (Unary)ErfInv,
                  (Unary)Sinc,
                  (Unary)Popcount,
                  (Unary)CountLeadingZeros,
                  (Unary)Relu,
                  (Unary)Relu6,
                  (Unary)Selu,
                  (Unary)Sigmoid,
                  (Unary)Softplus,
                  (Unary)Silu,
                  (Unary)LogSigmoid,
                  (Unary)Mish,
                  (Unary)HardSigmoid,
                  (Unary)HardSilu,
                  (Unary)StopGradient,
                  (Unary)Cholesky}) {
    n.Each([&](const Value& x) { n.Read(f(x)); });
    n.Read(f(1.5));
  }
  using Binary = Value (*)(const Operand&, const Operand&);
  for (Binary f : {(Binary)Add,
                   (Binary)Sub,
                   (Binary)Mul,
                   (Binary)Div,
                   (Binary)Remainder,
                   (Binary)Pow,
                   (Binary)Maximum,
                   (Binary)Minimum,
                   (Binary)SquaredDifference,
                   (Binary)Atan2,
                   (Binary)Equal,
                   (Binary)NotEqual,
                   (Binary)Less,
                   (Binary)LessEqual,
                   (Binary)Greater,
                   (Binary)GreaterEqual,
                   (Binary)And,
                   (Binary)Or,
                   (Binary)Xor,
                   (Binary)ShiftLeft,
                   (Binary)ShiftRightArithmetic,
                   (Binary)ShiftRightLogical,
                   (Binary)LogAddExp,
                   (Binary)Hypot,
                   (Binary)XLogY,
                   (Binary)FloorDiv,
                   (Binary)FloorMod,
                   (Binary)DivNoNan}) {
    n.Pairs([&](const Value& a, const Value& b) { n.Read(f(a, b)); });
    n.Each([&](const Value& a) {
      for (double number : kNumbers) n.Read({f(a, number), f(number, a)});
    });
    n.Read(f(1, 2));
  }
  const auto losses = [](const Operand& a, const Operand& b, const Value& weights, Reduction reduction) {
    return std::vector<Value>{
        SparseSoftmaxCrossEntropy(a, b, {reduction, weights, 0.5, INT64_MIN}),
        SoftmaxCrossEntropy(a, b, {reduction, weights, 0.5}),
        BinaryCrossEntropyWithLogits(a, b, {reduction, weights, NAN}),
        MeanSquaredError(a, b, {reduction, weights}),
        MeanAbsoluteError(a, b, {reduction, weights}),
        LogCoshLoss(a, b, {reduction, weights}),
        PoissonLoss(a, b, {reduction, weights}),
        HingeLoss(a, b, {reduction, weights}),
        KlDivergence(a, b, {reduction, weights}),
        CosineDistance(a, b, {reduction, weights}),
        TripletMarginLoss(a, b, a, NAN, {reduction, weights}),
        TripletMarginLoss(a, b, b, 1, {reduction, weights}),
        CountInvalidLabels(a, b, INT64_MAX),
        CorrectLabels(a, b),
    };
  };
  n.Pairs([&](const Value& a, const Value& b) {
    for (const Reduction reduction :
         {Reduction::kMean, Reduction::kWeightedMean, Reduction::kSum, Reduction::kNone}) {
      for (const Value& weights : {Value(), a, b}) n.Read(losses(a, b, weights, reduction));
    }
  });
  n.Each([&](const Value& a) {
    for (double number : kNumbers) {
      n.Read(losses(a, number, {}, Reduction::kMean));
      n.Read(losses(number, a, a, Reduction::kSum));
    }
  });
  n.Pairs([&](const Value& a, const Value& b) {
    n.Read({Select(a, b, b), Select(a, 1.0, b), Select(a, 1, 2), Accuracy(a, b), HuberLoss(a, b, NAN),
            MovingAverage(a, b, INFINITY), RmsNorm(a, b, -1), LayerNorm(a, b, b, NAN), MatMul(a, b),
            MatMul(a, b, true, true), Conv(a, b), ConvTranspose(a, b), TriangularSolve(a, b)});
  });
  n.Each([&](const Value& x) {
    for (double number : kNumbers)
      n.Read(
          {Clip(x, number, 1), LeakyRelu(x, number), Elu(x, number), RotaryPositions(x, {.base = number})});
    for (DType dtype : kAllDTypes) n.Read({Cast(x, dtype), Bitcast(x, dtype)});
    for (int64_t order : kInts) n.Read(Polygamma(x, order));
    n.Read({Gelu(x), AllowGather(x), Relayout(x, {"batch"}), WithLayout(x, {"nowhere"})});
  });
  EXPECT_FALSE(n.g.status().ok());
}

TEST(NonsenseTest, ShapesAndSlices) {
  Nonsense n;
  std::vector<Ints> lists = {{}};
  for (int64_t i : kInts) {
    lists.push_back({i});
    lists.push_back({i, 0});
    lists.push_back({0, i});
    lists.push_back({i, i});
  }
  n.Each([&](const Value& x) {
    for (const Ints& list : lists) {
      const Shape shape(list.begin(), list.end());
      n.Read({BroadcastTo(x, shape, list),
              Reshape(x, shape),
              Squeeze(x, list),
              ExpandDims(x, list),
              Transpose(x, list),
              DimensionSize(x, list, I32),
              Slice(x, list, list),
              Slice(x, {0, 0}, list, list),
              Pad(x, list, list),
              Pad(x, {0, 0}, {0, 0}, NAN, list),
              Reverse(x, list),
              Tile(x, list),
              ReduceSum(x, list),
              ReduceMean(x, list),
              ReduceMax(x, list, true),
              ReduceMin(x, list),
              ReduceProd(x, list),
              ReduceAll(x, list),
              ReduceAny(x, list),
              SoftmaxOver(x, list),
              LogSumExp(x, list),
              Variance(x, list, NAN),
              StandardDeviation(x, list),
              Norm(x, list, 3),
              Standardize(x, list, -1),
              MaxPool(x, list),
              AvgPool(x, list, {.strides = list}),
              MaxPool(x, {2}, {.padding = WindowPadding::Explicit(list, list), .dilation = list}),
              Resize(x, list, ResizeForm::kBilinear)});
      n.Read(SplitSizes(x, list, 0));
    }
    for (int64_t i : kInts) {
      n.Read({Flatten(x, i),
              SliceDim(x, i, 0, 1),
              SliceDim(x, 0, i, kHigh, i),
              Roll(x, i, 0),
              Roll(x, 1, i),
              Cumsum(x, i),
              Cumprod(x, i),
              Cummax(x, i, true),
              Cummin(x, i, true, true),
              Argmax(x, i),
              Argmin(x, i),
              ArgSort(x, i),
              Bincount(x, i),
              OneHot(x, i, F32),
              KeepTopK(x, i),
              Repeat(x, i, 0),
              KeepTopP(x, static_cast<double>(i)),
              RandomCategorical(x, i, i, x),
              Repeat(x, 2, i),
              Softmax(x, i),
              LogSoftmax(x, i),
              Shuffle(x, i, i, i),
              GroupNorm(x, x, x, i),
              StatelessDropout(x, 0.5, i, i, x)});
      n.Read({Sort(x, i).values, TopK(x, i, 0).indices, TopK(x, 1, i).values, UniqueCounts(x, i).counts,
              Qr(x).q, Fft(x, x, i).re});
      const Values parts = Split(x, i, 0);  // no more parts than are possible
      if (!parts.empty()) n.Read({parts.front(), parts.back()});
      n.Read(Split(x, 2, i));
      n.Read({RouteToExperts(x, {.choices = i, .capacity = i}).balance, SegmentSum(x, x, i), InTopK(x, x, i),
              LinearRecurrence(x, x, i)});
    }
    n.Read({Concat({x, x}, -3), Stack({x, x}, kHigh), Einsum("ij,jk->ik", {x, x}), Einsum("ij->ii,", {x}),
            Einsum(std::string(1000, 'i'), {x}), Attention(x, x, x), Attention(x, x, x, {.mask = x}),
            BatchNorm(x, x, x).y, BatchNormInference(x, x, x, x, x), GlobalNorm({&x, 1}),
            ClipByGlobalNorm({&x, 1}, NAN)[0], AdamUpdate(x, x, x, x, x, NAN, 2, -1, 0).weight});
  });
  n.Read({Concat({}, 0), Stack({}, 0), Einsum("", {}), GlobalNorm({})});
  n.Pairs([&](const Value& a, const Value& b) {
    for (int64_t i : kInts) {
      n.Read({Gather(a, b, i), ScatterAdd(a, b, {i}, i), ScatterMax(a, b, {4, i}, 0),
              ScatterUpdate(a, a, b, i), TakeAlongDim(a, b, i), ScatterAddAlongDim(a, b, {i, 6}, 0),
              GatherNd(a, b, i), ScatterNdAdd(a, b, {i}, i), DynamicSlice(a, b, {i}, {i}),
              DynamicUpdateSlice(a, a, b, {i}), UpdateSlice(a, b, {i, i}, {i})});
    }
    n.Read({Concat({a, b}, 0), Conv(a, b, {.window = {.strides = {0}}, .groups = 0})});
  });
  EXPECT_FALSE(n.g.status().ok());
}

TEST(NonsenseTest, GeneratedValues) {
  Nonsense n;
  for (int64_t i : kInts) {
    for (const Shape& shape : {Shape{i}, Shape{i, i}, Shape(27, 1), Shape{}}) {
      for (DType dtype : kAllDTypes) {
        const Type type{dtype, shape};
        n.Read({Constant(n.g, NAN, type), Iota(n.g, type, i), Linspace(n.g, NAN, 1, type), Eye(n.g, type, i),
                RandomUniform(n.g, type, i, i, 1, 0), RandomNormal(n.g, type, i, i, NAN, -1),
                RandomTruncatedNormal(n.g, type, i, i, 0, 1, n.values[7]),
                RandomBernoulli(n.g, type, 0, 0, 2), RandomInt(n.g, type, 0, 0, i, i)});
        n.Read(n.g.Input("x", dtype, shape, {"batch"}));
        n.Read(n.g.Var("", GlorotUniform(shape, dtype), {"batch", "batch"}));
        n.Read(n.g.Var("q", Orthogonal(shape, NAN, dtype), {"batch", "batch"}));
        n.Read(n.g.Var("w", Zeros(shape, dtype), {OPEN}));
      }
    }
    n.Read(RandomPermutation(n.g, i, 0, 0));
  }
  EXPECT_FALSE(n.g.status().ok());
}

TEST(NonsenseTest, LayersAndOptimizers) {
  Nonsense n;
  for (int64_t i : kInts) {
    const std::string name = "l" + std::to_string(i < 0 ? 0 : i % 100);
    n.Each([&](const Value& x) {
      n.Read({Dense(n.g, name, i, i)(x), Conv2D(n.g, name, i, 3, {i, 3})(x), Conv2D(n.g, "c", 3, 3, {})(x),
              LayerNormalization(n.g, name, i)(x), Embedding(n.g, name, i, i)(x),
              RmsNormalization(n.g, name, i)(x), MultiHeadAttention(n.g, name, i, i)(x),
              FeedForward(n.g, name, i, i)(x)});
      n.Read({Conv1D(n.g, name, i, i, {i}, {.groups = i})(x), Conv3D(n.g, name, 3, i, {3, i, 3})(x),
              Conv2DTranspose(n.g, name, i, 3, {i, i}, {.groups = i})(x),
              DepthwiseConv2D(n.g, name, i, {3, 3}, {.multiplier = i})(x), GlobalAvgPool(x), GlobalMaxPool(x),
              BatchNormalization(n.g, name, i)(x), BatchNormalization(n.g, name, i, {.momentum = NAN})(x),
              BatchNormalization(n.g, name, 6, {.epsilon = NAN, .scale = false, .unbiased = true})(x),
              GroupNormalization(n.g, name, i, i)(x), Dropout(n.g, name, 0.5)(x), Dropout(n.g, "", NAN)(x)});
      const LstmResult lstm = Lstm(n.g, name, i, i)(x, {x, x});
      n.Read({lstm.sequence, lstm.state, lstm.cell, SimpleRnn(n.g, name, 6, i)(x).state,
              Gru(n.g, name, i, i)(x, x).sequence, Gru(n.g, "gru", 6, 6)(x, x).sequence});
      n.Read(MeanOverMicrobatches(i, {x, x}, [](const Values& parts) { return parts[0]; }));
    });
  }
  n.Read(MeanOverMicrobatches(2, {}, [](const Values& parts) { return parts[0]; }));
  n.Each([&](const Value& x) {
    for (double rate : kNumbers) {
      Sgd({.learning_rate = rate}).Minimize(x);
      Momentum({.momentum = rate}).Minimize(x);
      Nesterov({.momentum = rate, .clip_norm = rate}).Minimize(x);
      Adagrad({.epsilon = rate}).Minimize(x);
      RmsProp({.rho = rate, .momentum = 0.5, .centered = true}).Minimize(x);
      Adam({.beta1 = rate}).Minimize(x);
      AdamW({.weight_decay = rate}).Minimize(x);
      Lamb({.epsilon = rate}).Minimize(x);
    }
    n.Read(Gradients(x, n.values));
    n.Read(Gradients(x, {}));
    n.g.Output("y", x);
    n.g.Update(Variable(&n.g, x.id()), x);
    n.g.Update({}, x);
    n.g.Pin(x, {"batch"});
  });
  EXPECT_FALSE(n.g.status().ok());
}

TEST(NonsenseTest, LoopsAndRegionsGiveAsManyValuesAsAskedFor) {
  Nonsense n;
  n.Each([&](const Value& x) {
    n.Pairs([&](const Value& carry, const Value& slice) {
      const ScanResult scan =
          Scan(n.g, {carry, x}, {slice}, [&](Graph& body, const Values& c, const Values& s) {
            n.Read(c);
            n.Read(s);
            n.Read(Constant(body, 1, {F32, {2}}));
            return ScanStep{.carries = {c[0], c[1]}, .stacked = {s[0], s[0]}, .sums = {s[0] + x}};
          });
      ASSERT_EQ(scan.carries.size(), 2u);
      ASSERT_EQ(scan.stacked.size(), 2u);
      ASSERT_EQ(scan.sums.size(), 1u);
      n.Read(scan.carries);
      n.Read(scan.stacked);
      n.Read(scan.sums);
    });
    const Values loop = While(
        n.g, {x, x}, [](Graph&, const Values& c) { return c[0]; },
        [](Graph&, const Values& c) {
          return Values{c[1], c[0] + 1.0};
        });
    ASSERT_EQ(loop.size(), 2u);
    n.Read(loop);
    const Values branch = If(
        x,
        [&](Graph& body) {
          return Values{x * 2.0, Constant(body, 1, {F32, {2}}), x};
        },
        [&](Graph&) { return Values{x}; });
    ASSERT_EQ(branch.size(), 3u);
    n.Read(branch);
    const Values region =
        manual::Region(n.g, {x}, {{"batch"}}, {{"batch"}, {}}, [](Graph& body, const Values& b) {
          return Values{manual::AllReduce(b[0], {"nowhere"}), manual::AxisIndex(body, {"model", "model"})};
        });
    ASSERT_EQ(region.size(), 2u);
    n.Read(region);
    for (int64_t i : kInts)
      n.Read({manual::AllGather(x, i, {"batch"}), manual::ReduceScatter(x, i, {}),
              manual::Shift(x, i, {"batch"}), manual::AllToAll(x, i, i, {"batch"}), manual::Vary(x, {"x"}),
              manual::AllReduce(x, {"batch"})});
  });
  for (int64_t i : kInts) {
    Graph g{Mesh()};
    Scan(g, {}, {}, [](Graph&, const Values&, const Values&) { return ScanStep{}; }, {.length = i});
    Scan(g, {Constant(g, 0, {})}, {}, [](Graph&, const Values&, const Values&) { return ScanStep{}; },
         {.length = i});
  }
  EXPECT_FALSE(n.g.status().ok());
}

// Functions that do not build a graph: tensors, data, sessions, texts.
TEST(NonsenseTest, TensorsDataAndSessions) {
  for (int64_t i : kInts) {
    const Tensor tensors[] = {Tensor(), Tensor::Zeros({F32, {4, 6}}), Tensor::Zeros({I32, {}}),
                              Tensor::From<float>({i}, {1, 2, 3}), Tensor(Type{F32, {i}}, nullptr)};
    for (const Tensor& tensor : tensors) {
      for (int64_t j : kInts) {
        const Tensor rows = tensor.Rows(i, j), reshaped = tensor.Reshaped({i, j});
        EXPECT_EQ(rows.valid(), rows.status().ok());
        EXPECT_EQ(reshaped.valid(), reshaped.status().ok());
        EXPECT_EQ(rows.TryValues<float>().ok(), rows.valid() && rows.dtype() == F32);
        EXPECT_FALSE(rows.Rows(-1, j).Scalar().ok());
      }
      EXPECT_FALSE(Dataset::Create({{"a", tensor}, {"a", tensor}}).ok());
    }
    const Dataset dataset = Dataset::Create({{"a", Tensor::Zeros({F32, {4, 6}})}}).value();
    EXPECT_LE(dataset.Take(i).size(), 4);
    EXPECT_EQ(dataset.Batches({.batch_size = i}).status().ok(), i >= 1);
    EXPECT_EQ(dataset.Batches({.batch_size = 4, .lanes = i}).status().ok(), i >= 1 && 4 % i == 0);
    EXPECT_EQ(Dataset::FromParts({{i, [] { return Columns(); }}}).ok(), 0 <= i && i <= (int64_t{1} << 40));
  }
  for (const char* text :
       {"", "batch", "batch=0", "=3", "a=2,a=2", "a=99999999999999999999", "a=2*1", "[", "a=2,"})
    (void)Mesh::Parse(text).status();
  for (const char* text : {"", "mesh", "mesh [] func", "mesh [] func f() { %0 = nothing }", "\xff\xfe"})
    EXPECT_FALSE(ParseGraph(text, "p.mw").ok());
  EXPECT_EQ(MovingMean(std::vector<SvgPoint>{{0, 1}, {1, 3}}, kLow)[1].y, 3);
  EXPECT_TRUE(ShuffledOrder(-1, 0, 0).empty());
  EXPECT_FALSE(SyntheticDigits(-1, 0, 0, F32).ok());
  EXPECT_FALSE(SyntheticDigits(1, 1, 0, I32).ok());
  EXPECT_FALSE(LoadMnist("", F32, {.train = -1, .test = kLow}).ok());
  EXPECT_FALSE(ReadSafetensors("").ok());
  EXPECT_FALSE(WriteSafetensors("", {}).ok());
  EXPECT_FALSE(LineChart{}.ToSvg().empty());
  EXPECT_FALSE(Session::Create(Graph(Mesh())).ok());
  Graph g{Mesh::Parse("batch=2").value()};
  const Value x = g.Input("x", F32, {4, 6}, {"batch", UNSHARDED});
  g.Output("y", x * 2.0);
  EXPECT_FALSE(Session::Create(g, {.workers = -1}).ok());
  Session s = Session::Create(g, {.workers = 1}).value();
  for (const Tensor& tensor :
       {Tensor(), Tensor::Zeros({F64, {4, 6}}), Tensor::Zeros({F32, {}}), Tensor::Zeros({F32, {0, 6}}),
        Tensor::Zeros({F32, {5, 6}}), Tensor::From<float>({3, 6}, {1})}) {
    EXPECT_FALSE(s.Run({{"x", tensor}}).ok());
    EXPECT_FALSE(s.Evaluate({{"x", tensor}, {"", tensor}}).ok());
    EXPECT_FALSE(s.Bind({{"x", tensor}}).ok());
    EXPECT_FALSE(s.Set("x", tensor).ok());
  }
  EXPECT_FALSE(s.Get("").ok());
}

}  // namespace
}  // namespace meshwork::nonsense_test
