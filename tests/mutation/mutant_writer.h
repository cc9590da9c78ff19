// Writes mutants of a local program: copies of it that differ in a node.
//
//   MutantWriter writer(local, use);
//   writer.GoTo(7);
//   writer.Add("drop", [](Rewriter& rewriter) { … });  // the function writes node 7; all others are copied
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/rewrite.h"
#include "mutation/mutants.h"

namespace meshwork {

class MutantWriter {
 public:
  using Edit = std::function<void(Rewriter&)>;  // writes a changed node

  // Keeps references to both. Calls `use` with each mutant.
  MutantWriter(const Graph& local, const std::function<void(Mutant)>& use) : local_(local), use_(use) {}

  const Graph& local() const { return local_; }
  // The node that Add and AddChanged change.
  void GoTo(int node) { at_ = node; }
  int at() const { return at_; }

  // Gives `graph` to `use`, unless a slice in it reads outside its operand. `what`: the place of the change.
  void Emit(std::string kind, std::string what, Graph graph) const;
  // Emits the program with the node as `edit` writes it.
  void Add(std::string kind, const Edit& edit) const;
  // As Add, for `node`, the current node, with other attributes. `change`, if given, changes the type and
  // layout of a result.
  void AddChanged(std::string kind, const Node& node, const Attrs& attrs,
                  const std::function<void(size_t, ValueInfo&)>& change = nullptr) const;

 private:
  Graph With(const Edit& edit) const;

  const Graph& local_;
  const std::function<void(Mutant)>& use_;
  int at_ = 0;
};

}  // namespace meshwork
