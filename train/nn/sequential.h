// Sequential: layers one after the other.
//
//   const Sequential model(Dense(g, "hidden", 784, 256), Relu, Dense(g, "logits", 256, 10));
//   Value logits = model(images);
//
// A layer is anything that makes a value of a value: a layer of train/, another Sequential, a function. What has
// several inputs or results, or shares layers, is a struct of the user's own (docs/models.md).
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

class Sequential {
 public:
  using Layer = std::function<Value(const Value& x, CallSite loc)>;

  Sequential() = default;
  // REQUIRES: each can be called with a value, or with a value and a CallSite.
  template <typename... Layers>
  explicit Sequential(Layers... layers) {
    (Add(std::move(layers)), ...);
  }

  // Appends a layer. REQUIRES: as for the constructor.
  template <typename L>
  Sequential& Add(L layer) {
    if constexpr (std::is_invocable_r_v<Value, const L&, const Value&, CallSite>)
      layers_.emplace_back(std::move(layer));
    else if constexpr (std::is_same_v<
                           L, Value (*)(const Operand&)>)  // of ops.h: its line is that of the model's call
      layers_.emplace_back([layer](const Value& x, CallSite loc) { return layer({x, loc}); });
    else layers_.emplace_back([layer = std::move(layer)](const Value& x, CallSite) { return layer(x); });
    return *this;
  }

  // x through all layers; x itself if there are none.
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const {
    Value y = x;
    for (const Layer& layer : layers_) y = layer(y, loc);
    return y;
  }

 private:
  std::vector<Layer> layers_;
};

}  // namespace meshwork
