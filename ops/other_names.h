// Suggestions for names that are not ops: composites, which C++ functions write in terms of ops, and other
// systems' names for meshwork's ops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// A function of ops/ops.h that has no row of its own.
struct Composite {
  std::string_view name;           // of the function, in the form of op names
  std::string_view call;           // "Softmax(x, dim)"
  Value (*example)(Graph& graph);  // applies it to inputs of the graph
};
const std::vector<Composite>& Composites();

// The name of an op or a composite in other systems.
struct OtherName {
  std::string_view name, ours;
};
const std::vector<OtherName>& OtherNames();

// The composite called `name`, in meshwork or in other systems; null if there is none.
const Composite* FindComposite(std::string_view name);

// For a shell: the call, and the ops that it writes for an example.
std::string Describe(const Composite& composite);

}  // namespace meshwork
