// The rows that tests walk.
#pragma once

#include <vector>

#include "meshwork/ir/row.h"
#include "meshwork/ir/sample.h"

namespace meshwork {

// Every row that a global program may have.
inline std::vector<const OpRow*> RowsUnderContract() {
  std::vector<const OpRow*> rows;
  for (const OpRow* row : AllOps())
    if (row->kind == OpKind::kCompute || row->kind == OpKind::kIdentity) rows.push_back(row);
  return rows;
}

// Rows that random programs draw: all but custom_gradient, whose operands depend on each other. It has
// programs in tests/ops/control/custom_gradient_test.cc and tests/train/custom_gradient_test.cc.
inline std::vector<const OpRow*> DrawnRows() {
  std::vector<const OpRow*> rows = RowsUnderContract();
  std::erase_if(rows, [](const OpRow* row) { return row->name == "custom_gradient"; });
  return rows;
}

}  // namespace meshwork
