// The scalar expressions of elementwise rows (OpRow::scalar) in kernels.
#pragma once

#include <optional>
#include <string>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork::cuda {

// Whether the row has such an expression.
bool HasScalar(const OpRow& row);
// The expression for this spec, with attributes put in. It reads x, or a, b and c; T is the type that the first operand is
// computed in. REQUIRES: HasScalar(row).
std::string ScalarOf(const OpRow& row, const KernelSpec& spec);

// The same for bf16 results of bf16 operands, if the expression gives numbers that need no rounding; nullopt otherwise.
std::optional<std::string> RoundedScalarOf(const OpRow& row, const KernelSpec& spec);

}  // namespace meshwork::cuda
