#include "spmd/windows.h"

#include "base/status.h"
#include "ops/row.h"

namespace meshwork {

bool IsMove(const Graph& global, const Node& node, const Exchange& exchange) {
  const std::vector<Type> operands = TypesOf(global, node.operands), results = TypesOf(global, node.results);
  return node.row->exchange({operands, results, node.attrs}) == exchange;
}

std::vector<WindowedDim> WindowsOn(const Graph& local, const Node& node, const Rule& rule) {
  std::vector<WindowedDim> windows;
  for (const WindowedDim& w : rule.windows) {
    const Layout& layout = *local.value(node.operands[w.operand]).layout;
    if (!layout.IsStrided(w.dim) && layout.NumShards(w.dim) > 1) windows.push_back(w);
  }
  return windows;
}

absl::Status HoldsWindows(const Graph& local, const Node& node, const Rule& rule, size_t o,
                          const std::optional<Exchange>& exchanged, const Shape& of) {
  const Layout& layout = *local.value(node.operands[o]).layout;
  for (int d = 0; d < static_cast<int>(of.size()); ++d) {
    const Window* window = rule.FindWindow(o, static_cast<size_t>(d));
    const ExchangeDim none{.offsets = {0}};
    const ExchangeDim& have = exchanged.has_value() ? exchanged->dims[d] : none;
    if (window == nullptr || layout.IsStrided(d) || layout.NumShards(d) == 1) {
      if (!have.IsIdentity()) return InvalidArgument("dim {} of operand {} is exchanged for nothing.", d, o);
      continue;
    }
    const Letter& letter = rule.letters[rule.operands[o][d]];
    if (have.IsIdentity()) {
      if (!letter.reduced && AreBlocks(*window, local.mesh(), layout.dim(d), letter.size, of[d])) continue;
      return InvalidArgument("dim {} of operand {} is {}, and its windows reach beyond the blocks.", d, o,
                             layout.ToString());
    }
    const ExchangeDim need{.stride = window->stride,
                           .spacing = window->spacing,
                           .offsets = {window->offset},
                           .size = letter.size,
                           .extent = window->extent};
    if (have != need || exchanged->value != window->fill)
      return InvalidArgument("dim {} of operand {} holds other windows than {} reads.", d, o,
                             rule.ToString());
  }
  return absl::OkStatus();
}

}  // namespace meshwork
