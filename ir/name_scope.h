// NameScope: names for the parts of a model.
//
//   Value Block(Graph& g, const std::string& name, const Value& x) {
//     const NameScope scope(g, name);                                // "block3"
//     const Dense query(g, "query", 64, 64);                         // variables "block3/query/kernel", …
//     return Relu(query(x));                                         // "relu (model.cc:12 in block3)"
//   }
//
// While it lives, declared variables are called "block3/NAME", and all nodes added to the graph belong to "block3":
// errors, Explain, profiles and traces show the scope beside the line. A gradient belongs to the scope of the node that
// it is the gradient of. Scopes nest: within another scope, this one is "tower/block3". A scope may be entered again.
// Inputs, outputs and the state of optimizers keep the names that they are given.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "meshwork/ir/graph.h"

namespace meshwork {

class NameScope {
 public:
  // `graph`: the program, or the body that is being built. Error, recorded: `name` is not a name (IsArgumentName).
  NameScope(Graph& graph, std::string_view name, CallSite loc = CallSite::Current());
  // The scope of a variable, which is its name without the last part: "block3/query" for "block3/query/kernel". For the
  // nodes that a layer adds to the graph of x.
  static NameScope Of(const Variable& variable, const Value& x);
  // No scope, whatever scopes are open.
  static NameScope None(Graph& graph);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  // `graph`: null opens nothing.
  NameScope(Graph* graph, SharedText scope);

  std::shared_ptr<const internal::GraphAnchor> anchor_;  // the graph may be moved meanwhile
  SharedText outer_;
};

}  // namespace meshwork
