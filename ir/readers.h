// Which nodes of a program read each of its values, and which values leave it.
//
//   const Readers readers = ReadersOf(graph);
//   for (const auto [node, operand] : readers[id])  // graph.nodes()[node].operands[operand] == id
//     …
//
// A loop or a branch reads its own operands; nodes of its bodies read values of the bodies.
//
// Immutable, thread-safe.
#pragma once

#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

class Readers {
 public:
  // An operand of a node, both by their indices.
  struct Reader {
    int node;
    int operand;
  };

  // The operands that are the value, in the order of the program. A node that reads it twice is there twice.
  std::span<const Reader> operator[](ValueId id) const {
    return std::span(readers_).subspan(begins_[id], begins_[id + 1] - begins_[id]);
  }
  // How many updates and outputs are the value.
  int exits(ValueId id) const { return exits_[id]; }
  // The operands, updates and outputs.
  int count(ValueId id) const { return static_cast<int>((*this)[id].size()) + exits(id); }
  // Whether one operand is all that reads the value.
  bool IsReadOnce(ValueId id) const { return (*this)[id].size() == 1 && exits(id) == 0; }
  // The last node that reads it; -1 if none does.
  int last(ValueId id) const { return (*this)[id].empty() ? -1 : (*this)[id].back().node; }

 private:
  friend Readers ReadersOf(const Graph& graph, std::span<const ValueId> contents);

  std::vector<size_t> begins_;   // per value, and the end: into readers_
  std::vector<Reader> readers_;  // by value
  std::vector<int> exits_;       // per value
};

// `contents`: per value, the one that stands for it, whose readers then include the readers of this one, such as those
// of its views (FindContents); empty: each stands for itself.
Readers ReadersOf(const Graph& graph, std::span<const ValueId> contents = {});

}  // namespace meshwork
