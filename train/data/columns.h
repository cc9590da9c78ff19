// Columns: tensors with names, in an order.
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// Column names and tensors, in the order given; each name once.
using Columns = std::vector<std::pair<std::string, Tensor>>;

namespace internal {

// Null: there is no such column.
const Tensor* FindColumn(const Columns& columns, std::string_view name);
// Error: there is no such column (with the nearest name). `where` begins the message: "Batch".
absl::StatusOr<Tensor> GetColumn(const Columns& columns, std::string_view name, std::string_view where);

}  // namespace internal
}  // namespace meshwork
