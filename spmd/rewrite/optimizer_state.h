// Which variables are the optimizer's state of which weight, found by what their new values are computed from.
//
//   %m = mul %m0, %beta   …   %w = sub %w0, %step      update %m0 = %m, %w0 = %w
//   FindWeightStates(graph)   ->   {{.weight = w0, .state = {m0}}}
//
// A variable is state if its old value goes, element by element, into new values of variables alone. It belongs
// to the weight whose new value it goes into, or, like an average, to the weight that it is computed from. Names
// say nothing.
// Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"

namespace meshwork {

// Indices of arguments, those of `state` ascending.
struct WeightState {
  int weight = -1;
  std::vector<int> state;
};

// The weights of a global program that have state of their own. State that several weights share belongs to none.
std::vector<WeightState> FindWeightStates(const Graph& graph);

// Whether the node computes each element of its results from the element at the same place of its operand `i`,
// whatever it reads of the other operands. `rule`: the node's.
bool IsElementwise(const Node& node, const Rule& rule, size_t i);

}  // namespace meshwork
