// Parts of a batch that are filled up with rows of zeros, in the view of a replica: who reads them as if they were real.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The first node of a replica's body that puts rows of a part together, such as a mean over them or the maximum over rows that
// were gathered, without knowing how many are real: none of its operands depends on `rows`. Sums of what is zero for a row of
// zeros, such as x w, may stand. `parts`: arguments, whose dim 0, where they have one, is the rows of the part. `means`: values
// that are known to hold nothing of such rows.
std::optional<int> FindUseOfPadding(const Graph& body, const std::vector<Value>& parts, const Value& rows,
                                    const std::vector<Value>& means);

}  // namespace meshwork
