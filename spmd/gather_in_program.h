// A gather that the compiler refuses, in its program, as the error (refused_gathers.h) and the search for a way around
// it (way_around.h) need it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/refused_gathers.h"

namespace meshwork {

class GatherInProgram {
 public:
  // `global`: before Propagate. Both must outlive this.
  GatherInProgram(const Graph& global, const RefusedGather& gather)
      : global_(global), gather_(gather), propagated_(Propagate(global)) {}

  const Graph& global() const { return global_; }
  const RefusedGather& gather() const { return gather_; }
  // REQUIRES: gather().node >= 0.
  const Node& Reader() const { return global_.nodes()[gather_.node]; }
  int64_t BytesOf(ValueId id) const { return global_.value(id).type.bytes(); }
  const Layout& LayoutOf(ValueId id) const { return *propagated_.graph.value(id).layout; }

  // "%x", "the result of matmul (mlp.cc:12)".
  std::string NameOf(ValueId id) const;
  std::string LineOf(ValueId id) const { return global_.value(id).location.ToString(); }

  // The value whose pin decides the layout of this one: itself, or the value that its axes come from; nothing if
  // they come from several values, or from none.
  std::optional<ValueId> Root(ValueId id) const;

 private:
  ValueId DecidedBy(Origin at) const;

  const Graph& global_;
  const RefusedGather& gather_;
  const PropagateResult propagated_;
};

}  // namespace meshwork
