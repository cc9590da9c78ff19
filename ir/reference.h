// What docs/ops.md says of every op, made of the rows: what it computes and takes, how it may be sharded and
// what that costs.
#pragma once

#include <string>

#include "meshwork/ir/row.h"

namespace meshwork {

// The page, as Markdown.
std::string OpsReference();

// One op for a shell: "gather: x[:, indices, :] along dim …", a line per thing to know.
std::string Describe(const OpRow& row);

}  // namespace meshwork
