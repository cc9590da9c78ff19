// A function main around the nodes of a program, in a module of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/stablehlo/module_text.h"

namespace meshwork::stablehlo {

struct ModuleParts {
  std::string attributes;  // "mhlo.num_replicas = 8 : i32"
  std::string symbols;     // lines before main
  // Attributes of an argument and of a result, by their numbers, "" or "{tf.aliasing_output = 1 : i32}".
  std::function<std::string(size_t argument)> of_argument = nullptr;
  std::function<std::string(size_t result)> of_result = nullptr;
  // Writes what is said of a node's result, and gives the value that later nodes take.
  std::function<HloValue(HloText& text, ValueId id, const HloValue& value)> placed = nullptr;
};

// The values that main returns: outputs, then updates.
std::vector<ValueId> ReturnedBy(const Graph& graph);

// main takes the arguments in their order and returns ReturnedBy(graph). Error: that of WriteNodes.
absl::StatusOr<std::string> WriteModule(const Graph& graph, const ModuleParts& parts);

}  // namespace meshwork::stablehlo
