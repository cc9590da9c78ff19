// What special functions, random whole numbers, linear algebra, and composites of other files than losses.cc
// refuse.
#include <cmath>
#include <string>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"

namespace meshwork::ops_more_test {
namespace {

TEST(OpErrors, SpecialFunctionsAndMatrices) {
  ExpectErrors("ops_special", {
                                  GRAPH_MISTAKE(LogGamma(In(g, I32, {4}))),
                                  GRAPH_MISTAKE(Polygamma(In(g, F32, {4}), -1)),
                                  GRAPH_MISTAKE(Polygamma(In(g, F32, {4}), 101)),
                                  GRAPH_MISTAKE(Polygamma(In(g, BOOL, {4}), 1)),
                                  GRAPH_MISTAKE(LogAddExp(In(g, F32, {4}), In(g, F32, {3}))),
                                  GRAPH_MISTAKE(Popcount(In(g, F32, {4}))),
                                  GRAPH_MISTAKE(CountLeadingZeros(In(g, BOOL, {4}))),
                                  GRAPH_MISTAKE(Bitcast(In(g, F32, {4}), I64)),
                                  GRAPH_MISTAKE(Bitcast(In(g, BOOL, {4}), F32)),
                                  GRAPH_MISTAKE(WhenTraining(In(g, F32, {4}), 0.0)),
                                  GRAPH_MISTAKE(RandomInt(g, {F32, {4}}, 1, 0, 0, 9)),
                                  GRAPH_MISTAKE(RandomInt(g, {I32, {4}}, 1, 0, 9, 9)),
                                  GRAPH_MISTAKE(RandomInt(g, {I32, {4}}, 1, 0, 0, int64_t{1} << 32)),
                                  GRAPH_MISTAKE(RandomPermutation(g, -1, 1, 0)),
                                  GRAPH_MISTAKE(Cholesky(In(g, BF16, {4, 4}))),
                                  GRAPH_MISTAKE(Cholesky(In(g, F32, {4}))),
                                  GRAPH_MISTAKE(Cholesky(In(g, F32, {4, 3}))),
                                  GRAPH_MISTAKE(TriangularSolve(In(g, F32, {4, 3}), In(g, F32, {4, 1}))),
                                  GRAPH_MISTAKE(TriangularSolve(In(g, F32, {4, 4}), In(g, F32, {3, 1}))),
                                  GRAPH_MISTAKE(TriangularSolve(In(g, F32, {4, 4}), In(g, F32, {4}))),
                                  GRAPH_MISTAKE(TriangularSolve(In(g, F32, {2, 4, 4}), In(g, F32, {4, 4}))),
                                  GRAPH_MISTAKE(TriangularSolve(In(g, F32, {4, 4}), In(g, F64, {4, 4}))),
                                  GRAPH_MISTAKE(Qr(In(g, I32, {4, 4}))),
                                  GRAPH_MISTAKE(Fft(In(g, F32, {4}), In(g, F32, {5}))),
                                  GRAPH_MISTAKE(Fft(In(g, I32, {4}), In(g, I32, {4}))),
                                  GRAPH_MISTAKE(Fft(In(g, F32, {4}), In(g, F32, {4}), 1)),
                              });
}

TEST(OpErrors, LossesWithOptions) {
  const auto weighted = [](Graph& g, const Shape& rows, const Value& weights,
                           Reduction reduction = Reduction::kMean, CallSite loc = CallSite::Current()) {
    return MeanSquaredError({In(g, F32, rows), loc}, In(g, F32, rows), {reduction, weights});
  };
  const auto sparse = [](Graph& g, const LabelLossOptions& options, CallSite loc = CallSite::Current()) {
    return SparseSoftmaxCrossEntropy({In(g, F32, {4, 10}), loc}, In(g, I32, {4}), options);
  };
  ExpectErrors(
      "ops_losses",
      {
          GRAPH_MISTAKE(MeanOver(Operand(In(g, F32, {4}), CallSite("model.cc", 4)), In(g, F32, {}))),
          GRAPH_MISTAKE(MeanOver(Operand(In(g, F32, {}), CallSite("model.cc", 4)), In(g, I64, {}))),
          GRAPH_MISTAKE(weighted(g, {4, 6}, In(g, I32, {4}))),
          GRAPH_MISTAKE(weighted(g, {4, 6}, In(g, F32, {6}))),
          GRAPH_MISTAKE(weighted(g, {4, 6}, In(g, F32, {5, 6}))),
          GRAPH_MISTAKE(weighted(g, {4}, In(g, F32, {4, 1}))),
          GRAPH_MISTAKE(weighted(g, {4, 4}, In(g, F32, {4}))),
          GRAPH_MISTAKE(weighted(g, {4, 2, 4}, In(g, BOOL, {4}))),
          GRAPH_MISTAKE(weighted(g, {4}, In(g, F32, {}), Reduction::kWeightedMean)),
          GRAPH_MISTAKE(sparse(g, {.weights = In(g, F32, {10})})),
          GRAPH_MISTAKE(sparse(g, {.label_smoothing = 1})),
          GRAPH_MISTAKE(sparse(g, {.label_smoothing = -0.1})),
          GRAPH_MISTAKE(sparse(g, {.ignore_label = INT64_MAX})),
          GRAPH_MISTAKE(
              SoftmaxCrossEntropy(In(g, F32, {4, 6}), In(g, F32, {4, 6}), {.label_smoothing = NAN})),
          GRAPH_MISTAKE(
              BinaryCrossEntropyWithLogits(In(g, F32, {4}), In(g, F32, {4}), {.label_smoothing = 2})),
          GRAPH_MISTAKE(LogCoshLoss(In(g, F32, {4}), In(g, F64, {4}))),
          GRAPH_MISTAKE(PoissonLoss(In(g, F32, {4}), In(g, I32, {4}))),
          GRAPH_MISTAKE(CosineDistance(In(g, F32, {4, 6}), In(g, F32, {6}))),
          GRAPH_MISTAKE(CosineDistance(In(g, F32, {}), In(g, F32, {}))),
          GRAPH_MISTAKE(TripletMarginLoss(In(g, F32, {4, 6}), In(g, F32, {4, 6}), In(g, F32, {4, 5}))),
          GRAPH_MISTAKE(TripletMarginLoss(In(g, F32, {4, 6}), In(g, F32, {4}), In(g, F32, {4, 6}))),
          GRAPH_MISTAKE(TripletMarginLoss(In(g, F32, {4, 6}), In(g, F32, {4, 6}), In(g, F32, {4, 6}), 0)),
          GRAPH_MISTAKE(CountInvalidLabels(In(g, F32, {4, 6}), In(g, F32, {4}))),
          GRAPH_MISTAKE(CorrectLabels(In(g, F32, {4}), In(g, I32, {4}))),
      });
}

TEST(OpErrors, StatisticsAndMoves) {
  ExpectErrors("ops_statistics",
               {
                   GRAPH_MISTAKE(SoftmaxOver(In(g, F32, {4, 6}), {0, -2})),
                   GRAPH_MISTAKE(LogSumExp(In(g, I32, {4, 6}), {0})),
                   GRAPH_MISTAKE(Variance(In(g, F32, {4, 6}), {2})),
                   GRAPH_MISTAKE(Variance(In(g, F32, {4, 6}), {1}, std::nan(""))),
                   GRAPH_MISTAKE(StandardDeviation(In(g, BOOL, {4, 6}), {1})),
                   GRAPH_MISTAKE(Norm(In(g, F32, {4, 6}), {1}, 3)),
                   GRAPH_MISTAKE(Norm(In(g, F32, {}), {0})),
                   GRAPH_MISTAKE(InTopK(In(g, F32, {4, 6}), In(g, I32, {6}), 2)),
                   GRAPH_MISTAKE(InTopK(In(g, F32, {4, 6}), In(g, F32, {4}), 2)),
                   GRAPH_MISTAKE(RandomCategorical(In(g, I32, {4, 6}), 1, 0)),
                   GRAPH_MISTAKE(RandomCategorical(In(g, F32, {4, 0}), 1, 0)),
                   GRAPH_MISTAKE(RandomCategorical(In(g, F32, {4, 6}), 1, 0, In(g, F32, {}))),
                   GRAPH_MISTAKE(KeepTopK(In(g, F32, {}), 1)),
                   GRAPH_MISTAKE(KeepTopK(In(g, F32, {4, 6}), 0)),
                   GRAPH_MISTAKE(KeepTopK(In(g, F32, {4, 6}), 7)),
                   GRAPH_MISTAKE(KeepTopP(In(g, BOOL, {6}), 0.5)),
                   GRAPH_MISTAKE(KeepTopP(In(g, F32, {4, 6}), 0)),
                   GRAPH_MISTAKE(KeepTopP(In(g, F32, {4, 6}), std::nan(""))),
                   GRAPH_MISTAKE(Bincount(In(g, F32, {4}), 2)),
                   GRAPH_MISTAKE(Bincount(In(g, I32, {4}), 0)),
                   GRAPH_MISTAKE(UniqueCounts(In(g, I32, {4, 6}), 2)),
                   GRAPH_MISTAKE(UniqueCounts(In(g, I32, {0}), 2)),
                   GRAPH_MISTAKE(Tile(In(g, F32, {4, 6}), {2})),
                   GRAPH_MISTAKE(Tile(In(g, F32, {4, 6}), {2, -1})),
                   GRAPH_MISTAKE(Repeat(In(g, F32, {4, 6}), -1, 0)),
                   GRAPH_MISTAKE(Repeat(In(g, F32, {4, 6}), 2, 2)),
                   GRAPH_MISTAKE(UpdateSlice(In(g, F32, {4, 6}), In(g, F32, {4, 3}), {0, 4})),
                   GRAPH_MISTAKE(UpdateSlice(In(g, F32, {4, 6}), In(g, F64, {4, 3}), {0, 0})),
                   GRAPH_MISTAKE(UpdateSlice(In(g, F32, {4, 6}), In(g, F32, {4, 3}), {0, 0}, {1, 0})),
                   GRAPH_MISTAKE(UpdateSlice(In(g, F32, {4, 6}), In(g, F32, {4, 3}), {0})),
                   GRAPH_MISTAKE(SegmentSum(In(g, F32, {4}), In(g, I32, {4, 6}), 3)),
                   GRAPH_MISTAKE(Shuffle(In(g, F32, {4}), 1, 7, 0)),
                   GRAPH_MISTAKE(FloorDiv(In(g, BOOL, {4}), In(g, BOOL, {4}))),
                   GRAPH_MISTAKE(MeanAbsoluteError(In(g, F32, {4}), In(g, F32, {4, 1}))),
                   GRAPH_MISTAKE(HuberLoss(In(g, F32, {4}), In(g, F64, {4}))),
                   GRAPH_MISTAKE(HuberLoss(In(g, F32, {4}), In(g, F32, {4}), 0)),
                   GRAPH_MISTAKE(HingeLoss(In(g, I32, {4}), In(g, I32, {4}))),
                   GRAPH_MISTAKE(KlDivergence(In(g, F32, {4, 6}), In(g, F32, {6, 4}))),
                   GRAPH_MISTAKE(KlDivergence(In(g, F32, {}), In(g, F32, {}))),
               });
}

}  // namespace
}  // namespace meshwork::ops_more_test
