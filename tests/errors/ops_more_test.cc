// What special functions, random whole numbers, linear algebra, and composites of other files than losses.cc
// refuse.
#include <cmath>
#include <string>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
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
}  // namespace meshwork
