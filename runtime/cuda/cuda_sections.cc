#include "meshwork/runtime/cuda/cuda_sections.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <variant>

namespace meshwork {
namespace {

// A graph takes some hundred bytes for a node.
constexpr int64_t kMostNodes = 20000;

// The number of nodes that a graph of the level, with its bodies, would have; counts far above kMostNodes are cut off.
int64_t NodesOf(const CudaLevel& level) {
  int64_t count = 0;
  for (const CudaAction& action : level.actions) {
    const auto* const loop = std::get_if<LoopLaunch>(&action);
    if (loop == nullptr) {
      ++count;
      continue;
    }
    for (const CudaLevel& body : loop->bodies)
      count += std::min(kMostNodes, std::max<int64_t>(loop->length, 1)) * NodesOf(body);
    count = std::min(count, 2 * kMostNodes);
  }
  return count;
}

// Whether an exchange begins in one section and is waited for in another, one of them a graph: a graph must wait for
// all that it begins.
bool CrossesGraphs(const CudaLevel& root, const std::vector<CudaSection>& sections) {
  std::map<int, size_t> begun;  // per operation: its section
  for (size_t s = 0; s < sections.size(); ++s) {
    for (size_t i = sections[s].begin; i < sections[s].end; ++i) {
      const auto* const remote = std::get_if<RemoteLaunch>(&root.actions[i]);
      if (remote == nullptr || remote->step->kind == RemoteStep::Kind::kRun) continue;
      const size_t from = begun.try_emplace(remote->step->operation, s).first->second;
      if (from != s && (sections[from].is_graph || sections[s].is_graph)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<CudaSection> CutIntoSections(const CudaLevel& root, bool may_be_graph, bool remotes_read_host) {
  may_be_graph = may_be_graph && NodesOf(root) <= kMostNodes;
  std::vector<CudaSection> sections;
  const size_t size = root.actions.size();
  for (size_t i = 0; i < size; ++i) {
    const bool is_graph = may_be_graph && !ReadsHost(root.actions[i], remotes_read_host);
    if (sections.empty() || sections.back().is_graph != is_graph) sections.push_back({i, i, is_graph});
    sections.back().end = i + 1;
  }
  if (sections.empty() || (may_be_graph && !sections.back().is_graph))
    sections.push_back({size, size, may_be_graph});
  if (CrossesGraphs(root, sections)) return CutIntoSections(root, /*may_be_graph=*/false, remotes_read_host);
  return sections;
}

}  // namespace meshwork
