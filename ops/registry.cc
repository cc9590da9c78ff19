#include "ops/registry.h"

#include <map>
#include <string>

#include "base/status.h"
#include "base/suggest.h"

namespace meshwork {
namespace {

const std::map<std::string_view, const OpRow*>& Index() {
  static const auto* index = [] {
    auto* map = new std::map<std::string_view, const OpRow*>;
    for (const OpRow* row : AllOps()) MESHWORK_CHECK(map->emplace(row->name, row).second, "{}", row->name);
    return map;
  }();
  return *index;
}

}  // namespace

const std::vector<const OpRow*>& AllOps() {
  static const auto* rows = [] {
    auto* all = new std::vector<const OpRow*>;
    for (std::span<const OpRow> family :
         {ArithmeticOps(), CompareOps(), UnaryOps(), ActivationOps(), CastOps(), ShapeOps(), SlicingOps(),
          GatherOps(), ReduceOps(), MatmulOps(), GenerateOps(), RandomOps(), OptimizerOps(),
          CollectiveOps()}) {
      for (const OpRow& row : family) all->push_back(&row);
    }
    return all;
  }();
  return *rows;
}

absl::StatusOr<const OpRow*> FindOp(std::string_view name) {
  const auto it = Index().find(name);
  if (it != Index().end()) return it->second;
  std::vector<std::string> names;
  for (const OpRow* row : AllOps()) names.emplace_back(row->name);
  std::string hint = DidYouMean(name, names);
  return InvalidArgument("there is no op \"{}\"{}", name, hint.empty() ? "." : hint);
}

const OpRow& GetOp(std::string_view name) {
  const auto it = Index().find(name);
  MESHWORK_CHECK(it != Index().end(), "op {}", name);
  return *it->second;
}

}  // namespace meshwork
