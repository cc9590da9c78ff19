// NameScope: names for the parts of a model.
//
//   Value Block(Graph& g, const std::string& name, const Value& x) {
//     const NameScope scope(g, name);                                // "block3"
//     const Dense query(g, "query", 64, 64);                         // variables "block3/query/kernel", …
//     return Relu(query(x));                                         // "relu (model.cc:12 in block3)"
//   }
//
// While it lives, variables that are declared are called "block3/NAME", and all that is added to the graph says that it
// is of "block3": in errors, Explain, profiles and traces, beside the line. Gradients are of the scope of what they are
// gradients of. Scopes nest: within another one, it is "tower/block3". A scope may be entered again. Inputs and outputs
// keep the names that they are given; so does the state of optimizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "meshwork/ir/graph.h"

namespace meshwork {

class NameScope {
 public:
  // Of the graph, or of the body that is being built. Error, recorded: `name` is no name (IsArgumentName).
  NameScope(Graph& graph, std::string_view name, CallSite loc = CallSite::Current());
  // That of a variable, its name without the last part: "block3/query" of "block3/query/kernel"; for what a layer adds
  // to the graph of x.
  static NameScope Of(const Variable& variable, const Value& x);
  // None, whatever scopes are open.
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
