// Padding in the view of a replica: rows of zeros that fill up its part of a batch. Finds ops that read them as real
// rows.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The first node of a replica's body that combines rows of a part, such as a mean over them or the maximum over
// gathered rows, without knowing how many are real: none of its operands depends on `rows`. A sum is allowed if its
// terms, such as x w, are zero for a row of zeros. `parts`: arguments; dim 0, if there is one, is the rows of the
// part. `means`: values that are known not to depend on padding.
std::optional<int> FindUseOfPadding(const Graph& body, const std::vector<Value>& parts, const Value& rows,
                                    const std::vector<Value>& means);

}  // namespace meshwork
