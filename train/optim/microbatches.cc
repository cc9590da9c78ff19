#include "meshwork/train/optim/microbatches.h"

#include "meshwork/base/status.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

Value MeanOverMicrobatches(int64_t count, const std::vector<Value>& batch,
                           const std::function<Value(const std::vector<Value>& part)>& loss, CallSite loc) {
  if (batch.empty()) return {};
  for (const Value& value : batch)
    if (!value.valid()) return {};
  Graph& graph = *batch[0].graph();
  SourceLocation here(loc);
  here.within = kMicrobatches;
  const LocationScope scope(graph, std::move(here));
  auto fail = [&](std::string_view message) {
    graph.RecordError(graph.Describe("MeanOverMicrobatches", loc) + ": " + std::string(message));
    return Value();
  };
  if (count < 1) return fail(fmt::format("count={}; there is at least 1 part.", count));
  std::vector<Value> parts;
  for (const Value& value : batch) {
    if (value.rank() == 0 || value.shape()[0] % count != 0)
      return fail(fmt::format("{} does not fall into {} along dim 0; {} must divide it.",
                              value.type().ToString(), Count(count, "part"), count));
    Shape split = value.shape();
    split[0] /= count;
    split.insert(split.begin() + 1, count);
    std::vector<int64_t> order = {1, 0};
    for (int d = 2; d < static_cast<int>(split.size()); ++d) order.push_back(d);
    parts.push_back(Transpose(Reshape(value, split), order));
  }
  bool is_scalar = true;
  const ScanResult sum = Scan(
      graph, {}, parts,
      [&](Graph&, const std::vector<Value>&, const std::vector<Value>& part) -> ScanStep {
        const Value mean = loss(part);
        is_scalar = !mean.valid() || (mean.rank() == 0 && IsFloat(mean.dtype()));
        return {{}, {}, {mean}};
      },
      {.is_batch_in_parts = true}, loc);
  if (!is_scalar) return fail("the loss of a part must be a scalar f32[], f64[] or bf16[].");
  if (sum.sums.empty() || !sum.sums[0].valid()) return {};
  // A short batch may have another number of parts.
  return sum.sums[0] / DimensionSize(parts[0], 0, sum.sums[0].dtype());
}

}  // namespace meshwork
