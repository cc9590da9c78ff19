#include "meshwork/runtime/plan/split_collective.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwork {
namespace {

// The compiler says why for one value after the other, with "; " between.
std::string_view CauseOf(std::string_view causes, size_t result) {
  for (; result > 0 && causes.find("; ") != std::string_view::npos; --result)
    causes.remove_prefix(causes.find("; ") + 2);
  return causes.substr(0, causes.find("; "));
}

}  // namespace

void CopyPart(const Graph& from, const Node& node, std::span<const size_t> results, Rewriter& rewriter) {
  Node part = node;
  part.operands.clear();
  part.results.clear();
  std::vector<ValueInfo> infos;
  std::string causes;
  for (size_t r : results) {
    part.operands.push_back(rewriter.Map(node.operands[r]));
    infos.push_back(from.value(node.results[r]));
    if (!causes.empty()) causes += "; ";
    causes += CauseOf(node.cause, r);
  }
  part.cause = std::move(causes);
  const int index = rewriter.to().AddNode(std::move(part), std::move(infos));
  for (size_t i = 0; i < results.size(); ++i)
    rewriter.Set(node.results[results[i]], rewriter.to().nodes()[index].results[i]);
}

}  // namespace meshwork
