// Mixtures of experts. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Mixtures of experts.
struct RoutingOptions {
  int64_t choices = 2;   // experts that a token goes to: 1 (Fedus et al., arXiv 2101.03961) or 2
  int64_t capacity = 1;  // tokens of a group that an expert takes; those beyond it are dropped
};
struct Routing {
  Value dispatch;  // [g,s,e,c]: 1 where the token goes to that place of the expert, else 0
  Value combine;   // [g,s,e,c]: there the weight of the expert's answer
  Value balance;   // scalar, at least 1: e times the mean over g of the sum over e of share of tokens · mean
                   // gate
};
// gates: [g,s,e], for each token of each group its shares of the experts, a Softmax. Takes each token to the
// experts with its largest gates; first choices before second ones, each in the order of the tokens (Lepikhin
// et al., arXiv 2006.16668, algorithm 1, without its random choice). With two choices their weights add up to
// 1.
//
//   Routing r = RouteToExperts(gates, {.choices = 1, .capacity = 2 * s / e});
//   Value inputs = Einsum("gsec,gsm->egcm", {r.dispatch, x});   // an all-to-all, if e and g share an axis
//   Value y = Einsum("gsec,egcm->gsm", {r.combine, Experts(inputs)});
//
// Errors: gates that are not floats [g,s,e]; choices other than 1 and 2 or more than e; capacity below 1.
Routing RouteToExperts(const Operand& gates, const RoutingOptions& options);

}  // namespace meshwork
