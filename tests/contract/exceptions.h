// Exceptions from the contract of rows: placements that a rule may leave out.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "meshwork/ir/row.h"
#include "meshwork/tools/check/kernel_trial.h"

namespace meshwork {

// Placements that are right although no rule has them, each with the reason why no rule needs it.
struct Exception {
  std::string_view row;
  std::string_view reason;
  std::optional<ReduceOp> in = std::nullopt, out = std::nullopt;  // only from operands that owe `in`, …
};
inline constexpr std::string_view kOverflows = "the parts overflow, or vanish, where the whole does not";
inline constexpr std::string_view kRounds =
    "terms that are rounded are another sum; those tried here are exact";
inline constexpr std::string_view kFiniteSamples =
    "the sum or product of finite parts, all that is tried here, may be infinite";
inline constexpr std::string_view kTwoAtOnePlace = "only where no two updates go to one place";
inline constexpr std::string_view kFiniteOther = "only if the other operand is finite: -inf + inf is NaN";
inline constexpr Exception kMissingByDesign[] = {
    {"dimension_size",
     "reads no element of its operand; fold_sizes makes it a constant before layouts are chosen"},
    {"when_training", "fold_sizes leaves its second operand out before layouts are chosen"},
    {"custom_gradient", "fold_sizes leaves all but its first operand out before layouts are chosen"},
    {"adam_update", "its results do not owe alike", ReduceOp::kMax},
    {"adam_update", "its results do not owe alike", ReduceOp::kMin},
    {"adagrad_update", "its results do not owe alike", ReduceOp::kMax},
    {"adagrad_update", "its results do not owe alike", ReduceOp::kMin},
    {"adagrad_update", "linear in its weight and its rate together, in neither alone", ReduceOp::kSum},
    {"attention", "its results do not owe alike", ReduceOp::kSum},
    {"attention_grad_q", "linear in two of its operands together, in none alone", ReduceOp::kSum},
    {"attention_grad_kv", "linear in two of its operands together, in none alone", ReduceOp::kSum},
    {"rsqrt", "1/sqrt(-0) is -inf", ReduceOp::kMin, ReduceOp::kMax},
    {"scatter_add", kTwoAtOnePlace, ReduceOp::kMax, ReduceOp::kMax},
    {"scatter_add", kTwoAtOnePlace, ReduceOp::kMin, ReduceOp::kMin},
    {"scatter_add", kTwoAtOnePlace, ReduceOp::kProd, ReduceOp::kProd},
    {"scatter_nd_add", kTwoAtOnePlace, ReduceOp::kMax, ReduceOp::kMax},
    {"scatter_nd_add", kTwoAtOnePlace, ReduceOp::kMin, ReduceOp::kMin},
    {"scatter_nd_add", kTwoAtOnePlace, ReduceOp::kProd, ReduceOp::kProd},
    {"add", kFiniteOther, ReduceOp::kMax},
    {"add", kFiniteOther, ReduceOp::kMin},
    {"sub", kFiniteOther, ReduceOp::kMax},
    {"sub", kFiniteOther, ReduceOp::kMin},
    {"sign", kOverflows, ReduceOp::kProd, ReduceOp::kProd},
    {"neg", "only on an odd number of devices", ReduceOp::kProd, ReduceOp::kProd},
    {"cast", kOverflows, ReduceOp::kProd, ReduceOp::kAnd},
    {"cast", kRounds, ReduceOp::kSum, ReduceOp::kSum},
    {"cast", kRounds, ReduceOp::kProd, ReduceOp::kProd},
    {"bitcast", kRounds, ReduceOp::kSum, ReduceOp::kSum},
    {"bitcast", kRounds, ReduceOp::kProd, ReduceOp::kProd},
    {"reduce_prod", kOverflows},
    {"exp", kOverflows, ReduceOp::kSum, ReduceOp::kProd},
    {"exp2", kOverflows, ReduceOp::kSum, ReduceOp::kProd},
    {"polygamma", "only of positive numbers", ReduceOp::kMax},
    {"polygamma", "only of positive numbers", ReduceOp::kMin},
    {"pow", kOverflows, ReduceOp::kSum, ReduceOp::kProd},
    {"pow", "only for exponents that are not negative", ReduceOp::kProd, ReduceOp::kProd},
    {"is_finite", kFiniteSamples, ReduceOp::kSum},
    {"is_finite", kFiniteSamples, ReduceOp::kProd},
    {"is_inf", kFiniteSamples, ReduceOp::kSum},
    {"is_inf", kFiniteSamples, ReduceOp::kProd},
    {"is_nan", kFiniteSamples, ReduceOp::kSum},
    {"is_nan", kFiniteSamples, ReduceOp::kProd},
};

inline bool IsMissingByDesign(const OpRow& row, const KernelFinding& finding) {
  return !finding.is_wrong &&
         std::any_of(std::begin(kMissingByDesign), std::end(kMissingByDesign), [&](const Exception& e) {
           return e.row == row.name && (!e.in || e.in == finding.in) && (!e.out || e.out == finding.out);
         });
}

}  // namespace meshwork
