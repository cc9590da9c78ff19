// All families of rows. They are listed here because this is the topmost room that has rows.
#include "meshwork/ops/control/families.h"

#include "meshwork/ir/registry.h"
#include "meshwork/ops/families.h"

namespace meshwork {

const std::vector<OpFamily>& OpFamilies() {
  static const auto* families = new std::vector<OpFamily>{
      {"Arithmetic", ArithmeticOps()},
      {"Comparisons, logic and bits", CompareOps()},
      {"Functions of one real", UnaryOps()},
      {"Special functions", SpecialOps()},
      {"Activations", ActivationOps()},
      {"Casts", CastOps()},
      {"Shapes", ShapeOps()},
      {"Slices", SlicingOps()},
      {"Joins, reversals, rolls", JoiningOps()},
      {"Slices at a place that is a value", DynamicSliceOps()},
      {"Elements by index", GatherOps()},
      {"Elements by several indices", GatherNdOps()},
      {"Elements by index along one dim", AlongDimOps()},
      {"Scatters that do not add", ScatterOps()},
      {"Reductions", ReduceOps()},
      {"Cumulative", CumulativeOps()},
      {"Order", OrderOps()},
      {"Products", MatmulOps()},
      {"Products with quantised matrices", MatmulQOps()},
      {"Convolution", ConvolutionOps()},
      {"Pooling", PoolingOps()},
      {"Attention", AttentionOps()},
      {"Linear algebra", LinalgOps()},
      {"Values made in place", GenerateOps()},
      {"Random values", RandomOps()},
      {"Optimizers", OptimizerOps()},
      {"Loops and branches", ControlOps()},
      {"Manual regions", ManualOps()},
      {"Collectives and local ops", CollectiveOps()},
  };
  return *families;
}

}  // namespace meshwork
