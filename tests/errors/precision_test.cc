// What is refused of dtypes that only store numbers, of the precision of layers, and of loss scales.
#include <cmath>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::precision_test {
namespace {

Value Parabola(Graph& g) { return ReduceSum(Square(g.Var("w", Filled(1, {3}), {UNSHARDED})), {0}); }

TEST(PrecisionErrors, StorageTypes) {
  auto input = [](Graph& g, DType dtype, const Shape& shape = {4, 6}) {
    return g.Input("x", dtype, shape, LayoutSpec(shape.size(), UNSHARDED));
  };
  ExpectErrors("storage_types", {
    GRAPH_MISTAKE(input(g, U8) / 255.0), GRAPH_MISTAKE(Exp(input(g, F16))),
        GRAPH_MISTAKE(ReduceSum(input(g, I8), {0})),
        GRAPH_MISTAKE(MatMul(input(g, F16), g.Var("w", Zeros({6, 3}, F16), {UNSHARDED, UNSHARDED}))),
        GRAPH_MISTAKE(Less(input(g, U8), 128)), GRAPH_MISTAKE(Dense(g, "dense", 6, 3)(input(g, U8))),
        GRAPH_MISTAKE(SparseSoftmaxCrossEntropy(g.Input("logits", F32, {4, 6}, {UNSHARDED, UNSHARDED}),
                                                input(g, U8, {4}))),
        GRAPH_MISTAKE(Iota(g, {U8, {4}}, 0)),
        GRAPH_MISTAKE(g.Var("w", GlorotUniform({4, 6}, F16), {UNSHARDED, UNSHARDED});
                      g.RecordError(std::string(MessageOf(Session::Create(g).status())))),
        GRAPH_MISTAKE(OneHot(g.Input("i", I32, {4}, {UNSHARDED}), 6, U8)),
        GRAPH_MISTAKE(Constant(g, 256, {U8, {}})), GRAPH_MISTAKE(Constant(g, -1, {U8, {}})),
        GRAPH_MISTAKE(Constant(g, 128, {I8, {}})), GRAPH_MISTAKE(DimensionSize(input(g, U8), {0}, U8)),
        GRAPH_MISTAKE(Concat({input(g, U8), g.Input("y", F32, {4, 6}, {UNSHARDED, UNSHARDED})}, 0)),
        GRAPH_MISTAKE(const Value x = input(g, F16); Gradients(ReduceSum(Cast(x, F32), {0, 1}), {x})),
        MISTAKE(Tensor::Zeros({U8, {2}}).TryValues<int8_t>().status()),
  });
}

TEST(PrecisionErrors, Precision) {
  ExpectErrors("precision",
               {
                   GRAPH_MISTAKE(g.SetPrecision({.compute = I32})),
                   GRAPH_MISTAKE(g.SetPrecision({.compute = F16})),
                   GRAPH_MISTAKE(g.SetPrecision({.compute = BF16, .variables = U8})),
                   GRAPH_MISTAKE(Dense(g, "dense", 6, 3)(g.Input("x", BF16, {4, 6}, {UNSHARDED, UNSHARDED}))),
               });
}

TEST(PrecisionErrors, LossScales) {
  ExpectErrors(
      "loss_scale",
      {
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale{.initial = 0}}).Minimize(Parabola(g))),
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale{.initial = HUGE_VAL}}).Minimize(Parabola(g))),
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale{.growth_steps = -1}}).Minimize(Parabola(g))),
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale{.growth = 1}}).Minimize(Parabola(g))),
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale{.growth = NAN}}).Minimize(Parabola(g))),
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale{.backoff = 0}}).Minimize(Parabola(g))),
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale{.backoff = 2}}).Minimize(Parabola(g))),
          GRAPH_MISTAKE(Sgd({.loss_scale = LossScale()}).ApplyGradients(VariableGradients(Parabola(g)))),
      });
}

}  // namespace
}  // namespace meshwork::precision_test
