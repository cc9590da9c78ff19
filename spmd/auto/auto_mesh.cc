#include "meshwork/spmd/auto/auto_mesh.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// A further cut is made if the step then takes less than this part of the time.
constexpr double kLessTime = 0.999;

// The divisors other than 1 and the number itself, ascending.
std::vector<int64_t> ProperDivisors(int64_t number) {
  std::vector<int64_t> small, large;
  for (int64_t i = 2; i <= number / i; ++i) {
    if (number % i != 0) continue;
    small.push_back(i);
    if (i != number / i) large.push_back(number / i);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

// The program on each mesh that one more cut makes.
std::vector<Graph> WithOneCut(const Graph& graph) {
  std::vector<Graph> all;
  const Mesh& mesh = graph.mesh();
  for (int i = 0; i < mesh.num_axes(); ++i) {
    for (int64_t major : ProperDivisors(mesh.axis(i).size)) {
      const absl::StatusOr<Mesh> cut = mesh.CutAxis(i, major);
      if (!cut.ok()) continue;
      all.push_back(graph);
      all.back().CutMesh(*cut);
    }
  }
  return all;
}

// Keeps the best `most` plans. Of plans that cost the same, it keeps the first, whose mesh is cut less.
void KeepBest(int most, std::vector<FoundLayouts>& plans) {
  std::stable_sort(plans.begin(), plans.end());
  const auto costs_the_same = [](const FoundLayouts& better, const FoundLayouts& other) {
    return !(better < other);
  };
  plans.erase(std::unique(plans.begin(), plans.end(), costs_the_same), plans.end());
  if (std::ssize(plans) > most) plans.erase(plans.begin() + most, plans.end());
}

}  // namespace

absl::StatusOr<std::vector<FoundLayouts>> FindMesh(const Graph& graph, const CompileOptions& options,
                                                   const FindMeshOptions& find) {
  std::vector<FoundLayouts> all;
  absl::Status error;  // of the first mesh
  // The time of the best plan on the mesh; nothing if there is none.
  const auto search = [&](const Graph& on_mesh) -> std::optional<double> {
    if (find.on_search) find.on_search(on_mesh.mesh());
    absl::StatusOr<std::vector<FoundLayouts>> found = FindLayouts(on_mesh, options, {.most = find.most});
    if (!found.ok()) {
      error.Update(found.status());
      return std::nullopt;
    }
    const double seconds = found->front().seconds();
    std::move(found->begin(), found->end(), std::back_inserter(all));
    KeepBest(find.most, all);
    return seconds;
  };
  std::optional<double> least = search(graph);
  if (!least.has_value() && error.code() != absl::StatusCode::kResourceExhausted) return error;
  Graph best = graph;
  for (int cut = 0; cut < find.most_cuts; ++cut) {
    std::optional<Graph> better;
    for (Graph& tried : WithOneCut(best)) {
      const std::optional<double> seconds = search(tried);
      if (!seconds.has_value() || (least.has_value() && *seconds >= *least * kLessTime)) continue;
      least = seconds;
      better = std::move(tried);
    }
    if (!better.has_value()) break;
    best = *std::move(better);
  }
  if (all.empty()) return error;
  return all;
}

}  // namespace meshwork
