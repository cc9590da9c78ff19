#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_fault.h"

#include <algorithm>
#include <cstdlib>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/cuda/cuda_status.h"

namespace meshwork {
namespace {

constexpr const char* kVariable = "MESHWORK_BLOCKING_LAUNCHES";
constexpr size_t kMostNamed = 4;

std::string NamesOfNodes(const Graph& graph, const std::vector<ProfiledNode>& nodes) {
  std::vector<std::string> names;
  for (const ProfiledNode& profiled : nodes) {
    std::string name = graph.Describe(profiled.node);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  const size_t named = std::min(names.size(), kMostNamed);
  const std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  return named == names.size() ? text : fmt::format("{} and {} more", text, names.size() - named);
}

std::string NameOfAction(const CudaLevel& level, const TransferLaunch& launch) {
  if (launch.node >= 0) return level.plan->graph->Describe(launch.node);
  return fmt::format("the copy of {}", launch.subject);
}
std::string NameOfAction(const CudaLevel& level, const LoopLaunch& loop) {
  return level.plan->graph->Describe(loop.node);
}
std::string NameOfAction(const CudaLevel&, const CompareStep& compare) {
  return fmt::format("the comparison of {}", compare.step->subject);
}
std::string NameOfAction(const CudaLevel& level, const RemoteLaunch& launch) {
  return level.plan->graph->Describe(launch.step->node);
}
// For kernels and products: the names of their nodes.
template <typename Launch>
std::string NameOfAction(const CudaLevel& level, const Launch& launch) {
  return NamesOfNodes(*level.plan->graph, launch.nodes);
}

absl::Status Fault(const CudaContext& context, std::string_view ran, std::string_view way_out) {
  return absl::Status(
      context.ToStatus(context.lost(), ran).code(),
      fmt::format("{} on {}: {}. {}This process cannot use the GPU any more, so start it again.", ran,
                  context.where(), ErrorToString(context.api(), context.lost()), way_out));
}

}  // namespace

bool BlocksLaunches(bool option) {
  const char* const value = std::getenv(kVariable);
  return option || (value != nullptr && *value != '\0' && std::string_view(value) != "0");
}

std::string DescribeAction(const CudaLevel& level, const CudaAction& action) {
  return std::visit([&](const auto& launch) { return NameOfAction(level, launch); }, action);
}

absl::Status FaultOfLaunch(const CudaContext& context, std::string_view ran) {
  return Fault(context, fmt::format("Run: {}: it failed", ran), "");
}

absl::Status FaultOfStep(const CudaContext& context, std::string_view phase, std::string_view step) {
  return Fault(
      context, fmt::format("{}: {}: a kernel failed", phase, step),
      fmt::format("Set ExecutorOptions::blocking_launches, or {}=1 in the environment, and the message names "
                  "its op and line. ",
                  kVariable));
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
