#include "meshwork/train/nn/tensor_constant.h"

#include <span>

#include "meshwork/base/status.h"
#include "meshwork/ops/generate.h"

namespace meshwork {

Value Constant(Graph& graph, const Tensor& tensor, CallSite loc) {
  if (!tensor.valid()) {
    graph.RecordError(fmt::format("{}: {}", graph.Describe("constant", loc), MessageOf(tensor.status())));
    return {};
  }
  return Dispatch(tensor.dtype(), [&](auto zero) {
    return Constant(graph, ElementList(tensor.values<decltype(zero)>()), tensor.type(), loc);
  });
}

}  // namespace meshwork
