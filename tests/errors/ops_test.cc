// Mistakes that ops and composites refuse. Most mistakes are one line, whose number the message must have.
#include "meshwork/ops/ops.h"

#include <cmath>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/update_rows.h"

namespace meshwork::ops_test {
namespace {

TEST(OpErrors, Elementwise) {
  ExpectErrors("ops_elementwise",
               {
                   GRAPH_MISTAKE(Exp(In(g, I32, {4}))),
                   GRAPH_MISTAKE(Relu(In(g, BOOL, {4}))),
                   GRAPH_MISTAKE(In(g, BOOL, {4}) + In(g, BOOL, {4})),
                   GRAPH_MISTAKE(Neg(In(g, BOOL, {}))),
                   GRAPH_MISTAKE(In(g, F32, {4}) * In(g, F64, {4})),
                   GRAPH_MISTAKE(Less(In(g, I32, {4}), In(g, I64, {4}))),
                   GRAPH_MISTAKE(In(g, F32, {4, 6}) - In(g, F32, {4})),
                   GRAPH_MISTAKE(In(g, F32, {2, 1, 3}) / In(g, F32, {4, 5, 3})),
                   GRAPH_MISTAKE(Maximum(In(g, F32, {0}), In(g, F32, {3}))),
                   GRAPH_MISTAKE(Add(In(g, F32, {1 << 20, 1}), In(g, F32, {1, 1 << 21}))),
                   GRAPH_MISTAKE(Select(In(g, F32, {4}), In(g, F32, {4}), 0.0)),
                   GRAPH_MISTAKE(Select(In(g, BOOL, {4}), In(g, F32, {4}), In(g, F64, {4}))),
                   GRAPH_MISTAKE(Select(In(g, BOOL, {4}), In(g, F32, {3}), 0.0)),
                   GRAPH_MISTAKE(Select(In(g, BOOL, {4}), 1.0, 0.0)),
                   GRAPH_MISTAKE(In(g, F32, {4}) & In(g, F32, {4})),
                   GRAPH_MISTAKE(~In(g, F64, {4})),
                   GRAPH_MISTAKE(In(g, BOOL, {4}) | In(g, I32, {4})),
                   GRAPH_MISTAKE(ShiftLeft(In(g, BOOL, {4}), In(g, BOOL, {4}))),
                   GRAPH_MISTAKE(IsNan(In(g, I32, {4}))),
                   GRAPH_MISTAKE(Atan2(In(g, I32, {4}), In(g, I32, {4}))),
                   GRAPH_MISTAKE(In(g, BOOL, {4}) % In(g, BOOL, {4})),
                   GRAPH_MISTAKE(Clip(In(g, F32, {4}), 2, 1)),
                   GRAPH_MISTAKE(Clip(In(g, F32, {4}), 0, std::nan(""))),
                   GRAPH_MISTAKE(Clip(In(g, I32, {4}), 0.5, 1)),
                   GRAPH_MISTAKE(Clip(In(g, BOOL, {4}), 0, 1)),
                   GRAPH_MISTAKE(LeakyRelu(In(g, F32, {4}), INFINITY)),
                   GRAPH_MISTAKE(Elu(In(g, I64, {4}))),
                   GRAPH_MISTAKE(Gelu(In(g, I64, {4}))),
                   GRAPH_MISTAKE(In(g, I32, {4}) * 0.5),
               });
}

const WindowPadding kNegative = WindowPadding::Explicit({-9}, {0});  // of 5 elements

TEST(OpErrors, Convolution) {
  const auto slides = [](WindowOptions window, int64_t groups = 1) {
    return ConvOptions{std::move(window), groups};
  };
  ExpectErrors(
      "ops_convolution",
      {
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 5, 3}), In(g, F64, {3, 3, 3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, I32, {2, 5, 3}), In(g, I32, {3, 3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 3, 28, 28}), In(g, F32, {3, 3, 3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 5, 3}), In(g, F32, {3, 3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {5, 3}), In(g, F32, {3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {1, 2, 2, 2, 2, 3}), In(g, F32, {1, 1, 1, 1, 3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 5, 3}), In(g, F32, {3, 7, 3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 3}), In(g, F32, {3, 3, 4}), slides({.dilation = {3}}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 3}), In(g, F32, {0, 3, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 5, 3}), In(g, F32, {3, 3, 2, 4}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 5, 3}), In(g, F32, {3, 3, 3, 4}), slides({.strides = {2}}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 3}), In(g, F32, {3, 3, 4}), slides({.strides = {0}}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 3}), In(g, F32, {3, 3, 4}), slides({.dilation = {0}}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 3}), In(g, F32, {3, 3, 4}), slides({.padding = kNegative}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 3}), In(g, F32, {3, 3, 4}),
                             slides({.strides = {0}, .padding = WindowPadding::Same()}))),
          GRAPH_MISTAKE(ConvTranspose(In(g, F32, {2, 5, 5, 3}), In(g, F32, {3, 3, 2, 3}),
                                      slides({.padding = WindowPadding::Explicit({1, 1}, {1})}))),
          GRAPH_MISTAKE(ConvTranspose(In(g, F32, {2, 5, 4}), In(g, F32, {3, 3, 4}),
                                      slides({.padding = WindowPadding::Explicit({0}, {INT64_MIN})}))),
          GRAPH_MISTAKE(ConvTranspose(In(g, F32, {1, int64_t{1} << 31, 1}), In(g, F32, {2, 1, 1}),
                                      slides({.strides = {int64_t{1} << 30}}))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 6}), In(g, F32, {3, 3, 4}), slides({}, 0))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 6}), In(g, F32, {3, 3, 5}), slides({}, 2))),
          GRAPH_MISTAKE(Conv(In(g, F32, {2, 5, 6}), In(g, F32, {3, 2, 4}), slides({}, 2))),
          GRAPH_MISTAKE(ConvTranspose(In(g, F32, {2, 5, 3}), In(g, F32, {3, 4, 2}))),
          GRAPH_MISTAKE(
              ConvTranspose(In(g, F32, {2, 5, 3}), In(g, F32, {3, 4, 3}), slides({.strides = {0}}))),
          GRAPH_MISTAKE(ConvTranspose(In(g, F32, {2, 1, 3}), In(g, F32, {2, 4, 3}),
                                      slides({.padding = WindowPadding::Explicit({2}, {2})}))),
          GRAPH_MISTAKE(ConvTranspose(In(g, F32, {5}), In(g, F32, {3}))),
          GRAPH_MISTAKE(MaxPool(In(g, I32, {2, 5, 3}), {2})),
          GRAPH_MISTAKE(MaxPool(In(g, F32, {2, 5, 3}), {})),
          GRAPH_MISTAKE(MaxPool(In(g, F32, {2, 5, 3}), {2, 2})),
          GRAPH_MISTAKE(MaxPool(In(g, F32, {2, 5, 3}), {0})),
          GRAPH_MISTAKE(MaxPool(In(g, F32, {2, 5, 3}), {6})),
          GRAPH_MISTAKE(AvgPool(In(g, F32, {2, 5, 3}), {2}, {.strides = {0}})),
          GRAPH_MISTAKE(AvgPool(In(g, F32, {2, 3}), {2})),
          GRAPH_MISTAKE(Resize(In(g, F32, {2, 5, 3}), {4, 4}, ResizeForm::kNearest)),
          GRAPH_MISTAKE(Resize(In(g, I32, {2, 5, 3}), {4}, ResizeForm::kBilinear)),
          GRAPH_MISTAKE(Resize(In(g, F32, {2, 5, 3}), {0}, ResizeForm::kBilinear)),
          GRAPH_MISTAKE(Upsample(In(g, F32, {2, 5, 3}), {0})),
          GRAPH_MISTAKE(Upsample(In(g, F32, {2, 3}), {2})),
          GRAPH_MISTAKE(Flatten(In(g, F32, {2, 5, 3}), 3)),
          GRAPH_MISTAKE(BatchNorm(In(g, F32, {2, 5, 3}), In(g, F32, {3}), In(g, F32, {5}))),
          GRAPH_MISTAKE(BatchNorm(In(g, F32, {2, 5, 3}), In(g, F32, {3}), In(g, F32, {3}), -1)),
          GRAPH_MISTAKE(BatchNormInference(In(g, F32, {2, 3}), In(g, F32, {3}), In(g, F32, {3}),
                                           In(g, F32, {3}), In(g, F64, {3}))),
          GRAPH_MISTAKE(MovingAverage(In(g, F32, {3}), In(g, F32, {3}), 1)),
          GRAPH_MISTAKE(GroupNorm(In(g, F32, {2, 5, 6}), In(g, F32, {6}), In(g, F32, {6}), 4)),
          GRAPH_MISTAKE(GroupNorm(In(g, F32, {2, 6}), In(g, F32, {6}), In(g, F32, {6}), 2)),
      });
}

TEST(OpErrors, Shapes) {
  ExpectErrors("ops_shapes",
               {
                   GRAPH_MISTAKE(BroadcastTo(In(g, F32, {6}), {4, 6}, {0, 1})),
                   GRAPH_MISTAKE(BroadcastTo(In(g, F32, {6}), {4, 6}, {2})),
                   GRAPH_MISTAKE(BroadcastTo(In(g, F32, {1}), {}, {0})),
                   GRAPH_MISTAKE(BroadcastTo(In(g, F32, {4, 6}), {6, 4}, {1, 0})),
                   GRAPH_MISTAKE(BroadcastTo(In(g, F32, {6}), {4, 6}, {0})),
                   GRAPH_MISTAKE(BroadcastTo(In(g, F32, {}), {-4}, {})),
                   GRAPH_MISTAKE(Reshape(In(g, F32, {4, 6}), {5, 5})),
                   GRAPH_MISTAKE(Reshape(In(g, F32, {0}), {int64_t{1} << 40, int64_t{1} << 40})),
                   GRAPH_MISTAKE(Reshape(In(g, F32, {1}), Shape(27, 1))),
                   GRAPH_MISTAKE(Reshape(In(g, F32, {4, 6}), {-1, 5})),
                   GRAPH_MISTAKE(Reshape(In(g, F32, {4, 6}), {-1, -1, 2})),
                   GRAPH_MISTAKE(ExpandDims(In(g, F32, {4, 6}), ALL_DIMS)),
                   GRAPH_MISTAKE(ExpandDims(In(g, F32, {4, 6}), -4)),
                   GRAPH_MISTAKE(In(g, F32, {4, 6})[-5]),
                   GRAPH_MISTAKE(In(g, F32, {0, 6})[0]),
                   GRAPH_MISTAKE(In(g, F32, {})[0]),
                   GRAPH_MISTAKE(Transpose(In(g, F32, {4, 6}), {0, 0})),
                   GRAPH_MISTAKE(Transpose(In(g, F32, {4, 6}), {1})),
                   GRAPH_MISTAKE(Relayout(In(g, F32, {4, 6}), {"batch"})),
                   GRAPH_MISTAKE(Relayout(In(g, F32, {4, 6}), {"bach", UNSHARDED})),
                   GRAPH_MISTAKE(DimensionSize(In(g, F32, {4, 6}), {-3}, F32)),
                   GRAPH_MISTAKE(DimensionSize(In(g, F32, {4, 6}), {1, 1}, F32)),
                   GRAPH_MISTAKE(Squeeze(In(g, F32, {4, 6}), {1})),
                   GRAPH_MISTAKE(Squeeze(In(g, F32, {4, 6}), {-1})),
                   GRAPH_MISTAKE(Squeeze(In(g, F32, {1, 1}), {1, -1})),
                   GRAPH_MISTAKE(ExpandDims(In(g, F32, {4, 6}), {0, 4})),
                   GRAPH_MISTAKE(ExpandDims(In(g, F32, {4, 6}), {0, 0})),
                   GRAPH_MISTAKE(Relayout(In(g, F32, {5}), {DimSpec::Factors({{4, {"batch"}}, {2}})})),
               });
}

TEST(OpErrors, SlicesAndLookups) {
  ExpectErrors("ops_slices",
               {
                   GRAPH_MISTAKE(Slice(In(g, F32, {4, 6}), {0}, {4, 6})),
                   GRAPH_MISTAKE(Slice(In(g, F32, {4, 6}), {0, 0}, {4, 6, 1})),
                   GRAPH_MISTAKE(Slice(In(g, F32, {4, 6}), {0, 0}, {4, 6}, {1})),
                   GRAPH_MISTAKE(Slice(In(g, F32, {4, 6}), {0, 2}, {4, 9})),
                   GRAPH_MISTAKE(SliceDim(In(g, F32, {4, 6}), 0, 3, 2, 2)),
                   GRAPH_MISTAKE(SliceDim(In(g, F32, {4, 6}), 0, -1, 2)),
                   GRAPH_MISTAKE(SliceDim(In(g, F32, {4, 6}), 0, 0, 2, 0)),
                   GRAPH_MISTAKE(SliceDim(In(g, F32, {4, 6}), 2, 0, 1)),
                   GRAPH_MISTAKE(SliceDim(In(g, F32, {4, 6}), 0, INT64_MIN, INT64_MAX, 2)),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4, 6}), {1}, {0, 0})),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4, 6}), {1, 1}, {})),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4, 6}), {0, 0}, {0, 0}, 0, {1})),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4, 6}), {0, 0}, {0, 0}, 0, {-1, 0})),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4, 6}), {0, -4}, {0, -3})),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4, 6}), {0, int64_t{1} << 62}, {0, int64_t{1} << 62})),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4}), {INT64_MIN}, {INT64_MIN})),
                   GRAPH_MISTAKE(Pad(In(g, F32, {4}), {0}, {0}, 0, {INT64_MAX})),
                   GRAPH_MISTAKE(Pad(In(g, I32, {3}), {1}, {0}, 0.5)),
                   GRAPH_MISTAKE(Concat({In(g, F32, {4, 6}), In(g, F32, {6, 4})}, 0)),
                   GRAPH_MISTAKE(Concat({In(g, F32, {4, 6}), In(g, F32, {24})}, 1)),
                   GRAPH_MISTAKE(Concat({In(g, F32, {4, 6}), In(g, I32, {3})}, 0)),
                   GRAPH_MISTAKE(Concat({In(g, F32, {4, 6})}, 2)),
                   GRAPH_MISTAKE(Concat({In(g, F32, {})}, 0)),
                   GRAPH_MISTAKE(g.Output("y", Concat({}, 0))),
                   GRAPH_MISTAKE(Stack({In(g, F32, {4})}, 3)),
                   GRAPH_MISTAKE(Reverse(In(g, F32, {4, 6}), {2})),
                   GRAPH_MISTAKE(Reverse(In(g, F32, {4, 6}), {1, 1})),
                   GRAPH_MISTAKE(Roll(In(g, F32, {4, 6}), 1, 2)),
                   GRAPH_MISTAKE(Roll(In(g, F32, {4, 6}), int64_t{1} << 41, 1)),
                   GRAPH_MISTAKE(Split(In(g, F32, {4, 6}), 4, 1)),
                   GRAPH_MISTAKE(Split(In(g, F32, {4, 6}), 2, -3)),
                   GRAPH_MISTAKE(Split(In(g, F32, {4, 6}), 0, 1)),
                   GRAPH_MISTAKE(Split(In(g, F32, {0}), int64_t{1} << 62, 0)),
                   GRAPH_MISTAKE(SplitSizes(In(g, F32, {4, 6}), {INT64_MAX, INT64_MAX, 8}, 1)),
                   GRAPH_MISTAKE(SplitSizes(In(g, F32, {4, 6}), {7, -1}, 1)),
                   GRAPH_MISTAKE(SplitSizes(In(g, F32, {4, 6}), {1, 2}, 2)),
                   GRAPH_MISTAKE(Gather(In(g, F32, {4, 6}), In(g, F32, {3}), 0)),
                   GRAPH_MISTAKE(Gather(In(g, F32, {4, 6}), In(g, I32, {3}), 2)),
                   GRAPH_MISTAKE(Gather(In(g, F32, {0, 6}), In(g, I32, {3}), 0)),
                   GRAPH_MISTAKE(ScatterAdd(In(g, F32, {4, 6}), In(g, I32, {3}), {7, 6}, 0)),
                   GRAPH_MISTAKE(ScatterAdd(In(g, BOOL, {3, 6}), In(g, I32, {3}), {7, 6}, 0)),
                   GRAPH_MISTAKE(ScatterAdd(In(g, F32, {3, 6}), In(g, I32, {3}), {7, -6}, 0)),
               });
}

TEST(OpErrors, ReductionsAndProducts) {
  ExpectErrors("ops_reductions",
               {
                   GRAPH_MISTAKE(ReduceSum(In(g, BOOL, {4}), {0})),
                   GRAPH_MISTAKE(ReduceSum(In(g, F32, {4}), {1})),
                   GRAPH_MISTAKE(ReduceMax(In(g, F32, {4, 6}), {1, 0, 1})),
                   GRAPH_MISTAKE(ReduceMean(In(g, I32, {4}), {0})),
                   GRAPH_MISTAKE(ReduceMean(In(g, F32, {}), {0})),
                   GRAPH_MISTAKE(Argmax(In(g, BOOL, {4}), 0)),
                   GRAPH_MISTAKE(Argmax(In(g, F32, {4}), -3)),
                   GRAPH_MISTAKE(Argmax(In(g, F32, {4, 0}), 1)),
                   GRAPH_MISTAKE(Argmin(In(g, F32, {(int64_t{1} << 31) + 1}), 0)),
                   GRAPH_MISTAKE(ReduceProd(In(g, BOOL, {4}), {0})),
                   GRAPH_MISTAKE(ReduceAll(In(g, I32, {4}), {0})),
                   GRAPH_MISTAKE(ReduceAny(In(g, BOOL, {4}), {1})),
                   GRAPH_MISTAKE(MatMul(In(g, F32, {4, 6}), In(g, F32, {6}))),
                   GRAPH_MISTAKE(MatMul(In(g, F32, {}), In(g, F32, {6, 2}))),
                   GRAPH_MISTAKE(MatMul(In(g, F32, {2, 4, 6}), In(g, F32, {3, 6, 8}))),
                   GRAPH_MISTAKE(MatMul(In(g, F32, {4, 6}), In(g, F64, {6, 8}))),
                   GRAPH_MISTAKE(MatMul(In(g, I32, {4, 6}), In(g, I32, {6, 8}))),
                   GRAPH_MISTAKE(MatMul(In(g, F32, {128, 784}), In(g, F32, {512, 700}))),
                   GRAPH_MISTAKE(MatMul(In(g, F32, {4, 6}), In(g, F32, {6, 8}), true, true)),
                   GRAPH_MISTAKE(MatMul(In(g, F32, {4, 6}), In(g, F32, {6, 8}), false, true)),
                   GRAPH_MISTAKE(g.Add("matmul", {{In(g, F32, {2, 4, 6}), In(g, F32, {6, 8})}},
                                       {{"sum_batch", true}}, {})),
               });
}

TEST(OpErrors, Einsum) {
  ExpectErrors("ops_einsum",
               {
                   GRAPH_MISTAKE(Einsum("ij,j%->i", {In(g, F32, {4, 6}), In(g, F32, {6, 2})})),
                   GRAPH_MISTAKE(Einsum("i..j->ij", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("i->j->i", {In(g, F32, {4})})),
                   GRAPH_MISTAKE(Einsum("...i...->i", {In(g, F32, {4})})),
                   GRAPH_MISTAKE(Einsum("ij,jk->ik", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("ij->ij", {In(g, F32, {4, 6}), In(g, F32, {6, 2})})),
                   GRAPH_MISTAKE(Einsum("ij,jkl->ik", {In(g, F32, {4, 6}), In(g, F32, {6, 2})})),
                   GRAPH_MISTAKE(Einsum("i->i", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("ij,jk->ik", {In(g, F32, {4, 6}), In(g, F32, {5, 2})})),
                   GRAPH_MISTAKE(Einsum("ii->i", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("...i,...i", {In(g, F32, {4, 6}), In(g, F32, {3, 6})})),
                   GRAPH_MISTAKE(Einsum("ij->iz", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("ij->iji", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("ij->...", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("...j->j", {In(g, F32, {4, 6})})),
                   GRAPH_MISTAKE(Einsum("ij,jk", {In(g, F32, {4, 6}), In(g, F64, {6, 2})})),
                   GRAPH_MISTAKE(Einsum("ij->i", {In(g, I32, {4, 6})})),
               });
}

TEST(OpErrors, Transformers) {
  auto attend = [](Graph& g, const Shape& q, const Shape& k, const Shape& v,
                   const AttentionOptions& options = {}, CallSite loc = CallSite::Current()) {
    Attention({In(g, F32, q), loc}, In(g, F32, k), In(g, F32, v), options);
  };
  const Shape x = {2, 3, 4, 5};
  ExpectErrors(
      "ops_transformers",
      {
          GRAPH_MISTAKE(attend(g, {2, 3, 20}, {2, 3, 20}, {2, 3, 20})),
          GRAPH_MISTAKE(attend(g, x, {2, 3, 4, 6}, x)),
          GRAPH_MISTAKE(attend(g, x, {2, 6, 4, 5}, x)),
          GRAPH_MISTAKE(attend(g, x, x, x, {.scale = INFINITY})),
          GRAPH_MISTAKE(Attention(In(g, I32, x), In(g, I32, x), In(g, I32, x))),
          GRAPH_MISTAKE(attend(g, {2, 3, 6, 5}, x, x)),
          GRAPH_MISTAKE(g.Add("attention", {{In(g, F32, {2, 3, 8, 5}), In(g, F32, x), In(g, F32, x)}},
                              {{"scale", 1.0}}, {})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.window = 2})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.causal = true, .window = -2})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.soft_cap = -1})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.mask = In(g, F32, {3, 3})})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.mask = In(g, BOOL, {2, 3, 3})})),
          GRAPH_MISTAKE(attend(g, x, x, {2, 3, 5}, {.mask = In(g, BOOL, {3, 3})})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.seen = In(g, I32, {2, 4})})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.seen = In(g, I64, {2, 3})})),
          GRAPH_MISTAKE(attend(g, x, x, x, {.mask = In(g, BOOL, {3, 3}), .seen = In(g, I32, {3})})),
          GRAPH_MISTAKE(g.Add(
              "attention_grad_q",
              {{In(g, F32, x), In(g, F32, x), In(g, F32, x), In(g, F32, x), In(g, F32, x), In(g, F32, x)}},
              {{"scale", 1.0}}, {})),
          GRAPH_MISTAKE(RotaryPositions(In(g, F32, {3, 4}))),
          GRAPH_MISTAKE(RotaryPositions(In(g, F32, x))),
          GRAPH_MISTAKE(RotaryPositions(In(g, F32, {2, 3, 4, 6}), {.base = 0})),
          GRAPH_MISTAKE(RotaryPositions(In(g, F32, {2, 3, 4, 6}), {.dims = 8})),
          GRAPH_MISTAKE(RotaryPositions(In(g, F32, {2, 3, 4, 6}), {.positions = In(g, I32, {2})})),
          GRAPH_MISTAKE(RotaryPositions(In(g, F32, {2, 3, 4, 6}), {.positions = In(g, F32, {2, 3})})),
          GRAPH_MISTAKE(RotaryPositions(In(g, F32, {2, 3, 4, 6}),
                                        {.scaling = {.form = RotaryScaling::Form::kLinear, .factor = 0}})),
          GRAPH_MISTAKE(RotaryPositions(
              In(g, F32, {2, 3, 4, 6}),
              {.scaling = {.form = RotaryScaling::Form::kLlama3, .factor = 8, .low_turns = 4}})),
          GRAPH_MISTAKE(RotaryPositions(
              In(g, F32, {2, 3, 4, 6}),
              {.scaling = {.form = RotaryScaling::Form::kLlama3, .factor = 8, .original_positions = 0}})),
          GRAPH_MISTAKE(RouteToExperts(In(g, F32, {2, 3}), {})),
          GRAPH_MISTAKE(RouteToExperts(In(g, I32, {2, 3, 4}), {})),
          GRAPH_MISTAKE(RouteToExperts(In(g, F32, {2, 3, 4}), {.choices = 3})),
          GRAPH_MISTAKE(RouteToExperts(In(g, F32, {2, 3, 1}), {})),
          GRAPH_MISTAKE(RouteToExperts(In(g, F32, {2, 3, 4}), {.capacity = 0})),
      });
}

// The node that a text may ask for.
Value Elements(Graph& g, const std::vector<int64_t>& bits, const std::vector<int64_t>& of,
               const std::vector<int64_t>& shape) {
  return g.Add("elements", {}, {{"bits", bits}, {"of", of}, {"shape", shape}}, CallSite::Current())[0];
}

Value Placed(Graph& g, const Value& part) {
  const Attrs attrs = {{"seed", int64_t{1}}, {"placed", true}, {"shape", std::vector<int64_t>{4}}};
  return g.Add("random_uniform", std::vector<Value>{part}, attrs, {"model.cc", 7})[0];
}

TEST(OpErrors, Generators) {
  ExpectErrors("ops_generators",
               {
                   GRAPH_MISTAKE(Constant(g, 0.5, {I64, {4}})),
                   GRAPH_MISTAKE(Constant(g, 2147483648.0, {I32, {4}})),
                   GRAPH_MISTAKE(Constant(g, 0x1p63, {I64, {}})),
                   GRAPH_MISTAKE(Constant(g, std::nan(""), {I32, {}})),
                   GRAPH_MISTAKE(Constant(g, 2, {BOOL, {}})),
                   GRAPH_MISTAKE(Constant(g, 1, {F32, {1 << 20, 1 << 21}})),
                   GRAPH_MISTAKE(Constant(g, {1, 2, 3}, {F32, {2, 2}})),
                   GRAPH_MISTAKE(Constant(g, {1, 2.5}, {I32, {2}})),
                   GRAPH_MISTAKE(Constant(g, std::vector<int64_t>{1, 2}, {BOOL, {2}})),
                   GRAPH_MISTAKE(Constant(g, std::vector<float>(65537), {F32, {65537}})),
                   GRAPH_MISTAKE(Constant(g, {1, 2}, {F32, {-2}})),
                   GRAPH_MISTAKE(Elements(g, {1, 2}, {3}, {3})),
                   GRAPH_MISTAKE(Elements(g, {1, 2}, {2}, {3})),
                   GRAPH_MISTAKE(Elements(g, {1, 2}, {2}, {2, 1})),
                   GRAPH_MISTAKE(Iota(g, {F32, {4}}, 1)),
                   GRAPH_MISTAKE(Iota(g, {F32, {}}, 0)),
                   GRAPH_MISTAKE(Iota(g, {BOOL, {4}}, 0)),
                   GRAPH_MISTAKE(OneHot(In(g, F32, {4}), 3, F32)),
                   GRAPH_MISTAKE(OneHot(In(g, I32, {4}), -3, F32)),
                   GRAPH_MISTAKE(OneHot(In(g, I32, {4}), int64_t{1} << 40, F32)),
                   GRAPH_MISTAKE(RandomUniform(g, {I32, {4}}, 1, 0, 0, 1)),
                   GRAPH_MISTAKE(RandomUniform(g, {F32, {4}}, 1, 0, 2, 1)),
                   GRAPH_MISTAKE(RandomUniform(g, {F32, {4}}, 1, 0, 0, HUGE_VAL)),
                   GRAPH_MISTAKE(RandomUniform(g, {F32, {4}}, 1, 0, -3e38, 3e38)),
                   GRAPH_MISTAKE(RandomNormal(g, {F32, {4}}, 1, 0, 1e39, 1)),
                   GRAPH_MISTAKE(RandomNormal(g, {BOOL, {4}}, 1, 0, 0, 1)),
                   GRAPH_MISTAKE(RandomNormal(g, {F32, {4}}, 1, 0, 0, -1)),
                   GRAPH_MISTAKE(RandomTruncatedNormal(g, {F32, {4}}, 1, 0, HUGE_VAL, 1)),
                   GRAPH_MISTAKE(RandomTruncatedNormal(g, {I64, {4}}, 1, 0, 0, 1)),
                   GRAPH_MISTAKE(RandomBernoulli(g, {BOOL, {4}}, 1, 0, 1.5)),
                   GRAPH_MISTAKE(RandomBernoulli(g, {BOOL, {4}}, 1, 0, std::nan(""))),
                   GRAPH_MISTAKE(RandomBernoulli(g, {BOOL, {4}}, 1, 0, 0.5, In(g, I32, {}))),
                   GRAPH_MISTAKE(RandomUniform(g, {F32, {4}}, 1, 0, 0, 1, In(g, I64, {1}))),
                   GRAPH_MISTAKE(Placed(g, In(g, I64, {}))),
                   GRAPH_MISTAKE(Linspace(g, 0, 1, {I32, {4}})),
                   GRAPH_MISTAKE(Linspace(g, 0, 1, {F32, {4, 1}})),
                   GRAPH_MISTAKE(Linspace(g, 0, HUGE_VAL, {F32, {4}})),
                   GRAPH_MISTAKE(Eye(g, {F32, {4}})),
                   GRAPH_MISTAKE(Eye(g, {F32, {4, 4}}, (int64_t{1} << 40) + 1)),
                   GRAPH_MISTAKE(Constant(g, 1, {F32, {4, -1}})),
                   GRAPH_MISTAKE(Iota(g, {F32, {-1}}, 0)),
                   GRAPH_MISTAKE(g.Add("random_uniform", std::vector<Value>(200, In(g, I64, {})),
                                       {{"seed", int64_t{7}}, {"shape", std::vector<int64_t>{4}}}, {})),
               });
}

// Adam on a weight, its gradient and moments of these types.
void Adam(Graph& g, const Type& weight, const Type& gradient, const Type& m, const Type& v, const Type& step,
          const Operand& rate = 0.1, double beta1 = 0.9, double epsilon = 1e-8,
          CallSite loc = CallSite::Current()) {
  auto in = [&](const Type& type) { return In(g, type.dtype, type.shape); };
  AdamUpdate(in(weight), in(gradient), in(m), in(v), in(step), rate, beta1, 0.999, epsilon, 0, loc);
}

TEST(OpErrors, AdamUpdates) {
  ExpectErrors(
      "ops_adam",
      {
          GRAPH_MISTAKE(Adam(g, {I32, {4}}, {F32, {4}}, {F32, {4}}, {F32, {4}}, {I64, {}})),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {5}}, {F32, {4}}, {F32, {4}}, {I64, {}})),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {4}}, {F64, {4}}, {F32, {4}}, {I64, {}})),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, {F32, {4, 1}}, {I64, {}})),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, {F32, {4}}, {I32, {}})),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, {F32, {4}}, {I64, {}}, NAN)),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, {F32, {4}}, {I64, {}}, 0.1, 1)),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, {F32, {4}}, {I64, {}}, 0.1, 0.9, -1)),
          GRAPH_MISTAKE(Adam(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, {F32, {4}}, {I64, {}}, In(g, F64, {1}))),
      });
}

// Adagrad on a weight, its gradient and accumulator of these types.
void Adagrad(Graph& g, const Type& weight, const Type& gradient, const Type& accumulator,
             const Operand& rate = 0.1, double epsilon = 1e-10, CallSite loc = CallSite::Current()) {
  auto in = [&](const Type& type) { return In(g, type.dtype, type.shape); };
  AdagradUpdate(in(weight), in(gradient), in(accumulator), rate, epsilon, loc);
}

TEST(OpErrors, AdagradUpdates) {
  ExpectErrors("ops_adagrad",
               {
                   GRAPH_MISTAKE(Adagrad(g, {I32, {4}}, {F32, {4}}, {F32, {4}})),
                   GRAPH_MISTAKE(Adagrad(g, {F32, {4}}, {F32, {5}}, {F32, {4}})),
                   GRAPH_MISTAKE(Adagrad(g, {F32, {4}}, {F32, {4}}, {F64, {4}})),
                   GRAPH_MISTAKE(Adagrad(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, NAN)),
                   GRAPH_MISTAKE(Adagrad(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, 0.1, -1)),
                   GRAPH_MISTAKE(Adagrad(g, {F32, {4}}, {F32, {4}}, {F32, {4}}, In(g, F64, {1}))),
               });
}

TEST(OpErrors, Composites) {
  ExpectErrors("ops_composites",
               {
                   GRAPH_MISTAKE(LogSoftmax(In(g, F32, {}))),
                   GRAPH_MISTAKE(SparseSoftmaxCrossEntropy(In(g, F32, {4, 10}), In(g, I32, {5}))),
                   GRAPH_MISTAKE(SparseSoftmaxCrossEntropy(In(g, F32, {4}), In(g, I32, {4}))),
                   GRAPH_MISTAKE(Accuracy(In(g, F32, {4, 10}), In(g, F32, {4}))),
                   GRAPH_MISTAKE(Accuracy(In(g, I32, {4, 10}), In(g, I32, {4}))),
                   GRAPH_MISTAKE(LogSoftmax(In(g, I32, {4, 10}))),
                   GRAPH_MISTAKE(Softmax(In(g, F32, {4, 10}), 2)),
                   GRAPH_MISTAKE(LogSoftmax(In(g, F32, {4, 10}), -3)),
                   GRAPH_MISTAKE(Softmax(In(g, F32, {}))),
                   GRAPH_MISTAKE(SoftmaxCrossEntropy(In(g, F32, {4, 10}), In(g, F32, {4}))),
                   GRAPH_MISTAKE(SoftmaxCrossEntropy(In(g, F32, {}), In(g, F32, {}))),
                   GRAPH_MISTAKE(BinaryCrossEntropyWithLogits(In(g, F32, {4}), In(g, I32, {4}))),
                   GRAPH_MISTAKE(MeanSquaredError(In(g, F64, {4, 1}), In(g, F64, {4}))),
                   GRAPH_MISTAKE(MeanSquaredError(In(g, I32, {4}), In(g, I32, {4}))),
                   GRAPH_MISTAKE(LayerNorm(In(g, F32, {4, 6}), In(g, F32, {4}), In(g, F32, {4}))),
                   GRAPH_MISTAKE(LayerNorm(In(g, F32, {4, 6}), In(g, F32, {6}), In(g, F64, {6}))),
                   GRAPH_MISTAKE(RmsNorm(In(g, F32, {6}), In(g, F32, {4, 6}))),
                   GRAPH_MISTAKE(RmsNorm(In(g, F32, {4, 6}), In(g, F32, {6}), -1)),
                   GRAPH_MISTAKE(Standardize(In(g, F32, {6}), {0}, HUGE_VAL)),
                   GRAPH_MISTAKE(Standardize(In(g, F32, {6}), {1}, 0)),
                   GRAPH_MISTAKE(GlobalNorm({{In(g, F32, {4}), In(g, I32, {4})}})),
                   GRAPH_MISTAKE(g.Output("norm", GlobalNorm({}))),
                   GRAPH_MISTAKE(ClipByGlobalNorm({{In(g, F32, {4})}}, 0)),
                   GRAPH_MISTAKE(ClipByGlobalNorm({{In(g, F32, {4})}}, 1e-50)),
                   GRAPH_MISTAKE(ClipByGlobalNorm({{In(g, F32, {4})}}, NAN)),
                   GRAPH_MISTAKE(ClassWeights(In(g, BOOL, {4}), {{1, 2}})),
                   GRAPH_MISTAKE(ClassWeights(In(g, F32, {}), {{1, 2}})),
                   GRAPH_MISTAKE(ClassWeights(In(g, F32, {4, 3}), {{3, 2}})),
                   GRAPH_MISTAKE(ClassWeights(In(g, I32, {4}), {{-1, 2}})),
                   GRAPH_MISTAKE(ClassWeights(In(g, I32, {4}), {{1 << 16, 2}})),
                   GRAPH_MISTAKE(ClassWeights(In(g, I32, {4}), {{1, -2}})),
                   GRAPH_MISTAKE(ClassWeights(In(g, I32, {4}), {{1, NAN}})),
                   GRAPH_MISTAKE(ReverseSequence(In(g, F32, {4, 6}), In(g, I32, {6}))),
                   GRAPH_MISTAKE(ReverseSequence(In(g, F32, {4, 6}), In(g, F32, {4}))),
                   GRAPH_MISTAKE(ReverseSequence(In(g, F32, {4, 6}), In(g, I32, {4}), 0)),
                   GRAPH_MISTAKE(ReverseSequence(In(g, F32, {4}), In(g, I32, {4}))),
                   GRAPH_MISTAKE(StatelessDropout(In(g, F32, {4}), 1, 7, 0)),
                   GRAPH_MISTAKE(StatelessDropout(In(g, F32, {4}), NAN, 7, 0)),
                   GRAPH_MISTAKE(StatelessDropout(In(g, I32, {4}), 0.5, 7, 0)),
                   GRAPH_MISTAKE(StatelessDropout(In(g, F32, {4, 6}), 0.5, 7, 0, {}, {1, -1})),
               });
}

TEST(OpErrors, GradientsOf) {
  ExpectErrors("gradients", {
    GRAPH_MISTAKE(Value x = In(g, F32, {4}); Gradients(x, {x})),
        GRAPH_MISTAKE(Value x = In(g, I32, {}); Gradients(x, {x})),
        GRAPH_MISTAKE(Gradients(In(g, F32, {}), {In(g, I32, {4})})),
        GRAPH_MISTAKE(Value x = In(g, F32, {2}); Gradients(Value(), {x});
                      g.Output("g", Gradients(ReduceSum(x, {0}), {x, Value()})[0])),
        GRAPH_MISTAKE(Value x = In(g, F32, {2});
                      CustomGradient(Exp(x), {x}, [](const Value&) { return std::vector<Value>(); })),
        GRAPH_MISTAKE(Value x = In(g, F32, {2});
                      CustomGradient(Exp(x), {x, x}, [](const Value& dy) { return std::vector{dy}; })),
        GRAPH_MISTAKE(Value x = In(g, F32, {2});
                      CustomGradient(ReduceSum(x), {x}, [](const Value& dy) { return std::vector{dy}; })),
        GRAPH_MISTAKE(Value x = In(g, F32, {2});
                      CustomGradient(x, {Cast(x, I32)}, [](const Value& dy) { return std::vector{dy}; })),
        GRAPH_MISTAKE(Value x = In(g, F32, {2});
                      CustomGradient(Cast(x, I32), {x}, [&](const Value&) { return std::vector{x}; })),
  });
}

}  // namespace
}  // namespace meshwork::ops_test
