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

}  // namespace meshwork
