// How decisions of the compiler, which Explain prints, name what they are about.
#pragma once

#include <string>

#include "fmt/format.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// "%x", or "value 3" where it has no name.
inline std::string NameOf(const Graph& graph, ValueId id) {
  const std::string& name = graph.value(id).name;
  return name.empty() ? fmt::format("value {}", id) : "%" + name;
}

}  // namespace meshwork
