// Unsharded inputs with names of their own, for graphs that are refused.
#pragma once

#include <string>

#include "meshwork/ir/graph.h"

namespace meshwork {

inline Value In(Graph& g, DType dtype, const Shape& shape, CallSite loc = CallSite::Current()) {
  return g.Input("x" + std::to_string(g.values().size()), dtype, shape, LayoutSpec(shape.size(), UNSHARDED),
                 loc);
}
inline Value In(Graph& g, const Shape& shape, DType dtype = F32, CallSite loc = CallSite::Current()) {
  return In(g, dtype, shape, loc);
}

}  // namespace meshwork
