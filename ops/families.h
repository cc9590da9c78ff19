// The rows of each family in this room; ops/control/families.cc lists them all.
#pragma once

#include <span>

#include "meshwork/ir/row.h"

namespace meshwork {

std::span<const OpRow> ArithmeticOps();
std::span<const OpRow> CompareOps();
std::span<const OpRow> UnaryOps();
std::span<const OpRow> SpecialOps();
std::span<const OpRow> ActivationOps();
std::span<const OpRow> CastOps();
std::span<const OpRow> ShapeOps();
std::span<const OpRow> SlicingOps();
std::span<const OpRow> JoiningOps();
std::span<const OpRow> GatherOps();
std::span<const OpRow> GatherNdOps();
std::span<const OpRow> ScatterOps();
std::span<const OpRow> AlongDimOps();
std::span<const OpRow> DynamicSliceOps();
std::span<const OpRow> CumulativeOps();
std::span<const OpRow> OrderOps();
std::span<const OpRow> ReduceOps();
std::span<const OpRow> MatmulOps();
std::span<const OpRow> MatmulQOps();
std::span<const OpRow> ConvolutionOps();
std::span<const OpRow> PoolingOps();
std::span<const OpRow> AttentionOps();
std::span<const OpRow> LinalgOps();
std::span<const OpRow> GenerateOps();
std::span<const OpRow> RandomOps();
std::span<const OpRow> OptimizerOps();
std::span<const OpRow> CollectiveOps();

}  // namespace meshwork
