// Gradients against central finite differences in double precision, and the composites against
// numbers computed another way.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/ops.h"
#include "ops/gradient_check.h"
#include "support/interpreter.h"

namespace meshwork {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;
// By name: forms of broadcast and attributes beyond the rows' samples, and what samples cannot show.
std::map<std::string, Function> Functions() {
  const Shape kMatrix = {3, 4};
  return {
      {"add", {{{3, 4}, {4}}, [](const Xs& x) { return x[0] + x[1]; }}},
      {"add a column", {{{3, 1}, {3, 4}}, [](const Xs& x) { return x[0] + x[1]; }}},
      {"add both stretched", {{{3, 1}, {1, 4}}, [](const Xs& x) { return x[0] + x[1]; }}},
      {"sub", {{{4}, {3, 4}}, [](const Xs& x) { return x[0] - x[1]; }}},
      {"sub a scalar", {{{3, 4}, {}}, [](const Xs& x) { return x[0] - x[1]; }}},
      {"mul", {{{3, 4}, {3, 1}}, [](const Xs& x) { return x[0] * x[1]; }}},
      {"mul by itself", {{kMatrix}, [](const Xs& x) { return x[0] * x[0]; }}},
      {"div", {{{3, 4}, {4}}, [](const Xs& x) { return x[0] / x[1]; }, 0.5, 2}},
      {"div a scalar", {{{}, {3, 4}}, [](const Xs& x) { return x[0] / x[1]; }, 0.5, 2}},
      {"maximum", {{{3, 4}, {4}}, [](const Xs& x) { return Maximum(x[0], x[1]); }}},
      {"minimum", {{{3, 4}, {3, 1}}, [](const Xs& x) { return Minimum(x[0], x[1]); }}},
      {"select", {{{3, 4}, {4}}, [](const Xs& x) { return Select(Greater(x[0], 0.1), x[1], x[0]); }}},
      {"neg", {{kMatrix}, [](const Xs& x) { return -x[0]; }}},
      {"exp", {{kMatrix}, [](const Xs& x) { return Exp(x[0]); }}},
      {"log", {{kMatrix}, [](const Xs& x) { return Log(x[0]); }, 0.5, 2}},
      {"sqrt", {{kMatrix}, [](const Xs& x) { return Sqrt(x[0]); }, 0.5, 2}},
      {"rsqrt", {{kMatrix}, [](const Xs& x) { return Rsqrt(x[0]); }, 0.5, 2}},
      {"tanh", {{kMatrix}, [](const Xs& x) { return Tanh(x[0]); }}},
      {"relu", {{kMatrix}, [](const Xs& x) { return Relu(x[0]); }}},
      {"cast", {{kMatrix}, [](const Xs& x) { return Cast(x[0], F64); }}},
      {"broadcast_to",
       {{{4}},
        [](const Xs& x) {
          return BroadcastTo(x[0], {3, 4}, {1});
        }}},
      {"broadcast_to, stretched",
       {{{3, 1}},
        [](const Xs& x) {
          return BroadcastTo(x[0], {2, 3, 4}, {1, 2});
        }}},
      {"broadcast_to of a scalar",
       {{{}},
        [](const Xs& x) {
          return BroadcastTo(x[0], {3, 4}, {});
        }}},
      {"reshape",
       {{{3, 4}},
        [](const Xs& x) {
          return Reshape(x[0], {2, 6});
        }}},
      {"transpose",
       {{{2, 3, 4}},
        [](const Xs& x) {
          return Transpose(x[0], {2, 0, 1});
        }}},
      {"squeeze", {{{3, 1, 4}}, [](const Xs& x) { return Squeeze(x[0], {1}); }}},
      {"expand_dims",
       {{kMatrix},
        [](const Xs& x) {
          return ExpandDims(x[0], {0, 2});
        }}},
      {"slice",
       {{{5, 4}},
        [](const Xs& x) {
          return Slice(x[0], {1, 0}, {4, 4});
        }}},
      {"slice, strided",
       {{{6, 7}},
        [](const Xs& x) {
          return Slice(x[0], {1, 0}, {5, 7}, {2, 3});
        }}},
      {"slice, empty in one dim", {{kMatrix}, [](const Xs& x) { return SliceDim(x[0], 0, 2, 2, 3); }}},
      {"pad",
       {{kMatrix},
        [](const Xs& x) {
          return Pad(x[0], {1, 0}, {2, 1}, 0.5);
        }}},
      {"pad, interior and cropped",
       {{{4, 3}},
        [](const Xs& x) {
          return Pad(x[0], {-2, 1}, {1, -1}, 2, {1, 2});
        }}},
      {"concat",
       {{{3, 1}, {3, 4}, {3, 0}, {3, 2}},
        [](const Xs& x) {
          return Concat({x[0], x[1], x[0], x[2], x[3]}, 1);
        }}},
      {"reverse",
       {{{2, 3, 4}},
        [](const Xs& x) {
          return Reverse(x[0], {0, 2});
        }}},
      // The indices are -3, -1, 1, 3, 5: some out of range, some twice the same element.
      {"gather",
       {{{2, 4, 3}},
        [](const Xs& x) {
          return Gather(x[0], Iota(*x[0].graph(), {I32, {5}}, 0) * 2 - 3, 1);
        }}},
      {"scatter_add",
       {{{2, 5, 3}},
        [](const Xs& x) {
          return ScatterAdd(x[0], Iota(*x[0].graph(), {I64, {5}}, 0) * 2 - 3, {2, 4, 3}, 1);
        }}},
      {"a stack that is split",
       {{{3}, {3}},
        [](const Xs& x) {
          return Split(Stack({x[0], x[1] * x[0]}, 1), 3, 0)[1];
        }}},
      {"relayout",
       {{kMatrix},
        [](const Xs& x) {
          return Relayout(x[0], {UNSHARDED, UNSHARDED});
        }}},
      {"reduce_sum", {{{2, 3, 4}}, [](const Xs& x) { return ReduceSum(x[0], {1}); }}},
      {"reduce_sum, dims kept",
       {{{2, 3, 4}},
        [](const Xs& x) {
          return ReduceSum(x[0], {0, 2}, true);
        }}},
      {"reduce_sum over nothing", {{{3, 4}}, [](const Xs& x) { return ReduceSum(x[0], {}); }}},
      {"reduce_mean",
       {{{2, 3, 4}},
        [](const Xs& x) {
          return ReduceMean(x[0], {2, 0});
        }}},
      {"reduce_mean, dims kept", {{{3, 4}}, [](const Xs& x) { return ReduceMean(x[0], {0}, true); }}},
      {"reduce_max", {{{3, 4}}, [](const Xs& x) { return ReduceMax(x[0], {1}); }}},
      {"reduce_max, dims kept",
       {{{3, 4}},
        [](const Xs& x) {
          return ReduceMax(x[0], {0, 1}, true);
        }}},
      {"reduce_min", {{{3, 4}}, [](const Xs& x) { return ReduceMin(x[0], {0}); }}},
      {"reduce_min, dims kept",
       {{{2, 3, 4}},
        [](const Xs& x) {
          return ReduceMin(x[0], {0, 2}, true);
        }}},
      {"reduce_prod", {{{3, 4}}, [](const Xs& x) { return ReduceProd(x[0], {1}); }}},
      {"reduce_prod, dims kept",
       {{{2, 3, 4}},
        [](const Xs& x) {
          return ReduceProd(x[0], {2, 0}, true);
        }}},
      {"attention",
       {{{1, 3, 2, 2}, {1, 4, 2, 2}, {1, 4, 2, 3}},
        [](const Xs& x) { return Attention(x[0], x[1], x[2], {.causal = true}); }}},
      {"attention and its log-sums",
       {{{1, 3, 1, 2}, {1, 4, 1, 2}, {1, 4, 1, 1}},
        [](const Xs& x) {
          const std::vector<Value> both = x[0].graph()->Add("attention", x, {{"scale", 0.5}}, {});
          return Squeeze(both[0], {3}) * both[1];
        }}},
      {"attention_grad_kv",
       {{{1, 3, 1, 2}, {1, 4, 1, 2}, {1, 4, 1, 2}, {1, 3, 1, 2}, {1, 3, 1}, {1, 3, 1}},
        [](const Xs& x) {
          const std::vector<Value> both = x[0].graph()->Add("attention_grad_kv", x, {{"scale", 0.5}}, {});
          return both[0] * 2.0 + both[1];
        }}},
      {"adam_update",
       {{{3}, {3}, {3}, {3}},
        [](const Xs& x) {
          const AdamResult r = AdamUpdate(x[0], x[1], x[2], x[3], Constant(*x[0].graph(), 3, {I64, {}}), 0.1,
                                          0.9, 0.99, 1e-3, 0.5);
          return Concat({r.weight, r.first_moment, r.second_moment}, 0);
        },
        0.1,
        1}},
      {"bitcast", {{{3}}, [](const Xs& x) { return Bitcast(x[0], F64) * x[0]; }}},
      {"matmul", {{{3, 4}, {4, 5}}, [](const Xs& x) { return MatMul(x[0], x[1]); }}},
      {"matmul, a transposed", {{{4, 3}, {4, 5}}, [](const Xs& x) { return MatMul(x[0], x[1], true); }}},
      {"matmul, b transposed",
       {{{3, 4}, {5, 4}}, [](const Xs& x) { return MatMul(x[0], x[1], false, true); }}},
      {"matmul, both transposed",
       {{{4, 3}, {5, 4}}, [](const Xs& x) { return MatMul(x[0], x[1], true, true); }}},
      {"matmul of batches", {{{2, 3, 4}, {2, 4, 2}}, [](const Xs& x) { return MatMul(x[0], x[1]); }}},
      {"matmul of a batch with a matrix",
       {{{2, 3, 2}, {2, 4}}, [](const Xs& x) { return MatMul(x[0], x[1]); }}},
      {"matmul of a transposed batch with a transposed matrix",
       {{{2, 2, 3}, {4, 2}}, [](const Xs& x) { return MatMul(x[0], x[1], true, true); }}},
      {"matmul of a matrix with a batch",
       {{{2, 3}, {2, 4, 2}}, [](const Xs& x) { return MatMul(x[0], x[1], true, true); }}},
      {"matmul of batches that broadcast",
       {{{2, 1, 2, 3}, {3, 4, 3}}, [](const Xs& x) { return MatMul(x[0], x[1], false, true); }}},
      {"matmul of one with many",
       {{{1, 3, 2}, {2, 3, 2}}, [](const Xs& x) { return MatMul(x[0], x[1], true); }}},
      // Rows of two results, and what samples do not draw.
      {"sort", {{{3, 5}}, [](const Xs& x) { return Sort(x[0], 1).values; }}},
      {"sort, descending", {{{5, 3}}, [](const Xs& x) { return Sort(x[0], 0, true).values; }}},
      {"top_k", {{{2, 5, 2}}, [](const Xs& x) { return TopK(x[0], 3, 1).values; }}},
      {"cholesky", {{{2, 4, 3}}, [](const Xs& x) { return Cholesky(MatMul(x[0], x[0], true)); }}},
      {"cholesky of the lower triangle", {{{1, 1}}, [](const Xs& x) { return Cholesky(x[0]); }, 1, 2}},
      {"q", {{{2, 4, 3}}, [](const Xs& x) { return Qr(x[0]).q; }}},
      {"r", {{{2, 4, 3}}, [](const Xs& x) { return Qr(x[0]).r; }}},
      {"q and r, wide",
       {{{2, 4}},
        [](const Xs& x) {
          return Concat({Qr(x[0]).q, Qr(x[0]).r}, 1);
        }}},
      {"triangular_solve",
       {{{3, 3}, {3, 2}}, [](const Xs& x) { return TriangularSolve(x[0], x[1]); }, 0.5, 1.5}},
      {"cumprod", {{{3, 4}}, [](const Xs& x) { return Cumprod(x[0], 1); }}},
      {"linear_recurrence", {{{3, 4}, {3, 4}}, [](const Xs& x) { return LinearRecurrence(x[0], x[1], 1); }}},
      {"fft",
       {{{2, 6}, {2, 6}},
        [](const Xs& x) {
          const Complex y = Fft(x[0], x[1]);
          return y.re * 2.0 + y.im;
        }}},
      // Their second result is a place, which has no slope.
      {"max_pool",
       {{{1, 5, 4, 2}},
        [](const Xs& x) {
          return MaxPool(x[0], {2, 2});
        },
        -3,
        3}},
      {"max_pool with padding, windows that overlap",
       {{{2, 5, 2}},
        [](const Xs& x) { return MaxPool(x[0], {3}, {.strides = {2}, .padding = WindowPadding::Same()}); },
        -3,
        3}},
      // Composites and chains.
      {"log_softmax", {{{3, 4}}, [](const Xs& x) { return LogSoftmax(x[0]); }, -3, 3}},
      {"log_softmax of three dims", {{{2, 2, 3}}, [](const Xs& x) { return LogSoftmax(x[0]); }, -3, 3}},
      {"cross-entropy",
       {{{3, 4}},
        [](const Xs& x) {
          return SparseSoftmaxCrossEntropy(x[0], Iota(*x[0].graph(), {I32, {3}}, 0));
        },
        -3,
        3}},
      {"dropout", {{{3, 4}}, [](const Xs& x) { return Dropout(x[0], 0.3, /*seed=*/5, /*stream=*/1); }}},
      {"a value used thrice", {{{3}, {3}}, [](const Xs& x) { return (x[0] + x[1]) * x[0] - Exp(x[0]); }}},
      {"two layers",
       {{{2, 3}, {3, 4}, {4}, {4, 2}, {2}},
        [](const Xs& x) {
          return SparseSoftmaxCrossEntropy(MatMul(Tanh(MatMul(x[0], x[1]) + x[2]), x[3]) + x[4],
                                           Iota(*x[0].graph(), {I64, {2}}, 0));
        }}},
  };
}

TEST(GradientTest, AgreesWithFiniteDifferencesForEveryDifferentiableRow) {
  std::set<std::string> covered;
  for (const auto& [name, function] : Functions()) {
    SCOPED_TRACE(name);
    covered.merge(ExpectGradientIsRight(function));
  }
  for (const OpRow* row : AllOps()) {
    // Those of manual regions run on several devices: tests/programs/manual_test.cc. What stop_gradient stops
    // has a slope.
    if (row->grad == nullptr || row->kind == OpKind::kDevice || row->name == "stop_gradient") continue;
    for (const std::string_view text : row->samples) {
      const std::optional<Function> function = FunctionOfSample(*row, text);
      if (!function) continue;
      SCOPED_TRACE(fmt::format("{} {}", row->name, text));
      covered.merge(ExpectGradientIsRight(*function));
    }
    EXPECT_TRUE(covered.contains(std::string(row->name)))
        << row->name << " has a gradient and no function here";
  }
}

// A row without a word on its slope would have to be refused wherever a loss goes through it.
TEST(GradientTest, EveryRowSaysWhetherItHasASlope) {
  for (const OpRow* row : AllOps()) {
    if (row->kind != OpKind::kCompute && row->kind != OpKind::kIdentity) continue;
    for (const std::string_view text : row->samples) {
      const Sample sample = ParseSample(*row, text).value();
      const auto is_real = [](const Type& type) { return IsFloat(type.dtype); };
      if (std::any_of(sample.operands.begin(), sample.operands.end(), is_real) &&
          std::any_of(sample.results.begin(), sample.results.end(), is_real)) {
        EXPECT_NE(row->grad, nullptr) << row->name << " " << text;
      }
    }
  }
}

// Of the rows beyond the elementwise ones (elementwise_gradient_test.cc): gradients that are ops of their own
// have gradients, too.
TEST(GradientTest, OfEveryGradientAgreesWithFiniteDifferences) {
  std::set<std::string_view> elementwise;
  for (const auto& family : {ArithmeticOps(), CompareOps(), UnaryOps(), ActivationOps()})
    for (const OpRow& row : family) elementwise.insert(row.name);
  int functions = 0;
  for (const OpRow* row : AllOps()) {
    if (!HasSlope(*row) || row->kind == OpKind::kDevice || elementwise.contains(row->name)) continue;
    // Matrices that are drawn are no definite ones; their functions are below.
    if (row->name == "cholesky" || row->name == "triangular_solve") continue;
    // Two samples do, those with the fewest elements: each is moved four times.
    std::vector<std::pair<int64_t, Sample>> samples;
    for (const std::string_view text : row->samples) {
      if (text.find("f64") == std::string_view::npos) continue;  // all become f64
      Sample sample = ParseSample(*row, text).value();
      int64_t elements = 0;
      for (const Type& type : sample.operands) elements += type.num_elements();
      samples.emplace_back(elements, std::move(sample));
    }
    std::stable_sort(samples.begin(), samples.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < std::min<size_t>(samples.size(), 2); ++i) {
      const std::optional<Function> function = FunctionOfSample(samples[i].second);
      if (!function) continue;
      SCOPED_TRACE(samples[i].second.ToString());
      ExpectGradientIsRight(GradientOf(*function));
      ++functions;
    }
  }
  EXPECT_GT(functions, 40);
}

TEST(GradientTest, OfAThirdOrderIsRight) {
  const Function attention = {{{1, 2, 1, 2}, {1, 3, 1, 2}, {1, 3, 1, 1}},
                              [](const Xs& x) { return Attention(x[0], x[1], x[2], {.causal = true}); }};
  ExpectGradientIsRight(GradientOf(GradientOf(attention)));
}

TEST(GradientTest, OfAGradientAgreesWithFiniteDifferences) {
  for (const char* name : {"mul by itself",
                           "div",
                           "exp",
                           "log",
                           "sqrt",
                           "rsqrt",
                           "tanh",
                           "matmul",
                           "matmul, both transposed",
                           "matmul of a batch with a matrix",
                           "matmul of batches that broadcast",
                           "log_softmax",
                           "reduce_mean",
                           "reduce_prod",
                           "a value used thrice",
                           "a stack that is split",
                           "cumprod",
                           "linear_recurrence",
                           "cholesky",
                           "triangular_solve",
                           "r"}) {
    SCOPED_TRACE(name);
    ExpectGradientIsRight(GradientOf(Functions().at(name)));
  }
}

// ---- What finite differences cannot see.

TEST(GradientTest, ElementsEqualToTheMaximumShareIt) {
  const Numbers x = {1, 3, 3, 0, /**/ 2, 2, 2, 2};
  EXPECT_THAT(GradientOfSum({F64, {2, 4}}, x, [](const Value& v) { return ReduceMax(v, {1}); }),
              ElementsAre(0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25));
  EXPECT_THAT(GradientOfSum({F64, {2, 4}}, x,
                            [](const Value& v) {
                              return ReduceMax(v, {0, 1}, true);
                            }),
              ElementsAre(0, 0.5, 0.5, 0, 0, 0, 0, 0));
}

TEST(GradientTest, ElementsEqualToTheMinimumShareIt) {
  EXPECT_THAT(GradientOfSum({F64, {2, 4}}, {1, 3, 3, 1, /**/ 2, 2, 2, 2},
                            [](const Value& v) { return ReduceMin(v, {1}); }),
              ElementsAre(0.5, 0, 0, 0.5, 0.25, 0.25, 0.25, 0.25));
}

TEST(GradientTest, OfAProductIsTheProductOfTheOthersAlsoAmongZeros) {
  for (const DType dtype : {F32, F64, BF16}) {
    // No zero, one, two, and negative zero.
    EXPECT_THAT(GradientOfSum({dtype, {4, 3}}, {2, -3, 4, /**/ 2, 0, 4, /**/ 0, 5, 0, /**/ -0.0, 2, 8},
                              [](const Value& v) { return ReduceProd(v, {1}); }),
                ElementsAre(-12, 8, -6, /**/ 0, 8, 0, /**/ 0, 0, 0, /**/ 16, 0, 0));
  }
  EXPECT_THAT(GradientOfSum({F64, {1}}, {0}, [](const Value& v) { return ReduceProd(v, {0}); }),
              ElementsAre(1));
}

TEST(GradientTest, TheFirstOfTwoEqualOperandsTakesIt) {
  for (const bool maximum : {true, false}) {
    Graph g{Mesh()};
    const Value a = In(g, "a", {3}), b = In(g, "b", {3});
    const std::vector<Value> grads =
        Gradients(ReduceSum(maximum ? Maximum(a, b) : Minimum(a, b), {0}), {{a, b}});
    g.Output("a", grads[0]);
    g.Output("b", grads[1]);
    const auto outputs = Interpret(g, {{"a", {1, 2, 3}}, {"b", {3, 2, 1}}}).outputs;
    EXPECT_THAT(outputs.at("a").Numbers(), ElementsAre(!maximum, 1, maximum));
    EXPECT_THAT(outputs.at("b").Numbers(), ElementsAre(maximum, 0, !maximum));
  }
}

TEST(GradientTest, OfReluIsZeroAtZero) {
  EXPECT_THAT(GradientOfSum({F64, {3}}, {-1, 0, 2}, [](const Value& v) { return Relu(v); }),
              ElementsAre(0, 0, 1));
}

TEST(GradientTest, OfBitsAsTheyAreIsThatOfTheNumber) {
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Bitcast(v, F64) * v; }),
              ElementsAre(6, 8));
  EXPECT_THAT(
      GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Bitcast(Bitcast(v, I64), F64) + v; }),
      ElementsAre(1, 1));
}

TEST(GradientTest, StopsAtStopGradientAndWholeNumbers) {
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return v * StopGradient(v); }),
              ElementsAre(3, 4));
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Cast(Cast(v, I32), F64) + v; }),
              ElementsAre(1, 1));
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Cast(Less(v, 3.5), F64); }),
              ElementsAre(0, 0));
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Cast(Argmax(v, 0), F64); }),
              ElementsAre(0, 0));
}

TEST(GradientTest, PassesThroughCastsInTheDtypeOfEach) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2}, F32);
  const Value grad = Gradients(ReduceSum(Cast(x, F64) * 0.1, {0}), {{x}})[0];
  EXPECT_EQ(grad.type(), (Type{F32, {2}}));
  g.Output("grad", grad);
  EXPECT_THAT(Interpret(g, {{"x", {1, 2}}}).outputs.at("grad").Numbers(), ElementsAre(0.1f, 0.1f));
}

TEST(GradientTest, OfWhatTheLossDoesNotDependOnIsZero) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2}), unused = In(g, "unused", {3}, F32), loss = ReduceSum(x, {0});
  const Value later = Exp(x);
  const std::vector<Value> grads = Gradients(loss, {{unused, x, loss, later}});
  for (size_t i = 0; i < grads.size(); ++i) g.Output("grad" + std::to_string(i), grads[i]);
  const auto outputs = Interpret(g, {{"x", {1, 2}}, {"unused", {1, 2, 3}}}).outputs;
  EXPECT_EQ(outputs.at("grad0"), HostTensor({F32, {3}}, {0, 0, 0}));
  EXPECT_EQ(outputs.at("grad1"), HostTensor({F64, {2}}, {1, 1}));
  EXPECT_EQ(outputs.at("grad2"), HostTensor({F64, {}}, {1}));
  EXPECT_EQ(outputs.at("grad3"), HostTensor({F64, {2}}, {0, 0}));
}

TEST(GradientTest, OfAValueInTheMiddleStopsThere) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2}), h = x * x;
  g.Output("grad", Gradients(ReduceSum(h * h, {0}), {{h}})[0]);
  EXPECT_THAT(Interpret(g, {{"x", {1, 3}}}).outputs.at("grad").Numbers(), ElementsAre(2, 18));
}

TEST(GradientTest, MayBeGatheredWhereTheForwardOpMayGather) {
  Graph g(Mesh::Parse("x=2").value());
  const Value x = g.Input("x", F64, {4, 6}, {"x", UNSHARDED});
  const Value a = AllowGather(Tanh(x)), b = Reverse(a, {0});
  const Value c = Exp(b);
  const std::vector<Value> grads = Gradients(ReduceSum(c, {0, 1}), {{x, a, b, c}});
  std::vector<Gathering> found;
  for (const Value& grad : grads) found.push_back(g.value(grad.id()).gather);
  EXPECT_THAT(found, ElementsAre(Gathering::kAllowed, Gathering::kAllowed, Gathering::kAllowed,
                                 Gathering::kWithinBudget));
}

TEST(GradientTest, NodesStandWhereTheForwardOpStands) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2, 2});
  const Value h = MatMul(x, x);
  const int product = __LINE__ - 1;
  const Value loss = ReduceSum(Exp(h), {0, 1});
  const int rest = __LINE__ - 1;
  const size_t forward = g.nodes().size();
  Gradients(loss, {{x}});
  const int call = __LINE__ - 1;
  std::map<std::string, std::set<int>> lines;
  for (size_t i = forward; i < g.nodes().size(); ++i)
    lines[std::string(g.nodes()[i].row->name)].insert(g.nodes()[i].location.line);
  const std::map<std::string, std::set<int>> expected = {{"constant", {call}},
                                                         {"broadcast_to", {rest}},
                                                         {"mul", {rest}},
                                                         {"matmul", {product}},
                                                         {"add", {product}}};
  EXPECT_EQ(lines, expected);
}

// ---- Values of the composites.

Numbers ValueOf(const Value& y, const Feeds& feeds) {
  y.graph()->Output("y", y);
  return Interpret(*y.graph(), feeds).outputs.at("y").Numbers();
}

TEST(CompositesTest, AttentionWithAMaskSeesWhatItIsToldTo) {
  Numbers numbers;
  for (int i = 0; i < 12; ++i) numbers.push_back(std::sin(i));
  const auto attend = [&](bool masked) {
    Graph g{Mesh()};
    const Value q = In(g, "q", {2, 3, 1, 2});
    const Value seen = Iota(g, {I32, {2, 3}}, 1) + 1.0;
    const Value all = Constant(g, 1, {BOOL, {1, 1, 1, 1}});
    return ValueOf(Attention(q, q, q, {.mask = masked ? all : Value(), .seen = seen}), {{"q", numbers}});
  };
  EXPECT_THAT(attend(true), Pointwise(DoubleNear(1e-12), attend(false)));
}

// x - log(sum(exp(x))) of each row, in extended precision without a shift.
Numbers PlainLogSoftmax(const Numbers& x, size_t columns) {
  Numbers y;
  for (size_t i = 0; i < x.size(); ++i) {
    long double sum = 0;
    for (size_t j = 0; j < columns; ++j)
      sum += std::exp(static_cast<long double>(x[i / columns * columns + j]));
    y.push_back(static_cast<double>(x[i] - std::log(sum)));
  }
  return y;
}

TEST(CompositeTest, LogSoftmaxIsTheLogarithmOfTheShares) {
  const Numbers x = {0.5, -1, 2, 3, 3, 3, -7, 0, 11, 0.25, 0.125, -0.5};
  Graph g{Mesh()};
  EXPECT_THAT(ValueOf(LogSoftmax(In(g, "x", {2, 2, 3})), {{"x", x}}),
              Pointwise(DoubleNear(1e-14), PlainLogSoftmax(x, 3)));
}

TEST(CompositeTest, LogSoftmaxOfLargeLogitsIsFinite) {
  Graph g{Mesh()};
  EXPECT_THAT(ValueOf(LogSoftmax(In(g, "x", {3}, F32)), {{"x", {1000, 999, -1000}}}),
              Pointwise(DoubleNear(1e-4), Numbers{-0.313262, -1.313262, -2000.313262}));
}

TEST(CompositeTest, CrossEntropyIsTheMeanSurprise) {
  Graph g{Mesh()};
  const Value loss = SparseSoftmaxCrossEntropy(In(g, "x", {2, 3}), In(g, "labels", {2}, I64));
  // -log(e^3 / (e + e^2 + e^3)) and log(3).
  EXPECT_THAT(ValueOf(loss, {{"x", {1, 2, 3, 1, 1, 1}}, {"labels", {2, 0}}}),
              ElementsAre(DoubleNear((0.40760596444438 + 1.09861228866811) / 2, 1e-13)));
}

TEST(CompositeTest, AccuracyIsTheShareOfRowsThatAreRight) {
  for (DType labels : {I32, I64}) {
    Graph g{Mesh()};
    const Value accuracy = Accuracy(In(g, "x", {4, 3}, F32), In(g, "labels", {4}, labels), F64);
    EXPECT_EQ(accuracy.type(), (Type{F64, {}}));
    const Numbers x = {0,       1,  2,  /**/ 5, 5, 1,
                       /**/ -1, -2, -3, /**/ 0, 9, 0};  // argmax 2 0 0 1: ties to the lowest
    EXPECT_THAT(ValueOf(accuracy, {{"x", x}, {"labels", {2, 0, 1, 1}}}), ElementsAre(0.75));
  }
}

}  // namespace
}  // namespace meshwork
