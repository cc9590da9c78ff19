// Mutants of the attributes of collectives and masks: other reductions, axes, orders, blocks and dims.
#pragma once

#include "meshwork/ir/graph.h"
#include "mutation/mutant_writer.h"

namespace meshwork {

// Mutants of `node`, at which `writer` stands. REQUIRES: it has the attribute that is changed.
void OtherReductions(const MutantWriter& writer, const Node& node);  // "op"
void OtherAxes(const MutantWriter& writer, const Node& node);        // "axes"
void FewerDims(const MutantWriter& writer, const Node& node);        // "dims"

}  // namespace meshwork
