#include "meshwork/train/parameter_server/row_update.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/control/rebatch.h"

namespace meshwork {
namespace {

size_t RowBytes(const Type& type) {
  return static_cast<size_t>(type.shape[0] == 0 ? 0 : type.bytes() / type.shape[0]);
}

// `tensor`, and zeros behind it.
Tensor Padded(const Tensor& tensor, int64_t count) {
  if (tensor.shape()[0] == count) return tensor;
  Type type = tensor.type();
  type.shape[0] = count;
  Tensor padded = Tensor::Zeros(type);
  std::copy_n(static_cast<const std::byte*>(tensor.raw()), tensor.bytes(),
              static_cast<std::byte*>(padded.raw()));
  return padded;
}

}  // namespace

Tensor PickRows(const DTensor& from, const Tensor& rows, int64_t count) {
  Type type = from.type();
  const size_t row_bytes = RowBytes(type);
  type.shape[0] = count;
  Tensor picked = Tensor::Zeros(type);
  auto* to = static_cast<std::byte*>(picked.raw());
  for (int64_t row : rows.values<int64_t>()) {
    std::copy_n(from.instance(0) + static_cast<size_t>(row) * row_bytes, row_bytes, to);
    to += row_bytes;
  }
  return picked;
}

void PutRows(const Tensor& values, const Tensor& rows, DTensor& to) {
  const size_t row_bytes = RowBytes(to.type());
  const auto* from = static_cast<const std::byte*>(values.raw());
  for (int64_t row : rows.values<int64_t>()) {
    std::copy_n(from, row_bytes, to.instance(0) + static_cast<size_t>(row) * row_bytes);
    from += row_bytes;
  }
}

absl::StatusOr<Session*> RowUpdate::SessionOf(int64_t count) {
  const auto found = sessions_.find(count);
  if (found != sessions_.end()) return &found->second;
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, Rebatch(sparse_.update, kTemplateRows, count));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, options_));
  return &sessions_.emplace(count, std::move(session)).first->second;
}

absl::StatusOr<std::vector<RowUpdate::Change>> RowUpdate::Run(std::map<std::string, DTensor>& state,
                                                              const std::string& suffix, const Tensor& rows,
                                                              const Tensor& gradient, const Feeds& pushed) {
  std::vector<Change> changes;
  if (rows.num_elements() == 0) return changes;
  const auto count = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows.num_elements())));
  MESHWORK_ASSIGN_OR_RETURN(Session* const session, SessionOf(count));
  Feeds feeds;
  for (const std::string& kept : sparse_.kept)
    feeds[RowsOf(kept)] = PickRows(state.at(kept + suffix), rows, count);
  for (const Argument& argument : sparse_.update.arguments()) {
    const std::string& name = sparse_.update.value(argument.value).name;
    const std::string shared = SharedInput("");
    if (feeds.contains(name)) continue;
    if (name.starts_with(shared)) {
      const DTensor& scalar = state.at(name.substr(shared.size()));
      feeds[name] = Tensor::FromMemory(scalar.type(), scalar.instance(0));
    } else if (const auto found = pushed.find(name); found != pushed.end()) {
      feeds[name] = found->second;
    } else {
      feeds[name] = Padded(gradient, count);
    }
  }
  MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session->Run(feeds));
  for (const std::string& kept : sparse_.kept) {
    const auto found = result.outputs().find(RowsOf(kept));
    if (found != result.outputs().end()) changes.push_back({kept + suffix, rows, found->second});
  }
  return changes;
}

}  // namespace meshwork
