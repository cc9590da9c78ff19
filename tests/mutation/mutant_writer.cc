#include "mutation/mutant_writer.h"

#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

bool SlicesAreWithin(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.row->name != "shard_slice") continue;
    const ValueInfo& from = graph.value(node.operands[0]);
    const ValueInfo& to = graph.value(node.results[0]);
    for (int64_t device = 0; device < graph.mesh().num_devices(); ++device) {
      const Block a = to.layout->BlockOf(to.global.shape, device);
      const Block b = from.layout->BlockOf(from.global.shape, device);
      if (a.size() != b.size()) return false;
      for (size_t d = 0; d < a.size(); ++d)
        if (a[d].start < b[d].start || a[d].start + a[d].size > b[d].start + b[d].size) return false;
    }
  }
  return true;
}

}  // namespace

void MutantWriter::Emit(std::string kind, std::string what, Graph graph) const {
  // Otherwise the kernel of a slice would read outside its operand.
  if (SlicesAreWithin(graph)) use_({std::move(kind), std::move(what), std::move(graph)});
}

void MutantWriter::Add(std::string kind, const Edit& edit) const {
  Emit(std::move(kind), local_.Describe(at_) + fmt::format(", node {}", at_), With(edit));
}

void MutantWriter::AddChanged(std::string kind, const Node& node, const Attrs& attrs,
                              const std::function<void(size_t, ValueInfo&)>& change) const {
  Add(std::move(kind), [&](Rewriter& rewriter) {
    Node copy = node;
    copy.attrs = attrs;
    const int index = rewriter.Copy(copy);
    for (size_t r = 0; r < node.results.size() && change != nullptr; ++r)
      change(r, rewriter.to().mutable_value(rewriter.to().nodes()[index].results[r]));
  });
}

Graph MutantWriter::With(const Edit& edit) const {
  Rewriter rewriter(local_);
  for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
    if (n == at_) edit(rewriter);
    else rewriter.Copy(local_.nodes()[n]);
  }
  return std::move(rewriter).Finish();
}

}  // namespace meshwork
