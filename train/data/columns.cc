#include "meshwork/train/data/columns.h"

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork::internal {

const Tensor* FindColumn(const Columns& columns, std::string_view name) {
  for (const auto& [column, tensor] : columns)
    if (column == name) return &tensor;
  return nullptr;
}

absl::StatusOr<Tensor> GetColumn(const Columns& columns, std::string_view name, std::string_view where) {
  if (const Tensor* tensor = FindColumn(columns, name)) return *tensor;
  std::vector<std::string> names;
  for (const auto& [column, tensor] : columns) names.push_back(column);
  return absl::NotFoundError(fmt::format("{}: there is no column {}{}", where, Quoted(name),
                                         DidYouMeanOneOf(name, names, "columns")));
}

}  // namespace meshwork::internal
