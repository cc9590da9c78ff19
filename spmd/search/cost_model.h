// What the solver's parts work on: tables whose costs may be of either sign, and loops over them. Internal.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "meshwork/spmd/search/min_sum.h"

namespace meshwork {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Costs up to this factor apart are equal, when it is asked whether a cost is the least.
constexpr double kEqual = 1 + 1e-9;

struct CostModel {
  std::vector<int> states;  // per variable
  std::vector<CostTable> tables;
};

// The number of combinations of states of the variables; as a double, so that it does not overflow.
double Combinations(std::span<const int> variables, std::span<const int> states);

// Adds `table` to `sum`, a table over `scope`, which has all variables of it, in any order. Reads and writes each entry of
// `sum` once.
void AddBroadcast(const CostTable& table, std::span<const int> scope, std::span<const int> states,
                  std::vector<double>& sum);

// The entry of `table` where the variables have these states.
double EntryOf(const CostTable& table, std::span<const int> states, std::span<const int> assignment);

double SumOf(const CostModel& model, std::span<const int> assignment);

// Per variable: the indices of the tables that have it.
std::vector<std::vector<int>> TablesOf(const CostModel& model);

// `table` with its variables in another order.
CostTable Reordered(const CostTable& table, std::vector<int> order, std::span<const int> states);

// How the entries of a table lie around one of its variables: [before, states, after].
struct AroundVariable {
  size_t before = 1, states = 1, after = 1;
};
AroundVariable Around(const CostTable& table, size_t position, std::span<const int> states);

double LeastOf(std::span<const double> costs);

// Per state of the variable at `position`: the least entry.
std::vector<double> LeastPerState(const CostTable& table, size_t position, std::span<const int> states);

}  // namespace meshwork
