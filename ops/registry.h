// The families of rows. Static-initializer registration is dropped by the linker from static
// archives, so each family exports its rows and registry.cc lists the families.
#pragma once

#include <span>

#include "ops/row.h"

namespace meshwork {

std::span<const OpRow> ArithmeticOps();
std::span<const OpRow> CompareOps();
std::span<const OpRow> UnaryOps();
std::span<const OpRow> ActivationOps();
std::span<const OpRow> CastOps();
std::span<const OpRow> ShapeOps();
std::span<const OpRow> SlicingOps();
std::span<const OpRow> GatherOps();
std::span<const OpRow> ReduceOps();
std::span<const OpRow> MatmulOps();
std::span<const OpRow> GenerateOps();
std::span<const OpRow> RandomOps();
std::span<const OpRow> OptimizerOps();
std::span<const OpRow> CollectiveOps();

}  // namespace meshwork
