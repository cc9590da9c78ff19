// The axes on which the values in a manual region vary: devices that differ on other axes alone hold the same value.
//
//   (%a: f32[8,4] {batch,model}, %b: f32[4,6] {model,_}) {
//     %0 = matmul %a, %b : f32[8,6]                                varies over batch and model
//     %1 = device_all_reduce %0 axes=(model) op=sum : f32[8,6]     varies over batch
//
// Thread-safe for different objects.
#pragma once

#include <cstddef>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The axes on which the devices may hold different values, per value of a body; follows nodes as they are
// added.
class Variation {
 public:
  // REQUIRES: `body` outlives this, and is a body of a manual region. `of_captured`: the axes over which each device
  // has its own copy of the values that the body reads from the graph around it.
  explicit Variation(const Graph& body, AxisSet of_captured = {}) : body_(body), of_captured_(of_captured) {}
  AxisSet Of(ValueId id);

 private:
  const Graph& body_;
  const AxisSet of_captured_;
  size_t arguments_ = 0, nodes_ = 0;  // that are known
  std::vector<AxisSet> axes_;
};

// `axes` without those of size 1: nothing differs over them.
AxisSet WithoutTrivial(const Mesh& mesh, AxisSet axes);

}  // namespace meshwork
