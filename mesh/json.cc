#include "meshwork/mesh/json.h"

#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

// An axis is a number of devices, or the list of its parts.
absl::StatusOr<std::vector<int64_t>> ReadSizes(const JsonReader& size) {
  std::vector<int64_t> sizes;
  if (!size.IsList()) {
    MESHWORK_ASSIGN_OR_RETURN(sizes.emplace_back(), size.Integer());
    return sizes;
  }
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> parts, size.Items());
  if (parts.size() < 2) return size.Expected("a whole number, or a list of two or more");
  for (const JsonReader& part : parts) {
    MESHWORK_ASSIGN_OR_RETURN(sizes.emplace_back(), part.Integer());
    if (sizes.back() < 2) return part.Expected("at least 2, a part of an axis");
  }
  return sizes;
}

}  // namespace

nlohmann::json ToJson(const Mesh& mesh) {
  nlohmann::json axes = nlohmann::json::array();
  for (int i = 0; i < mesh.num_axes();) {
    AxisList parts = {i};
    nlohmann::json sizes = {mesh.axis(i).size};
    for (++i; i < mesh.num_axes() && mesh.Continues(i); ++i) {
      parts.push_back(i);
      sizes.push_back(mesh.axis(i).size);
    }
    axes.push_back({{"name", mesh.NamesOf(parts)[0]}, {"size", parts.size() == 1 ? sizes[0] : sizes}});
  }
  return {{"axes", std::move(axes)}};
}

absl::StatusOr<Mesh> MeshFromJson(const nlohmann::json& json) {
  const JsonReader document(json, "mesh JSON");
  MESHWORK_RETURN_IF_ERROR(document.ExpectKeys({"axes"}));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader list, document.Get("axes"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, list.Items());
  std::vector<Axis> axes;
  std::vector<std::string> parts;  // to cut out, by name
  for (const JsonReader& item : items) {
    MESHWORK_RETURN_IF_ERROR(item.ExpectKeys({"name", "size"}));
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader name, item.Get("name"));
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader size, item.Get("size"));
    axes.push_back({.size = 1});
    MESHWORK_ASSIGN_OR_RETURN(axes.back().name, name.String());
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, ReadSizes(size));
    for (int64_t part : sizes) {
      if (sizes.size() > 1)
        parts.push_back(fmt::format("{}:({}){}", axes.back().name, axes.back().size, part));
      if (__builtin_mul_overflow(axes.back().size, part, &axes.back().size))
        return size.Expected("below 2^40 devices");
    }
  }
  MESHWORK_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create(std::move(axes)));
  for (const std::string& part : parts) {
    MESHWORK_ASSIGN_OR_RETURN(mesh, mesh.Cut(part));
  }
  return mesh;
}

}  // namespace meshwork
