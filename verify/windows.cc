#include "meshwork/verify/windows.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"

namespace meshwork {

namespace {

bool SameWindow(const Window& a, const Window& b) {
  return a.stride == b.stride && a.offset == b.offset && a.extent == b.extent && a.spacing == b.spacing &&
         SameAttr(a.fill, b.fill);
}

}  // namespace

bool SeeAlike(const Graph& global, const Node& a, const Node& b) {
  if (a.row != b.row || a.row->on_windows == nullptr) return false;
  if (TypesOf(global, a.results) != TypesOf(global, b.results)) return false;
  const std::vector<WindowedDim> seen = RuleOf(global, a).windows, others = RuleOf(global, b).windows;
  const bool same = std::equal(
      seen.begin(), seen.end(), others.begin(), others.end(), [](const WindowedDim& x, const WindowedDim& y) {
        return x.operand == y.operand && x.dim == y.dim && SameWindow(x.window, y.window);
      });
  return same && a.row->on_windows(a.attrs, seen) == b.row->on_windows(b.attrs, others);
}

std::vector<WindowedDim> WindowsOn(const Graph& local, const Node& node, const Rule& rule,
                                   std::span<const Type> operands) {
  std::vector<WindowedDim> windows;
  for (WindowedDim w : rule.windows) {
    const Layout& layout = *local.value(node.operands[w.operand]).layout;
    if (layout.IsStrided(w.dim) || layout.NumShards(w.dim) == 1) continue;
    const Letter& letter = rule.letters[rule.operands[w.operand][w.dim]];
    w.is_own = !letter.reduced && AreBlocks(w.window, local.mesh(), layout.dim(w.dim), letter.size,
                                            operands[w.operand].shape[w.dim]);
    windows.push_back(w);
  }
  return windows;
}

absl::Status HoldsWindows(const Graph& local, const Node& node, const Rule& rule, size_t o,
                          const std::optional<Exchange>& exchanged, std::span<const WindowedDim> windows) {
  const Layout& layout = *local.value(node.operands[o]).layout;
  for (int d = 0; d < layout.rank(); ++d) {
    const auto seen = std::find_if(windows.begin(), windows.end(), [&](const WindowedDim& w) {
      return static_cast<size_t>(w.operand) == o && w.dim == d;
    });
    const ExchangeDim none{.offsets = {0}};
    const ExchangeDim& have = exchanged.has_value() ? exchanged->dims[d] : none;
    if (seen == windows.end() || seen->is_own) {
      if (!have.IsIdentity()) return InvalidArgument("dim {} of operand {} is exchanged for nothing.", d, o);
      continue;
    }
    if (have.IsIdentity())
      return InvalidArgument("dim {} of operand {} is {}, and its windows reach beyond the blocks.", d, o,
                             layout.ToString());
    const Window& window = seen->window;
    const ExchangeDim need{.stride = window.stride,
                           .spacing = window.spacing,
                           .offsets = {window.offset},
                           .size = rule.letters[rule.operands[o][d]].size,
                           .extent = window.extent};
    if (have != need || !SameAttr(exchanged->value, window.fill))
      return InvalidArgument("dim {} of operand {} holds other windows than {} reads.", d, o,
                             rule.ToString());
  }
  return absl::OkStatus();
}

}  // namespace meshwork
