#include "meshwork/layout/json.h"

#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/spelled.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

nlohmann::json DimToJson(const DimSpec& dim) {
  if (dim.mode() == DimMode::kOpen) return "?";
  if (dim.mode() == DimMode::kMatch) return "MATCH";
  if (dim.factors().empty()) return dim.axes();
  nlohmann::json factors = nlohmann::json::array();
  for (const FactorSpec& factor : dim.factors())
    factors.push_back({{"size", factor.size}, {"axes", factor.axes}});
  return factors;
}

absl::StatusOr<DimSpec> ReadFactors(const std::vector<JsonReader>& items) {
  std::vector<FactorSpec> factors;
  for (const JsonReader& item : items) {
    MESHWORK_RETURN_IF_ERROR(item.ExpectKeys({"size", "axes"}));
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader size, item.Get("size"));
    FactorSpec& factor = factors.emplace_back();
    MESHWORK_ASSIGN_OR_RETURN(factor.size, size.Integer());
    if (!item.Has("axes")) continue;
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader axes, item.Get("axes"));
    MESHWORK_ASSIGN_OR_RETURN(factor.axes, axes.Strings());
  }
  return DimSpec::Factors(std::move(factors));
}

absl::StatusOr<DimSpec> ReadDim(const JsonReader& dim) {
  if (dim.IsString()) {
    MESHWORK_ASSIGN_OR_RETURN(const std::string mode, dim.String());
    if (mode == "?") return DimSpec(OPEN);
    if (mode == "MATCH") return DimSpec(MATCH);
  }
  if (!dim.IsList()) return dim.Expected("a list of axes or factors, \"?\" or \"MATCH\"");
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, dim.Items());
  if (!items.empty() && items[0].IsObject()) return ReadFactors(items);
  MESHWORK_ASSIGN_OR_RETURN(std::vector<std::string> axes, dim.Strings());
  return DimSpec(std::move(axes));
}

absl::StatusOr<PartialSpec> ReadPartial(const JsonReader& partial) {
  MESHWORK_RETURN_IF_ERROR(partial.ExpectKeys({"op", "axes"}));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader op, partial.Get("op"));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader axes, partial.Get("axes"));
  PartialSpec spec;
  MESHWORK_ASSIGN_OR_RETURN(const std::string name, op.String());
  absl::StatusOr<ReduceOp> read = ReduceOpFromName(name);
  if (!read.ok()) return Annotate(read.status(), "layout JSON: partial.op: ");
  spec.op = *read;
  MESHWORK_ASSIGN_OR_RETURN(spec.axes, axes.Strings());
  if (spec.axes.empty()) return axes.Expected("a list of one axis or more");
  return spec;
}

}  // namespace

nlohmann::json ToJson(const LayoutPin& pin) {
  const SpelledLayout spelled = Spell(pin);
  nlohmann::json dims = nlohmann::json::array();
  for (const DimSpec& dim : spelled.dims) dims.push_back(DimToJson(dim));
  nlohmann::json json = {{"dims", std::move(dims)}};
  if (!spelled.owed.empty())
    json["partial"] = {{"op", ReduceOpName(spelled.owed[0].op)}, {"axes", spelled.owed[0].axes}};
  return json;
}

nlohmann::json ToJson(const Layout& layout) { return ToJson(LayoutPin{layout}); }

absl::StatusOr<LayoutPin> LayoutPinFromJson(const Mesh& mesh, const nlohmann::json& json) {
  const JsonReader document(json, "layout JSON");
  MESHWORK_RETURN_IF_ERROR(document.ExpectKeys({"dims", "partial"}));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader list, document.Get("dims"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, list.Items());
  SpelledLayout spelled;
  for (const JsonReader& item : items) {
    MESHWORK_ASSIGN_OR_RETURN(DimSpec dim, ReadDim(item));
    spelled.dims.push_back(std::move(dim));
  }
  if (document.Has("partial")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader partial, document.Get("partial"));
    MESHWORK_ASSIGN_OR_RETURN(PartialSpec owed, ReadPartial(partial));
    spelled.owed.push_back(std::move(owed));
  }
  return Resolve(mesh, spelled, ToString(spelled));
}

absl::StatusOr<Layout> LayoutFromJson(const Mesh& mesh, const nlohmann::json& json) {
  return Locked(LayoutPinFromJson(mesh, json));
}

}  // namespace meshwork
