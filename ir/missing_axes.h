// Misspelt axes where an axis that the mesh lacks is no mistake, but shards nothing.
//
//   mesh [batch=2, model=2]; layouts {batch,_}, {_,modle}    a mistake: nothing names "model", and "modle" is missing
//   mesh [batch=4];          layouts {batch,_}, {_,model}    a program that runs on meshes without "model", too
//   mesh [rows=4];           layouts {batch,_}, {_,model}    the same
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

// The axes, by their names in the mesh before it is cut, that `spec` names.
std::vector<std::string> AxesNamedBy(const LayoutSpec& spec);

// Error: the mesh of `graph` lacks one of `asked`, and has an axis of size 2 or more with nearly the same name
// (DidYouMean in base/suggest.h). Neither `asked` nor a layout of `graph` names that axis.
absl::Status CheckMissingAxes(const Graph& graph, const std::vector<std::string>& asked);

}  // namespace meshwork
