// docs/ops.md, generated from the rows: what each op computes and takes, how it may be sharded and what that
// costs.
#pragma once

#include <string>

#include "meshwork/ir/row.h"

namespace meshwork {

// The page, as Markdown.
std::string OpsReference();

// The page of one op for a shell, a line per fact: "gather: x[:, indices, :] along dim …".
std::string Describe(const OpRow& row);

}  // namespace meshwork
