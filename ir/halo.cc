#include "meshwork/ir/halo.h"

#include <utility>

#include "meshwork/ir/row.h"

namespace meshwork {

std::vector<WindowedDim> CutWindows(const Rule& rule, std::span<const ValueInfo* const> operands) {
  std::vector<WindowedDim> windows;
  for (WindowedDim w : rule.windows) {
    const ValueInfo& operand = *operands[w.operand];
    const Layout& layout = *operand.layout;
    if (layout.NumShards(w.dim) == 1) continue;
    const Letter& letter = rule.letters[rule.operands[w.operand][w.dim]];
    w.is_own = !letter.reduced && AreBlocks(w.window, layout.mesh(), layout.dim(w.dim), letter.size,
                                            operand.global.shape[w.dim]);
    windows.push_back(w);
  }
  return windows;
}

std::optional<Halo> HaloOf(const Rule& rule, std::span<const WindowedDim> windows, size_t i,
                           const ValueInfo& operand) {
  const Layout& layout = *operand.layout;
  Halo halo{.result = {.type = operand.type, .global = operand.global, .layout = layout}};
  for (int d = 0; d < layout.rank(); ++d) halo.exchange.dims.push_back({.offsets = {0}});
  bool lacks = false;
  for (const WindowedDim& w : windows) {
    if (static_cast<size_t>(w.operand) != i || w.is_own) continue;
    const auto d = static_cast<size_t>(w.dim);
    const Letter& letter = rule.letters[rule.operands[i][d]];
    const AxisList& axes = layout.dim(w.dim);
    halo.exchange.dims[d] = {.stride = w.window.stride,
                             .spacing = w.window.spacing,
                             .offsets = {w.window.offset},
                             .size = letter.size,
                             .extent = w.window.extent};
    halo.exchange.value = w.window.fill;
    Shape& shape = halo.result.type.shape;
    shape[d] = WindowSize(w.window, BlockSize(layout.mesh(), axes, letter.size));
    halo.result.global.shape[d] = shape[d] * layout.mesh().GroupSize(axes);
    lacks = true;
  }
  if (!lacks) return std::nullopt;
  return halo;
}

ValueId AddExchange(Graph& local, std::span<const ValueId> operands, const Exchange& exchange,
                    ValueInfo result, SourceLocation location, std::string cause) {
  const OpRow& row = GetOp("exchange");
  Node node{.row = &row,
            .operands = {operands.begin(), operands.end()},
            .attrs = Graph::CompleteAttrs(row, exchange.ToAttrs()).value(),
            .location = location,
            .cause = std::move(cause)};
  return local.nodes()[local.AddNode(std::move(node), {std::move(result)})].results[0];
}

}  // namespace meshwork
