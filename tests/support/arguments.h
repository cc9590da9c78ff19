// The arguments of a program on an executor, made of numbers by name.
//
//   const auto draw = [](Random& random, DType, int64_t) { return random.Uniform(-1, 1); };
//   const NumbersByName numbers = DrawNumbers(graph, /*seed=*/7, draw);
//   const auto feeds = PackArguments(graph, numbers, state).value();  // `state`: as Executor::Create has filled it
//   executor->Run(feeds, &outputs);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork {

// draw(random, dtype, i) for element i of each argument, one after the other.
template <typename Draw>
NumbersByName DrawNumbers(const Graph& graph, uint64_t seed, Draw&& draw) {
  NumbersByName numbers;
  Random random(seed);
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    std::vector<double>& drawn = numbers[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i) drawn.push_back(draw(random, info.type.dtype, i));
  }
  return numbers;
}

// Packs the numbers of the variables into `state`, and returns the tensors of the inputs. `graph`: a global program, or
// what it was compiled to.
inline absl::StatusOr<std::map<std::string, Tensor>> PackArguments(const Graph& graph,
                                                                   const NumbersByName& numbers,
                                                                   std::map<std::string, DTensor>& state) {
  std::map<std::string, Tensor> feeds;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    const Tensor tensor = ToTensor(HostTensor(info.global, numbers.at(info.name)));
    if (argument.is_variable) MESHWORK_RETURN_IF_ERROR(Pack(tensor, state.at(info.name)));
    else feeds.emplace(info.name, tensor);
  }
  return feeds;
}

}  // namespace meshwork
