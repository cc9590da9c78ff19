// Gradients of all rows, and gradients of gradients, against central finite differences in double precision.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/ops.h"
#include "meshwork/ops/update_rows.h"
#include "ops/gradient_check.h"
#include "support/long_tests.h"
#include "support/sample.h"

namespace meshwork::gradient_test {
namespace {

// By name: forms of broadcast and attributes beyond the rows' samples, and functions that samples cannot express.
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
      {"adagrad_update",
       {{{3}, {3}, {3}},
        [](const Xs& x) {
          const AdagradResult r = AdagradUpdate(x[0], x[1], x[2], 0.1, 1e-3);
          return Concat({r.weight, r.accumulator}, 0);
        },
        0.1,
        1}},
      // The gradients 0, 0, 0.5 and the accumulators 0, 0.25, 0.25.
      {"adagrad_update where the gradient and the accumulator are 0",
       {{{3}, {3}, {3}},
        [](const Xs& x) {
          Graph& g = *x[0].graph();
          const Value gradient = x[1] + Constant(g, {0, 0, 0.5}, {F64, {3}});
          const Value accumulator = x[2] + Constant(g, {0, 0.25, 0.25}, {F64, {3}});
          const AdagradResult r = AdagradUpdate(x[0], gradient, accumulator, 0.1, 0.5);
          return Concat({r.weight, r.accumulator}, 0);
        },
        0,
        0}},
      // As above. A lazy update jumps where the gradient is 0, so finite differences by the gradient are not defined.
      {"adam_update, lazy, where the gradient and the second moment are 0",
       {{{3}, {3}, {3}},
        [](const Xs& x) {
          Graph& g = *x[0].graph();
          const AdamOperands operands = {.weight = x[0] + 1.0,
                                         .gradient = Constant(g, {0, 0, 0.5}, {F64, {3}}),
                                         .first_moment = x[1] + 1.0,
                                         .second_moment = x[2] + Constant(g, {0, 0.25, 0.25}, {F64, {3}}),
                                         .step = Constant(g, 3, {I64, {}}),
                                         .learning_rate = 0.1};
          const AdamResult r = LazyAdamUpdate(operands, {0.9, 0.99, 1e-3, 0.5});
          return Concat({r.weight, r.first_moment, r.second_moment}, 0);
        },
        0,
        0}},
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
      // Rows of two results, and attributes that samples do not have.
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
      // Their second result is a position, which has no slope.
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
      {"dropout",
       {{{3, 4}}, [](const Xs& x) { return StatelessDropout(x[0], 0.3, /*seed=*/5, /*stream=*/1); }}},
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
    // Manual regions need several devices: tests/programs/manual_test.cc. The operand of stop_gradient has a
    // slope by differences; custom_gradient_test.cc has functions whose gradient is part of the program.
    if (row->grad == nullptr || row->kind == OpKind::kDevice || row->name == "stop_gradient" ||
        row->name == "custom_gradient")
      continue;
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

// A row that does not say whether it has a slope would have to be refused wherever a loss depends on it.
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

// Rows except the elementwise ones (elementwise_gradient_test.cc): gradients that are ops of their own have
// right gradients, too.
TEST(GradientTest, OfEveryGradientAgreesWithFiniteDifferences) {
  std::set<std::string_view> elementwise;
  for (const auto& family : {ArithmeticOps(), CompareOps(), UnaryOps(), ActivationOps()})
    for (const OpRow& row : family) elementwise.insert(row.name);
  int functions = 0;
  for (const OpRow* row : AllOps()) {
    if (!HasSlope(*row) || row->kind == OpKind::kDevice || elementwise.contains(row->name)) continue;
    if (row->name == "custom_gradient") continue;  // custom_gradient_test.cc
    // Drawn matrices are not positive definite; the functions of these rows are in Functions().
    if (row->name == "cholesky" || row->name == "triangular_solve") continue;
    // One sample, the one with the fewest elements, or two with MESHWORK_LONG_TESTS=1: each is moved four times.
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
    for (size_t i = 0; i < std::min<size_t>(samples.size(), LongTests() ? 2 : 1); ++i) {
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

}  // namespace
}  // namespace meshwork::gradient_test
