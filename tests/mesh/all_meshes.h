// Lists of meshes over which tests check laws.
#pragma once

#include <cstdint>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

// Every list of at most `max_count` numbers, each at least `least`, whose product is n.
inline std::vector<std::vector<int64_t>> AllFactorings(int64_t n, int64_t least, size_t max_count) {
  std::vector<std::vector<int64_t>> all;
  if (n >= least && max_count >= 1) all.push_back({n});
  if (max_count < 2) return all;
  for (int64_t first = least; first <= n; ++first) {
    if (n % first != 0) continue;
    for (std::vector<int64_t> rest : AllFactorings(n / first, least, max_count - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

// An axis "a" of n devices, cut in every way: "a=12", "a=2*6", …, "a=2*2*3".
inline std::vector<Mesh> AllCuts(int64_t n) {
  std::vector<Mesh> meshes;
  for (const std::vector<int64_t>& parts : AllFactorings(n, 2, 10))
    meshes.push_back(Mesh::Parse(fmt::format("a={}", fmt::join(parts, "*"))).value());
  return meshes;
}

// Every mesh of n devices without axes of size 1, with its axes cut in every way.
inline std::vector<Mesh> AllMeshes(int64_t n) {
  if (n == 1) return {Mesh()};
  std::vector<Mesh> meshes;
  for (const std::vector<int64_t>& parts : AllFactorings(n, 2, 10)) {
    for (unsigned joined = 0; joined < 1u << (parts.size() - 1); ++joined) {
      std::string text = fmt::format("a={}", parts[0]);
      char name = 'a';
      for (size_t i = 1; i < parts.size(); ++i) {
        const bool joins = (joined >> (i - 1) & 1) != 0;
        text += joins ? fmt::format("*{}", parts[i]) : fmt::format(",{}={}", ++name, parts[i]);
      }
      meshes.push_back(Mesh::Parse(text).value());
    }
  }
  return meshes;
}

// Every ordered selection of the mesh's axes.
inline std::vector<AxisList> AllAxisLists(const Mesh& mesh) {
  std::vector<AxisList> lists = {AxisList{}};
  for (size_t i = 0; i < lists.size(); ++i) {
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (AxisSet(lists[i]).Contains(axis)) continue;
      AxisList longer = lists[i];
      longer.push_back(axis);
      lists.push_back(longer);
    }
  }
  return lists;
}

}  // namespace meshwork
