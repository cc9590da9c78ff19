// LayerVariables: the variables of a layer. They are declared when the layer is made; if the number of its inputs was
// left out, by its first call. For the layers of this room.
//
//   LayerVariables<Variables> variables(graph, inputs, [name](Graph& graph, int64_t inputs) {
//     return Variables{graph.Var(name + "/kernel", GlorotUniform({inputs, 8}))};
//   });
//   variables.For(x).kernel        // x: [.., inputs]
//
// Copies share the variables. Thread safety: none, as of the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/name_scope.h"

namespace meshwork::internal {

template <typename Variables>
class LayerVariables {
 public:
  // Adds the variables to the graph that the layer was made for.
  using Declare = std::function<Variables(Graph& graph, int64_t inputs)>;

  // Without `inputs`, the first call declares the variables, in the name scope in which the layer was made.
  LayerVariables(Graph& graph, std::optional<int64_t> inputs, Declare declare)
      : state_(std::make_shared<State>()) {
    if (inputs.has_value()) state_->made.emplace(declare(graph, *inputs));
    else *state_ = {{}, Value(&graph, kNoValue), graph.scope(), std::move(declare)};
  }

  // For a call with x: [.., inputs]. REQUIRES: x is valid.
  const Variables& For(const Value& x) const {
    if (state_->made.has_value()) return *state_->made;
    Graph& graph = *state_->in_graph.graph();
    const NameScope none = NameScope::None(graph);
    std::optional<NameScope> scope;
    if (!state_->scope.empty()) scope.emplace(graph, state_->scope);
    state_->made.emplace(state_->declare(graph, x.rank() == 0 ? 1 : x.shape().back()));
    return *state_->made;
  }

  // The variables; invalid ones until they are declared.
  const Variables& Now() const {
    static const Variables none{};
    return state_->made.has_value() ? *state_->made : none;
  }

 private:
  struct State {
    std::optional<Variables> made;
    Value in_graph;  // no value: it gives the graph, also after the graph was moved
    std::string scope;
    Declare declare;
  };
  std::shared_ptr<State> state_;
};

}  // namespace meshwork::internal
