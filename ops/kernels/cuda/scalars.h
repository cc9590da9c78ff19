// The scalar expression of each elementwise row, as CUDA C++.
#pragma once

#include <optional>
#include <string>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork::cuda {

// Whether the row has such an expression.
bool HasScalar(const OpRow& row);
// The expression for this spec, with attributes put in. It reads x, the number of the only operand, or a, b and c, the
// numbers of several; T is the type that the first operand is computed in. nullopt: there is none.
std::optional<std::string> ScalarOf(const OpRow& row, const KernelSpec& spec);

// The same for bf16 results of bf16 operands, if the expression gives numbers that need no rounding; nullopt otherwise.
std::optional<std::string> RoundedScalarOf(const OpRow& row, const KernelSpec& spec);

}  // namespace meshwork::cuda
