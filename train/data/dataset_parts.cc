#include "meshwork/train/data/dataset_parts.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline_call.h"

namespace meshwork::internal {
namespace {

constexpr int64_t kMostExamples = int64_t{1} << 40;  // as many as a tensor has elements

// `where`: "Dataset", or "Dataset: part 3".
absl::Status CheckColumns(const Columns& columns, std::string_view where) {
  if (columns.empty()) return InvalidArgument("{}: has no columns; give at least one.", where);
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto& [name, tensor] = columns[i];
    MESHWORK_RETURN_IF_ERROR(Annotate(tensor.status(), fmt::format("{}: column {}: ", where, Quoted(name))));
    if (tensor.type().rank() == 0) {
      return InvalidArgument("{}: column {} is a scalar {}; a column has one row per example.", where,
                             Quoted(name), tensor.type().ToString());
    }
    for (size_t j = 0; j < i; ++j) {
      if (columns[j].first == name)
        return InvalidArgument("{}: column {} is given twice; names must be unique.", where, Quoted(name));
    }
    if (tensor.shape()[0] != columns[0].second.shape()[0]) {
      return InvalidArgument("{}: column {} is {} but {} is {}; columns must have as many rows.", where,
                             Quoted(columns[0].first), columns[0].second.type().ToString(), Quoted(name),
                             tensor.type().ToString());
    }
  }
  return absl::OkStatus();
}

bool AreAlike(const Columns& a, const Columns& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const Type &s = x.second.type(), &t = y.second.type();
    return x.first == y.first && s.dtype == t.dtype &&
           std::equal(s.shape.begin() + 1, s.shape.end(), t.shape.begin() + 1, t.shape.end());
  });
}

// "image f32[30000,784], label i32[30000]"
std::string Describe(const Columns& columns) {
  std::vector<std::string> texts;
  for (const auto& [name, tensor] : columns)
    texts.push_back(fmt::format("{} {}", Printable(name), tensor.type().ToString()));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Type WithRows(Type type, int64_t rows) {
  type.shape[0] = rows;
  return type;
}

constexpr int64_t kMostHashed = int64_t{16} << 20;  // bytes of a column

// The hash of the bytes, which follow others whose hash is `hash`.
uint64_t HashOf(std::span<const std::byte> bytes, uint64_t hash) {
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t size = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), size);
    hash = MixedHash(hash, word);
    bytes = bytes.subspan(size);
  }
  return hash;
}

}  // namespace

int64_t RowBytes(const Tensor& column) { return WithRows(column.type(), 1).bytes(); }

absl::StatusOr<std::shared_ptr<DatasetParts>> DatasetParts::Create(Columns columns) {
  MESHWORK_RETURN_IF_ERROR(CheckColumns(columns, "Dataset"));
  std::shared_ptr<DatasetParts> parts(new DatasetParts());
  const int64_t examples = columns[0].second.shape()[0];
  parts->first_ = {0, examples};
  parts->in_memory_ = true;
  State& state = parts->states_.emplace_back();
  state.part.examples = examples;
  state.is_loaded = true;
  state.columns = parts->like_ = std::move(columns);
  parts->loaded_first_ = 0;
  return parts;
}

absl::StatusOr<std::shared_ptr<DatasetParts>> DatasetParts::Create(std::vector<Dataset::Part> parts) {
  if (parts.empty()) return InvalidArgument("Dataset: has no parts; give at least one.");
  std::shared_ptr<DatasetParts> made(new DatasetParts());
  made->first_ = {0};
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t examples = parts[p].examples;
    if (parts[p].load == nullptr)
      return InvalidArgument("Dataset: part {} has no load; give a function that returns its columns.", p);
    if (examples < 0)
      return InvalidArgument("Dataset: part {} has {}; a part has 0 or more.", p, Count(examples, "example"));
    if (examples > kMostExamples - made->size())
      return InvalidArgument("Dataset: part {} has {}, after {} in other parts; a dataset has at most 2^40.",
                             p, Count(examples, "example"), made->size());
    made->first_.push_back(made->size() + examples);
    made->states_.emplace_back().part = std::move(parts[p]);
  }
  return made;
}

uint64_t DatasetParts::Contents(int64_t examples) const {
  if (!in_memory_) return 0;
  uint64_t hash = static_cast<uint64_t>(examples);
  for (const auto& [name, tensor] : states_.front().columns) {
    hash =
        MixedHash(hash, StableHash(fmt::format("{} {}", name, WithRows(tensor.type(), examples).ToString())));
    const auto* const bytes = static_cast<const std::byte*>(tensor.raw());
    const int64_t row = RowBytes(tensor), all = row * examples;
    const int64_t stride = (all + kMostHashed - 1) / kMostHashed;
    if (stride <= 1) hash = HashOf({bytes, static_cast<size_t>(all)}, hash);
    else
      for (int64_t r = 0; r < examples; r += stride)
        hash = HashOf({bytes + r * row, static_cast<size_t>(row)}, hash);
  }
  return std::max<uint64_t>(hash, 1);
}

DatasetParts::Place DatasetParts::Find(int64_t example) const {
  // If several parts begin here, all but the last are empty.
  const auto after = std::upper_bound(first_.begin(), first_.end(), example);
  const int64_t part = after - first_.begin() - 1;
  return {part, example - first_[static_cast<size_t>(part)]};
}

absl::StatusOr<Columns> DatasetParts::CallLoad(int64_t part) {
  const Dataset::Part& source = states_[static_cast<size_t>(part)].part;
  const std::string where = fmt::format("Dataset: part {}", part);
  MESHWORK_ASSIGN_OR_RETURN(Columns columns, CallAt([&] { return where; }, source.load));
  MESHWORK_RETURN_IF_ERROR(CheckColumns(columns, where));
  if (const int64_t rows = columns[0].second.shape()[0]; rows != source.examples)
    return InvalidArgument("{}: its columns have {}, and the part was given with {}; they must agree.", where,
                           Count(rows, "row"), Count(source.examples, "example"));
  MESHWORK_RETURN_IF_ERROR(CheckLike(part, columns));
  return columns;
}

absl::Status DatasetParts::CheckLike(int64_t part, const Columns& columns) {
  std::lock_guard lock(mutex_);
  if (loaded_first_ < 0) {
    loaded_first_ = part;
    like_ = columns;
  }
  if (AreAlike(columns, like_)) return absl::OkStatus();
  return InvalidArgument(
      "Dataset: part {} has the columns {} but part {} has {}; all parts have the same columns, in the same order, "
      "whose types differ in dim 0 only.",
      part, Describe(columns), loaded_first_, Describe(like_));
}

absl::StatusOr<const Columns*> DatasetParts::Load(int64_t part) {
  State& state = states_[static_cast<size_t>(part)];
  if (state.is_loaded) return &state.columns;
  // Otherwise a child of a fork would wait for a thread of its parent.
  if (state.is_loading)
    MESHWORK_RETURN_IF_ERROR(state.loader.load().Check(fmt::format("Dataset: part {}", part)));
  std::lock_guard lock(state.mutex);
  if (state.is_loaded) return &state.columns;
  state.loader = ForkMark();
  state.is_loading = true;
  const std::shared_ptr<void> loading(nullptr, [&state](void*) { state.is_loading = false; });
  MESHWORK_ASSIGN_OR_RETURN(state.columns, CallLoad(part));
  state.part.load = nullptr;  // and what it holds
  state.is_loaded = true;
  return &state.columns;
}

absl::StatusOr<const Columns*> DatasetParts::Like(int64_t part) {
  {
    std::lock_guard lock(mutex_);
    if (loaded_first_ >= 0) return &like_;  // never changes again
  }
  return Load(part);
}

absl::StatusOr<Tensor> DatasetParts::Join(size_t column, int64_t examples) {
  if (examples == 0) {
    MESHWORK_ASSIGN_OR_RETURN(const Columns* const like, Like(0));
    return Tensor(WithRows((*like)[column].second.type(), 0));
  }
  const int64_t begin = Find(0).part, end = Find(examples - 1).part + 1;
  Tensor joined;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t first = first_[static_cast<size_t>(p)];
    const int64_t rows = std::min(first_[static_cast<size_t>(p) + 1], examples) - first;
    if (rows == 0) continue;
    MESHWORK_ASSIGN_OR_RETURN(const Columns* const columns, Load(p));
    const Tensor& from = (*columns)[column].second;
    if (rows == examples) return from.Rows(0, rows);
    if (p == begin) joined = Tensor(WithRows(from.type(), examples));
    MESHWORK_RETURN_IF_ERROR(joined.status());
    std::memcpy(static_cast<std::byte*>(joined.raw()) + first * RowBytes(from), from.raw(),
                static_cast<size_t>(rows * RowBytes(from)));
  }
  return joined;
}

absl::StatusOr<Columns> DatasetParts::Join(int64_t examples) {
  MESHWORK_ASSIGN_OR_RETURN(const Columns* const like, Like(examples > 0 ? Find(0).part : 0));
  Columns columns;
  for (size_t c = 0; c < like->size(); ++c) {
    MESHWORK_ASSIGN_OR_RETURN(Tensor joined, Join(c, examples));
    columns.emplace_back((*like)[c].first, std::move(joined));
  }
  return columns;
}

}  // namespace meshwork::internal
