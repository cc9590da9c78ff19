// What ops on places refuse: those by index along some dims, those along one dim.
#include <string>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"

namespace meshwork::ops_places_test {
namespace {

TEST(OpErrors, Places) {
  ExpectErrors(
      "ops_places",
      {
          GRAPH_MISTAKE(ScatterMax(In(g, BOOL, {3}), In(g, I32, {3}), {6}, 0)),
          GRAPH_MISTAKE(ScatterMax(In(g, F32, {3}), In(g, F32, {3}), {6}, 0)),
          GRAPH_MISTAKE(ScatterMin(In(g, F32, {3}), In(g, I32, {4}), {6}, 0)),
          GRAPH_MISTAKE(ScatterMin(In(g, F32, {3}), In(g, I32, {3}), {6}, 1)),
          GRAPH_MISTAKE(ScatterMax(In(g, F32, {3}), In(g, I32, {3}), {-6}, 0)),
          GRAPH_MISTAKE(ScatterUpdate(In(g, F32, {6, 2}), In(g, F32, {3, 2}), In(g, BOOL, {3}), 0)),
          GRAPH_MISTAKE(ScatterUpdate(In(g, F32, {6, 2}), In(g, F32, {3, 3}), In(g, I32, {3}), 0)),
          GRAPH_MISTAKE(ScatterUpdate(In(g, F32, {6, 2}), In(g, F64, {3, 2}), In(g, I32, {3}), 0)),
          GRAPH_MISTAKE(ScatterUpdate(In(g, F32, {0, 2}), In(g, F32, {3, 2}), In(g, I32, {3}), 0)),
          GRAPH_MISTAKE(TakeAlongDim(In(g, F32, {4, 6}), In(g, F32, {4, 6}), 1)),
          GRAPH_MISTAKE(TakeAlongDim(In(g, F32, {4, 6}), In(g, I32, {3, 6}), 1)),
          GRAPH_MISTAKE(TakeAlongDim(In(g, F32, {4, 6}), In(g, I32, {4}), 1)),
          GRAPH_MISTAKE(TakeAlongDim(In(g, F32, {4, 6}), In(g, I32, {4, 6}), -3)),
          GRAPH_MISTAKE(TakeAlongDim(In(g, F32, {4, 0}), In(g, I32, {4, 1}), 1)),
          GRAPH_MISTAKE(ScatterAddAlongDim(In(g, BOOL, {4, 2}), In(g, I32, {4, 2}), {4, 6}, 1)),
          GRAPH_MISTAKE(ScatterAddAlongDim(In(g, F32, {4, 3}), In(g, I32, {4, 2}), {4, 6}, 1)),
          GRAPH_MISTAKE(ScatterAddAlongDim(In(g, F32, {4, 2}), In(g, I32, {4, 2}), {4, -6}, 1)),
          GRAPH_MISTAKE(GatherNd(In(g, F32, {4, 6}), In(g, F32, {3, 2}))),
          GRAPH_MISTAKE(GatherNd(In(g, F32, {4, 6}), In(g, I32, {3, 3}))),
          GRAPH_MISTAKE(GatherNd(In(g, F32, {4, 6}), In(g, I32, {}))),
          GRAPH_MISTAKE(GatherNd(In(g, F32, {4, 6}), In(g, I32, {3, 1}), 1)),
          GRAPH_MISTAKE(GatherNd(In(g, F32, {4, 6}), In(g, I32, {4, 1}), 2)),
          GRAPH_MISTAKE(GatherNd(In(g, F32, {4, 6}), In(g, I32, {4, 2}), 1)),
          GRAPH_MISTAKE(GatherNd(In(g, F32, {4, 0}), In(g, I32, {1, 2}))),
          GRAPH_MISTAKE(ScatterNdAdd(In(g, BOOL, {3}), In(g, I32, {3, 2}), {4, 6})),
          GRAPH_MISTAKE(ScatterNdAdd(In(g, F32, {4}), In(g, I32, {3, 2}), {4, 6})),
          GRAPH_MISTAKE(ScatterNdAdd(In(g, F32, {3}), In(g, I32, {3, 2}), {4, -6})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {2}), {1}, {3})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, F32, {1}), {1}, {3})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {4, 1}), {0}, {3})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {}), {1}, {3})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {1}), {1}, {7})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {1}), {1}, {-1})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {1}), {1}, {})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {1}), {2}, {1})),
          GRAPH_MISTAKE(DynamicSlice(In(g, F32, {4, 6}), In(g, I32, {2}), {1, 0}, {1, 1})),
          GRAPH_MISTAKE(DynamicUpdateSlice(In(g, F32, {4, 6}), In(g, F32, {4, 7}), In(g, I32, {1}), {1})),
          GRAPH_MISTAKE(DynamicUpdateSlice(In(g, F32, {4, 6}), In(g, F32, {3, 2}), In(g, I32, {1}), {1})),
          GRAPH_MISTAKE(DynamicUpdateSlice(In(g, F32, {4, 6}), In(g, F64, {4, 2}), In(g, I32, {1}), {1})),
          GRAPH_MISTAKE(DynamicUpdateSlice(In(g, F32, {4, 6}), In(g, F32, {4}), In(g, I32, {1}), {1})),
      });
}

TEST(OpErrors, AlongOneDim) {
  ExpectErrors("ops_along", {
                                GRAPH_MISTAKE(Cumsum(In(g, BOOL, {4, 6}), 1)),
                                GRAPH_MISTAKE(Cumprod(In(g, F32, {4, 6}), 2)),
                                GRAPH_MISTAKE(Cummax(In(g, F32, {}), 0)),
                                GRAPH_MISTAKE(Cummin(In(g, F32, {4}), -3)),
                                GRAPH_MISTAKE(LinearRecurrence(In(g, I32, {4}), In(g, I32, {4}), 0)),
                                GRAPH_MISTAKE(LinearRecurrence(In(g, F32, {4}), In(g, F32, {5}), 0)),
                                GRAPH_MISTAKE(LinearRecurrence(In(g, F32, {4}), In(g, F32, {4}), 1)),
                                GRAPH_MISTAKE(Sort(In(g, BOOL, {4, 6}), 1)),
                                GRAPH_MISTAKE(Sort(In(g, F32, {4, 6}), 2)),
                                GRAPH_MISTAKE(Sort(In(g, F32, {(int64_t{1} << 31) + 1}), 0)),
                                GRAPH_MISTAKE(TopK(In(g, F32, {4, 6}), 7, 1)),
                                GRAPH_MISTAKE(TopK(In(g, F32, {4, 6}), -1, 1)),
                                GRAPH_MISTAKE(TopK(In(g, F32, {4, 6}), 1, -3)),
                            });
}

}  // namespace
}  // namespace meshwork::ops_places_test
