// The scalar expression of each elementwise row, as CUDA C++.
#pragma once

#include <optional>
#include <string>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork::cuda {

// Whether there is one.
bool HasScalar(const OpRow& row);
// The expression for this spec, with attributes put in. It reads x, the number that one operand holds, or a, b and c
// of several; T is the type that the first is computed in. nullopt: there is none.
std::optional<std::string> ScalarOf(const OpRow& row, const KernelSpec& spec);

// The same if bf16 is computed of bf16 and the expression gives numbers that need no rounding; nullopt otherwise.
std::optional<std::string> RoundedScalarOf(const OpRow& row, const KernelSpec& spec);

}  // namespace meshwork::cuda
