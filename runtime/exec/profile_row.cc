#include "meshwork/runtime/exec/profile_row.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// "f32[16,700] of f32[128,700] {batch,_}", for each.
template <typename Ids>
std::string TypesAndLayouts(const Graph& local, const Ids& values) {
  std::vector<std::string> texts;
  for (ValueId id : values) {
    const ValueInfo& info = local.value(id);
    texts.push_back(
        fmt::format("{} of {} {}", info.type.ToString(), info.global.ToString(), info.layout->ToString()));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

ProfileRow RowOfNode(const Graph& local, int node) {
  const Node& of = local.nodes()[static_cast<size_t>(node)];
  return {.op = std::string(of.row->name),
          .where = of.location.ToString(),
          .result = of.results.size() == 1 ? local.value(of.results[0]).global.ToString()
                                           : fmt::format("{} values", of.results.size()),
          .cause = of.cause,
          .calls = 1};
}

void AddNodes(const Graph& local, std::span<const ProfiledNode> nodes, ProfileRow& row) {
  constexpr size_t kNamed = 4;
  std::vector<std::string_view> ops, causes;
  for (const ProfiledNode& profiled : nodes) {
    const Node& node = local.nodes()[static_cast<size_t>(profiled.node)];
    ops.push_back(node.row->name);
    if (profiled.reduces >= 0) {
      const Node& sum = local.nodes()[static_cast<size_t>(profiled.reduces)];
      ops.push_back(sum.row->name);
      if (!sum.cause.empty()) causes.push_back(sum.cause);
    }
    row.flops += FlopsOf(local, node) * profiled.instances;
  }
  const size_t named = ops.size() > kNamed ? kNamed - 1 : ops.size();
  row.op = fmt::format("{}", fmt::join(ops.begin(), ops.begin() + static_cast<int64_t>(named), "+"));
  if (named < ops.size()) row.op += fmt::format("+{} more", ops.size() - named);
  if (row.cause.empty()) row.cause = fmt::format("{}", fmt::join(causes, "; "));
}

void AddTransfers(std::span<const Transfer> transfers, ProfileRow& row) {
  for (const Transfer& transfer : transfers) {
    const auto buffers = static_cast<int64_t>(transfer.from.size()) + (transfer.to >= 0 ? 1 : 0);
    row.bytes += transfer.box.elements() * DTypeSize(transfer.dtype) * buffers;
  }
}

void AddValues(const Graph& local, int node, TraceLabel& label) {
  const Node& of = local.nodes()[static_cast<size_t>(node)];
  const auto add = [&](std::string_view name, std::string text) {
    if (!text.empty()) label.texts.emplace_back(name, std::move(text));
  };
  add("operands", TypesAndLayouts(local, of.operands));
  add("result", TypesAndLayouts(local, of.results));
  if (const CollectiveSpec collective = CollectiveOf(of); collective.has_axes())
    add("axes", local.mesh().AxesToString(collective.axes));
}

}  // namespace meshwork
