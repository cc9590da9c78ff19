// Session::Predict: any number of rows, by programs for few sizes of batches.
#include <algorithm>
#include <cstring>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/control/independent_rows.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/session/batch_sizes.h"
#include "meshwork/session/session_impl.h"

namespace meshwork {
namespace {

// The rows of `part`, and copies of the last one in the rest of the batch: whatever an op takes of that row, it takes of
// its copies, which zeros would not ensure.
Tensor PaddedRows(const Tensor& feed, const BatchPart& part) {
  const Tensor rows = feed.Rows(part.begin, part.begin + part.rows);
  if (part.rows == part.size) return rows;
  Type type = rows.type();
  type.shape[0] = part.size;
  Tensor padded(type);
  const int64_t row = rows.bytes() / part.rows;
  auto* to = static_cast<std::byte*>(padded.raw());
  const auto* from = static_cast<const std::byte*>(rows.raw());
  std::memcpy(to, from, static_cast<size_t>(rows.bytes()));
  for (int64_t i = part.rows; i < part.size; ++i)
    std::memcpy(to + i * row, from + (part.rows - 1) * row, static_cast<size_t>(row));
  return padded;
}

}  // namespace

const Session::Impl::ApartRows& Session::Impl::ApartRowsOf(const std::vector<std::string>& outputs) {
  const auto found = apart.find(outputs);
  if (found != apart.end()) return found->second;
  ApartRows& made = apart[outputs];
  const Graph& global = GraphOf(Mode::kEvaluate, outputs);
  const bool is_distributed = std::any_of(
      global.outputs().begin(), global.outputs().end(),
      [&](const OutputInfo& output) { return options.executor.distributed.contains(output.name); });
  if (transport != nullptr || is_distributed) return made;
  const absl::StatusOr<std::vector<int64_t>> elements = IndependentRows(global, BatchSize());
  if (!elements.ok()) return made;
  for (size_t o = 0; o < global.outputs().size(); ++o)
    made.elements.emplace(global.outputs()[o].name, (*elements)[o]);
  for (int64_t size : BatchSizes(BatchSize()))
    if (size == BatchSize() || Rebatch(global, BatchSize(), size).ok()) made.sizes.push_back(size);
  if (made.sizes.back() != 1) made.sizes.clear();
  return made;
}

bool Session::Impl::FitsButForRows(const Graph& global, const Feeds& feeds) const {
  return std::all_of(global.arguments().begin(), global.arguments().end(), [&](const Argument& argument) {
    if (!IsBatch(global, argument)) return true;
    const ValueInfo& info = global.value(argument.value);
    Type type = feeds.at(info.name).type();
    type.shape[0] = info.type.shape[0];
    return type == info.type;
  });
}

absl::StatusOr<StepResult> Session::Impl::Predict(const Feeds& feeds, std::vector<std::string> outputs) {
  MESHWORK_ASSIGN_OR_RETURN(outputs, CheckOutputs(std::move(outputs)));
  const Graph& global = GraphOf(Mode::kEvaluate, outputs);
  const int64_t full = BatchSize(), rows = FedRows(global, feeds);
  if (rows < 1 || rows == full) return Evaluate(feeds, std::move(outputs));
  if (rows > full) MESHWORK_RETURN_IF_ERROR(CheckHasRows(global));
  const int64_t rest = rows % full;
  const bool is_exact =
      rest == 0 || ready.contains({rest, Mode::kEvaluate, outputs}) || !FitsButForRows(global, feeds);
  static const ApartRows kTogether;
  const ApartRows& apart = is_exact ? kTogether : ApartRowsOf(outputs);
  if (rows < full && apart.sizes.empty()) return Evaluate(feeds, std::move(outputs));
  std::vector<int64_t> sizes = apart.sizes;
  if (sizes.empty()) sizes = {full};
  if (apart.sizes.empty() && rest != 0) sizes.push_back(rest);
  std::map<std::string, std::vector<Tensor>> parts;
  Feeds fed = NeededFeeds(global, feeds);
  for (const BatchPart& part : CutIntoBatches(rows, sizes)) {
    for (const Argument& argument : global.arguments()) {
      const std::string& name = global.value(argument.value).name;
      if (IsBatch(global, argument)) fed[name] = PaddedRows(feeds.at(name), part);
    }
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, Evaluate(fed, outputs));
    for (const auto& [name, tensor] : result.outputs()) {
      const int64_t elements = apart.sizes.empty() ? 1 : apart.elements.at(name);
      if (elements != 0) parts[name].push_back(tensor.Rows(0, part.rows * elements));
      else if (part.begin == 0) parts[name].push_back(tensor);
    }
  }
  std::map<std::string, Tensor> joined;
  for (auto& [name, tensors] : parts) {
    const bool has_rows = apart.sizes.empty() || apart.elements.at(name) != 0;
    // Concat copies a single part, too, so that no rows of padding stay in memory.
    joined.emplace(name, has_rows ? Tensor::Concat(tensors, 0) : tensors[0]);
    tensors.clear();
  }
  return StepResult(std::move(joined));
}

absl::Status Session::Impl::CheckHasRows(const Graph& global) const {
  const int64_t full = BatchSize(), other = full + 1;
  absl::StatusOr<Graph> rebatched = Rebatch(global, full, other);
  if (!rebatched.ok())
    return Annotate(rebatched.status(), fmt::format("Session: more than {} can be predicted only in parts: ",
                                                    Count(full, "row")));
  for (size_t o = 0; o < global.outputs().size(); ++o) {
    const OutputInfo& output = global.outputs()[o];
    const Type& type = global.value(output.value).type;
    Type wanted = type;
    if (type.rank() > 0 && type.shape[0] == full) wanted.shape[0] = other;
    if (type.rank() > 0 && type.shape[0] == full &&
        rebatched->value(rebatched->outputs()[o].value).type == wanted &&
        !options.executor.distributed.contains(output.name))
      continue;
    return InvalidArgument(
        "Session: output \"{}\" is {}, without a row of its own for each of the batch's, so more than {} cannot be "
        "predicted in parts; choose other outputs, or feed at most {}.",
        output.name, type.ToString(), Count(full, "row"), Count(full, "row"));
  }
  return absl::OkStatus();
}

}  // namespace meshwork
