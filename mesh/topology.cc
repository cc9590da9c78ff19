#include "meshwork/mesh/topology.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

absl::Status CheckLink(const std::string& axis, const Link& link) {
  if (!std::isfinite(link.bandwidth) || link.bandwidth <= 0)
    return InvalidArgument(
        "topology: the bandwidth of \"{}\" is {}; bytes per second are a finite number above 0.", axis,
        link.bandwidth);
  if (!std::isfinite(link.latency) || link.latency < 0)
    return InvalidArgument(
        "topology: the latency of \"{}\" is {}; seconds are a finite number of at least 0.", axis,
        link.latency);
  return absl::OkStatus();
}

std::string WholeAxis(const std::string& name) { return name.substr(0, name.find(':')); }

// Of the axes as declared.
std::map<std::string, int64_t> SizesOf(const Mesh& mesh) {
  std::map<std::string, int64_t> sizes;
  for (const Axis& axis : mesh.axes()) sizes.try_emplace(WholeAxis(axis.name), 1).first->second *= axis.size;
  return sizes;
}

}  // namespace

Link Slowest(const Link& a, const Link& b) {
  return {std::min(a.bandwidth, b.bandwidth), std::max(a.latency, b.latency)};
}

absl::StatusOr<Topology> Topology::Create(const Mesh& mesh, const std::vector<AxisLink>& links,
                                          double flops) {
  if (!std::isfinite(flops) || flops <= 0)
    return InvalidArgument("topology: flops is {}; operations per second are a finite number above 0.",
                           flops);
  Rep rep{.mesh = mesh, .flops = flops};
  for (const AxisLink& entry : links) {
    absl::StatusOr<Mesh> cut = rep.mesh.Cut(entry.axis);
    if (!cut.ok()) return Annotate(cut.status(), "topology: ");
    rep.mesh = *std::move(cut);
    MESHWORK_RETURN_IF_ERROR(CheckLink(entry.axis, entry.link));
  }
  std::vector<const AxisLink*> owner(rep.mesh.num_axes(), nullptr);
  for (const AxisLink& entry : links) {
    const AxisList axes = rep.mesh.FindAxes(entry.axis).value();
    for (int axis : axes) {
      if (owner[axis] != nullptr)
        return InvalidArgument("topology: \"{}\" and \"{}\" both say how fast {} is; leave one of them out.",
                               owner[axis]->axis, entry.axis, rep.mesh.axis(axis).name);
      owner[axis] = &entry;
    }
  }
  for (int axis = 0; axis < rep.mesh.num_axes(); ++axis) {
    if (owner[axis] == nullptr && rep.mesh.axis(axis).size > 1)
      return InvalidArgument("topology: nothing says how fast {} of mesh {} is; every axis has a link.",
                             rep.mesh.axis(axis).name, rep.mesh.ToString());
    rep.links.push_back(owner[axis] == nullptr ? kAssumedLink : owner[axis]->link);
  }
  Topology topology;
  topology.rep_ = std::make_shared<const Rep>(std::move(rep));
  return topology;
}

absl::StatusOr<Topology> Topology::FromJson(const Mesh& mesh, const nlohmann::json& json) {
  const JsonReader document(json, "topology");
  MESHWORK_RETURN_IF_ERROR(document.ExpectKeys({"axes", "flops"}));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader axes, document.Get("axes"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, axes.Keys());
  std::vector<AxisLink> links;
  for (const std::string& name : names) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader item, axes.Get(name));
    MESHWORK_RETURN_IF_ERROR(item.ExpectKeys({"bandwidth", "latency"}));
    links.push_back({.axis = name});
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader bandwidth, item.Get("bandwidth"));
    MESHWORK_ASSIGN_OR_RETURN(links.back().link.bandwidth, bandwidth.Real());
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader latency, item.Get("latency"));
    MESHWORK_ASSIGN_OR_RETURN(links.back().link.latency, latency.Real());
  }
  double flops = kAssumedFlops;
  if (document.Has("flops")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader item, document.Get("flops"));
    MESHWORK_ASSIGN_OR_RETURN(flops, item.Real());
  }
  return Create(mesh, links, flops);
}

absl::StatusOr<Topology> Topology::Parse(const Mesh& mesh, std::string_view text) {
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, "topology"));
  return FromJson(mesh, json);
}

absl::Status Topology::CheckDescribes(const Mesh& mesh) const {
  if (rep_ == nullptr || SizesOf(mesh) == SizesOf(rep_->mesh)) return absl::OkStatus();
  return InvalidArgument("the topology is of mesh {}, not of mesh {}.", rep_->mesh.ToString(),
                         mesh.ToString());
}

std::vector<Link> Topology::LinksOf(const Mesh& mesh) const {
  if (rep_ == nullptr) return std::vector<Link>(mesh.num_axes(), kAssumedLink);
  if (mesh == rep_->mesh) return rep_->links;
  std::vector<Link> links;
  for (const Axis& axis : mesh.axes()) {
    // If an axis of `mesh` lies across a cut of rep_->mesh, it is as slow as the slowest part of the whole axis.
    const absl::StatusOr<Mesh> finer = rep_->mesh.Cut(axis.name);
    const AxisList parts =
        finer.ok() ? finer->FindAxes(axis.name).value() : rep_->mesh.FindAxes(WholeAxis(axis.name)).value();
    std::optional<Link> link;
    for (int there = 0; there < rep_->mesh.num_axes(); ++there) {
      const AxisList own = finer.ok() ? rep_->mesh.On(*finer, {there}) : AxisList{there};
      if (!AxisSet(own).Intersects(AxisSet(parts))) continue;
      link = link.has_value() ? Slowest(*link, rep_->links[there]) : rep_->links[there];
    }
    links.push_back(*link);
  }
  return links;
}

bool Topology::operator==(const Topology& other) const {
  if (rep_ == other.rep_) return true;
  if (rep_ == nullptr || other.rep_ == nullptr) return false;
  return rep_->mesh == other.rep_->mesh && rep_->links == other.rep_->links &&
         rep_->flops == other.rep_->flops;
}

}  // namespace meshwork
