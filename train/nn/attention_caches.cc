#include "meshwork/train/nn/attention_caches.h"

#include "fmt/format.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

AttentionCaches::AttentionCaches(Graph& graph, const std::string& name, int64_t layers,
                                 const AttentionCachesOptions& options, const Value& places, CallSite loc)
    : first_row_(options.first_row) {
  const Shape shape = {options.rows, options.context, options.kv_heads, options.head};
  const auto variable = [&](int64_t layer, const char* which) {
    return graph.Var(fmt::format("{}/{}/{}", name, layer, which), Zeros(shape, options.dtype), options.layout,
                     {}, loc);
  };
  const auto rows_of = [&](const Variable& all) -> Value {
    if (!first_row_.valid() || !places.valid() || places.rank() == 0) return all;
    return DynamicSlice({all, loc}, first_row_, {0}, {places.shape()[0]});
  };
  for (int64_t i = 0; i < layers; ++i) {
    variables_.push_back({variable(i, "keys"), variable(i, "values")});
    caches_.push_back({rows_of(variables_.back().keys), rows_of(variables_.back().values), places});
  }
}

void AttentionCaches::Update(CallSite loc) const {
  const auto update = [&](const Variable& all, const Value& now) {
    if (!now.valid()) return;  // the layer has recorded why
    all.graph()->Update(all, first_row_.valid() ? DynamicUpdateSlice({all, loc}, now, first_row_, {0}) : now,
                        loc);
  };
  for (size_t i = 0; i < variables_.size(); ++i) {
    update(variables_[i].keys, caches_[i].keys);
    update(variables_[i].values, caches_[i].values);
  }
}

}  // namespace meshwork
