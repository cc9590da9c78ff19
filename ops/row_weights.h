// The weights of the rows of a batch, and the rows that count: shared by losses and metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "meshwork/ir/builder.h"

namespace meshwork {

// Resolve with `weights` as the last operand if it is valid; ops/losses.h says what weights may be.
ResolvedOperands ResolveWeighted(std::vector<Operand> operands, const Value& weights);

// Checks that the first two operands are logits: floats [..,c], and labels: whole numbers [..] that can be
// `ignore_label`; records a mistake if not.
bool CheckLogitsAndLabels(const ResolvedOperands& at, std::string_view op,
                          std::optional<int64_t> ignore_label = {});
// bool [..]: whether each label is in [0,c).
Value IsClass(const Value& logits, const Value& labels);
// bool [..]: whether each label differs from `ignore_label`; invalid if nothing is ignored.
Value IsNotIgnored(const Value& labels, std::optional<int64_t> ignore_label);

// Both broadcast against the rows; an invalid value leaves all rows as they are.
struct RowWeights {
  Value factor;  // of the rows' dtype
  Value counts;  // bool: false rows are left out
};

// `counts`: bool, of the shape of the rows: the rows that count, as far as a mask in `weights` allows; may be invalid.
// `rows`: the type of the numbers that are weighted. Records a mistake and returns nothing if the weights do not fit.
std::optional<RowWeights> FitWeights(const ResolvedOperands& at, std::string_view op, const Value& weights,
                                     const Type& rows, const Value& counts = {});

// Per row its number times its factor; 0 if the row does not count, even if its number is NaN.
Value Weighted(const Value& rows, const RowWeights& weights);
// The sum of the factors of the rows that count, and how many rows count, as scalars of the rows' dtype.
Value SumOfWeights(const Value& rows, const RowWeights& weights);
Value CountOfRows(const Value& rows, const RowWeights& weights);

Value SumOfAll(const Value& x);
std::vector<int64_t> AllDims(const Value& x);

}  // namespace meshwork
