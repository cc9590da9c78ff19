// A node as the text of a program writes it, with or without the types and layouts of its results.
//
// ir/parse.cc reads it, and AddWritten adds it to the program. AddWritten changes that program, and nothing
// else, so threads may add to different programs.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/type_reader.h"

namespace meshwork {

struct WrittenNode {
  const OpRow* row = nullptr;
  std::vector<ValueId> operands = {};
  Attrs attrs = {};
  std::vector<std::shared_ptr<const Graph>> regions = {};
  size_t num_results = 0;                    // names in front of the =
  std::vector<Annotation> annotations = {};  // none, or one per result
  SourceLocation location = {};

  // Whether only a local program has such a node: its op is a collective or a block-local one, or a result is
  // a block.
  bool IsLocal() const;
};

// Adds a node of either kind of program and returns its index. Without blocks the types of the results are
// inferred, with blocks they are those that are written. Errors, without the place in the text: those of
// Graph::TryAdd and TryAddControl; another number of results, or other types; a local node without
// annotations.
absl::StatusOr<int> AddWritten(Graph& graph, const WrittenNode& written);

}  // namespace meshwork
