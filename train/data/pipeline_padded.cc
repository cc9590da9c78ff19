// Pipeline::PaddedBatch and BucketBySequenceLength: elements of unequal sizes become one, padded.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/builder.h"
#include "meshwork/train/data/buffer_pool.h"
#include "meshwork/train/data/pipeline_batch.h"
#include "meshwork/train/data/pipeline_call.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {
namespace {

// ---- Joining.

struct NumberedExample {
  int64_t number;  // among the elements of the input
  Example example;
};

std::string DescribePadding(const PaddingOptions& options) {
  std::string text;
  for (const auto& [name, shape] : options.shapes)
    text += fmt::format(", {} [{}]", Printable(name), fmt::join(shape, ","));
  for (const auto& [name, value] : options.values) text += fmt::format(", {} = {}", Printable(name), value);
  if (options.drop_remainder) text += ", drop_remainder";
  return text;
}

// Fills `bytes` with copies of the `size` bytes of one element.
void Fill(std::byte* to, int64_t bytes, const void* element, int64_t size) {
  if (bytes == 0) return;
  std::memcpy(to, element, static_cast<size_t>(size));
  for (int64_t done = size; done < bytes; done *= 2)
    std::memcpy(to + done, to, static_cast<size_t>(std::min(done, bytes - done)));
}

// Copies the elements of `from` into the corner of a box of this shape, which has as many dims and is as large or
// larger.
void CopyToCorner(const Tensor& from, const Shape& box, std::byte* to) {
  const Shape& shape = from.shape();
  const int64_t size = DTypeSize(from.dtype());
  if (from.num_elements() == 0) return;
  const auto* source = static_cast<const std::byte*>(from.raw());
  const auto rank = static_cast<int>(shape.size());
  const int64_t run = (rank == 0 ? 1 : shape.back()) * size, runs = from.bytes() / run;
  Shape place(rank == 0 ? 0 : rank - 1, 0);  // of a run
  for (int64_t r = 0; r < runs; ++r, source += run) {
    int64_t offset = 0;
    for (int d = 0; d < rank; ++d) offset = offset * box[d] + (d + 1 < rank ? place[d] : 0);
    std::memcpy(to + offset * size, source, static_cast<size_t>(run));
    for (int d = rank - 2; d >= 0 && ++place[d] == shape[d]; --d) place[d] = 0;
  }
}

// Makes padded batches; a walk has one, which keeps the memory.
class Joiner {
 public:
  // `stage` is for messages, "PaddedBatch". Keeps references to both.
  Joiner(std::string_view stage, const PaddingOptions& options)
      : stage_(stage), options_(options), buffers_(new BufferPool, DeleteUnlessForked()) {}

  // The elements, at least one, as a batch. `open`: what sizes of -1 become; nothing: the longest element's.
  absl::StatusOr<Example> Join(const std::deque<NumberedExample>& elements, std::optional<int64_t> open) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Type> types, TypesOf(elements, open));
    Columns batch;
    for (size_t c = 0; c < types.size(); ++c) {
      const std::string& name = elements.front().example.columns()[c].first;
      Type type = types[c];
      const int64_t bytes = type.bytes();
      type.shape.insert(type.shape.begin(), static_cast<int64_t>(elements.size()));
      const absl::Status size = CheckSize(type);
      if (!size.ok())
        return Annotate(size, fmt::format("{}: a batch of {} with column \"{}\": ", stage_,
                                          static_cast<int64_t>(elements.size()), name));
      MESHWORK_ASSIGN_OR_RETURN(const Tensor padding, PaddingOf(name, type.dtype));
      Tensor joined(type, buffers_->Take(type.bytes()));
      auto* to = static_cast<std::byte*>(joined.raw());
      for (const NumberedExample& element : elements) {
        const Tensor& from = element.example.columns()[c].second;
        if (from.shape() != types[c].shape) Fill(to, bytes, padding.raw(), padding.bytes());
        CopyToCorner(from, types[c].shape, to);
        to += bytes;
      }
      batch.emplace_back(name, std::move(joined));
    }
    return Example(std::move(batch));
  }

 private:
  // By column: the type of an example in the batch.
  absl::StatusOr<std::vector<Type>> TypesOf(const std::deque<NumberedExample>& elements,
                                            std::optional<int64_t> open) const {
    const Columns& first = elements.front().example.columns();
    std::vector<Type> longest;
    for (const auto& [number, example] : elements) {
      const absl::Status like = CheckLike(example, first);
      if (!like.ok()) return Annotate(like, fmt::format("{}: element {}: ", stage_, number));
      for (size_t c = 0; c < first.size(); ++c) {
        const Type& type = example.columns()[c].second.type();
        if (&example == &elements.front().example) longest.push_back(type);
        for (size_t d = 0; d < type.shape.size(); ++d)
          longest[c].shape[d] = std::max(longest[c].shape[d], type.shape[d]);
      }
    }
    MESHWORK_RETURN_IF_ERROR(CheckOptions(first));
    for (size_t c = 0; c < first.size(); ++c) {
      const std::string& name = first[c].first;
      MESHWORK_ASSIGN_OR_RETURN(const Shape wanted, ShapeOf(name, longest[c], open));
      for (const auto& [number, example] : elements) {
        const Type& type = example.columns()[c].second.type();
        for (size_t d = 0; d < wanted.size(); ++d)
          if (type.shape[d] > wanted[d])
            return InvalidArgument(
                "{}: element {}: column \"{}\" is {}, larger than the {} that it is padded to; cut it by Map, or leave it "
                "out by Filter.",
                stage_, number, name, type.ToString(), Type{type.dtype, wanted}.ToString());
      }
      longest[c].shape = wanted;
    }
    return longest;
  }

  // The shape of a column's examples in the batch, of which `longest` has the largest sizes.
  absl::StatusOr<Shape> ShapeOf(const std::string& name, const Type& longest,
                                std::optional<int64_t> open) const {
    const auto given = options_.shapes.find(name);
    Shape shape = given == options_.shapes.end() ? Shape(longest.shape.size(), -1) : given->second;
    if (shape.size() != longest.shape.size())
      return InvalidArgument(
          "{}: column \"{}\" is {}, and its shape in the options [{}]; give a size, or -1, per dim.", stage_,
          name, longest.ToString(), fmt::join(shape, ","));
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] < 0) shape[d] = open.value_or(longest.shape[d]);
    return shape;
  }

  static absl::Status CheckLike(const Example& element, const Columns& first) {
    MESHWORK_RETURN_IF_ERROR(CheckTensors(element));
    MESHWORK_RETURN_IF_ERROR(CheckNames(element, first));
    for (size_t c = 0; c < first.size(); ++c) {
      const auto& [name, tensor] = element.columns()[c];
      const Type &mine = tensor.type(), &theirs = first[c].second.type();
      if (mine.dtype != theirs.dtype || mine.rank() != theirs.rank())
        return InvalidArgument(
            "column \"{}\" is {}, and {} in the batch's first element; give all elements one dtype and number of dims.",
            name, mine.ToString(), theirs.ToString());
    }
    return absl::OkStatus();
  }

  // Error: the options name a column that is not there.
  absl::Status CheckOptions(const Columns& first) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : first) names.push_back(name);
    const auto check = [&](const std::string& name, std::string_view what) {
      if (std::find(names.begin(), names.end(), name) != names.end()) return absl::OkStatus();
      return InvalidArgument("{}: the options have a {} for \"{}\", and elements no such column{}", stage_,
                             what, name, DidYouMeanOneOf(name, names, "columns"));
    };
    for (const auto& [name, shape] : options_.shapes) MESHWORK_RETURN_IF_ERROR(check(name, "shape"));
    for (const auto& [name, value] : options_.values) MESHWORK_RETURN_IF_ERROR(check(name, "value"));
    return absl::OkStatus();
  }

  // One element of what padding holds.
  absl::StatusOr<Tensor> PaddingOf(const std::string& name, DType dtype) const {
    const auto given = options_.values.find(name);
    const double value = given == options_.values.end() ? 0 : given->second;
    const absl::Status is_element = CheckElement(value, dtype);
    if (!is_element.ok())
      return Annotate(is_element, fmt::format("{}: the padding of column \"{}\": ", stage_, name));
    return Tensor::Full({dtype, {}}, value);
  }

  const std::string_view stage_;
  const PaddingOptions& options_;
  const std::shared_ptr<BufferPool> buffers_;
};

// ---- PaddedBatch.

class PaddedBatching : public Stage {
 public:
  PaddedBatching(StagePtr from, int64_t n, PaddingOptions options)
      : input(std::move(from)), n(n), options(std::move(options)) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return fmt::format("{} | padded_batch({}{})", input->Describe(reader), n, DescribePadding(options));
  }
  std::optional<int64_t> Size() const override { return BatchesOf(input->Size(), n, options.drop_remainder); }
  bool IsEndless() const override { return input->IsEndless(); }

  const StagePtr input;
  const int64_t n;
  const PaddingOptions options;
};

class PaddedBatchWalk : public CountingWalk<PaddedBatching> {
 public:
  PaddedBatchWalk(const PaddedBatching& stage, uint64_t epoch)
      : CountingWalk(stage, epoch), joiner_("PaddedBatch", stage.options) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    std::deque<NumberedExample> elements;
    while (std::ssize(elements) < stage_->n) {
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
      if (!element.has_value()) break;
      elements.push_back({read_++, *std::move(element)});
    }
    if (elements.empty() || (stage_->options.drop_remainder && std::ssize(elements) < stage_->n))
      return std::nullopt;
    return joiner_.Join(elements, std::nullopt);
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(TimesAtMost(n, stage_->n)));
    read_ += skipped;
    return *BatchesOf(skipped, stage_->n, stage_->options.drop_remainder);
  }

 private:
  Joiner joiner_;
};

std::unique_ptr<Walk> PaddedBatching::Begin(uint64_t epoch) const {
  return std::make_unique<PaddedBatchWalk>(*this, epoch);
}

// ---- BucketBySequenceLength.

class Bucketing : public Stage {
 public:
  Bucketing(StagePtr from, Pipeline::LengthFunction length, std::vector<int64_t> boundaries,
            std::vector<int64_t> batch_sizes, BucketOptions options)
      : input(std::move(from)),
        length(std::move(length)),
        boundaries(std::move(boundaries)),
        batch_sizes(std::move(batch_sizes)),
        options(std::move(options)) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return fmt::format("{} | bucket_by_sequence_length([{}], [{}]{}{})", input->Describe(reader),
                       fmt::join(boundaries, ","), fmt::join(batch_sizes, ","),
                       options.pad_to_boundary ? ", pad_to_boundary" : "", DescribePadding(options.padding));
  }
  std::optional<int64_t> Size() const override { return std::nullopt; }
  bool IsEndless() const override { return input->IsEndless(); }

  const StagePtr input;
  const Pipeline::LengthFunction length;
  const std::vector<int64_t> boundaries, batch_sizes;
  const BucketOptions options;
};

// A bucket is emptied as a whole, so its elements are always the ones of its lengths that were read last. A position
// therefore holds the number of elements in each bucket, and a place in the input in front of all of them, from which
// they are read again. Marks give this place: a mark is a position of the input, made each time that as many elements
// were read as all buckets hold.
class BucketWalk : public WalkOver<Bucketing> {
 public:
  BucketWalk(const Bucketing& stage, uint64_t epoch)
      : WalkOver(stage),
        input_(stage.input->Begin(epoch)),
        joiner_("BucketBySequenceLength", stage.options.padding),
        buckets_(stage.batch_sizes.size()) {
    for (const int64_t size : stage.batch_sizes) held_ += std::min(size, INT64_MAX - held_);
  }

  absl::StatusOr<std::optional<Example>> Next() override {
    while (!ended_) {
      MESHWORK_ASSIGN_OR_RETURN(const std::optional<size_t> filled, Read());
      if (!filled.has_value()) ended_ = true;
      else if (std::ssize(buckets_[*filled].elements) == stage_->batch_sizes[*filled])
        return BatchOf(*filled);
    }
    if (stage_->options.padding.drop_remainder) return std::nullopt;
    for (size_t b = 0; b < buckets_.size(); ++b)
      if (!buckets_[b].elements.empty()) return BatchOf(b);
    return std::nullopt;
  }

  absl::Status Save(Counters& to) const override {
    const Mark* first = nullptr;
    to.insert(to.end(), {read_, ended_});
    for (const Bucket& bucket : buckets_) {
      to.push_back(std::ssize(bucket.elements));
      if (!bucket.marks.empty() && (first == nullptr || bucket.marks.front()->at < first->at))
        first = bucket.marks.front().get();
    }
    to.push_back(first != nullptr ? first->at : read_);
    if (first == nullptr) return input_->Save(to);
    to.insert(to.end(), first->position.begin(), first->position.end());
    return absl::OkStatus();
  }

  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t read, from.Next(0, stage_->input->Size().value_or(INT64_MAX)));
    MESHWORK_ASSIGN_OR_RETURN(const int64_t ended, from.Next(0, 1));
    std::vector<int64_t> held;
    for (const int64_t size : stage_->batch_sizes) {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t count, from.Next(0, size - 1));
      held.push_back(count);
    }
    MESHWORK_ASSIGN_OR_RETURN(read_, from.Next(0, read));
    MESHWORK_RETURN_IF_ERROR(input_->Restore(from));
    while (read_ < read) {
      MESHWORK_ASSIGN_OR_RETURN(const std::optional<size_t> filled, Read());
      if (!filled.has_value()) return NotThere(read_);
      Bucket& bucket = buckets_[*filled];
      if (std::ssize(bucket.elements) > held[*filled]) bucket.PopFront();
    }
    for (size_t b = 0; b < held.size(); ++b)
      if (std::ssize(buckets_[b].elements) < held[b]) return NotThere(read_);
    ended_ = ended != 0;
    return absl::OkStatus();
  }

 private:
  struct Mark {
    int64_t at;  // an element of the input
    Counters position;
  };
  struct Bucket {
    std::deque<NumberedExample> elements;
    std::deque<std::shared_ptr<const Mark>> marks;  // in front of each of them, or further

    void PopFront() {
      elements.pop_front();
      marks.pop_front();
    }
  };

  // Puts the next element into its bucket, and says which; nothing at the end.
  absl::StatusOr<std::optional<size_t>> Read() {
    if (mark_ == nullptr || read_ - mark_->at >= held_) {
      auto mark = std::make_shared<Mark>(Mark{read_, {}});
      MESHWORK_RETURN_IF_ERROR(input_->Save(mark->position));
      mark_ = std::move(mark);
    }
    MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
    if (!element.has_value()) return std::nullopt;
    const auto bucket_of = [&]() -> absl::StatusOr<size_t> {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t length, stage_->length(*element));
      return BucketOf(length);
    };
    MESHWORK_ASSIGN_OR_RETURN(const size_t b, CallFor("BucketBySequenceLength", read_, bucket_of));
    buckets_[b].elements.push_back({read_++, *std::move(element)});
    buckets_[b].marks.push_back(mark_);
    return b;
  }

  absl::StatusOr<size_t> BucketOf(int64_t length) const {
    const std::vector<int64_t>& boundaries = stage_->boundaries;
    if (length < 0) return InvalidArgument("its length is {}; lengths are at least 0.", length);
    const auto above = std::upper_bound(boundaries.begin(), boundaries.end(), length);
    if (above == boundaries.end() && stage_->options.pad_to_boundary)
      return InvalidArgument(
          "its length is {}, and the last boundary {}; with pad_to_boundary all are shorter: leave it out by Filter, or add a "
          "boundary.",
          length, boundaries.back());
    return static_cast<size_t>(above - boundaries.begin());
  }

  absl::StatusOr<std::optional<Example>> BatchOf(size_t b) {
    const std::deque<NumberedExample> elements = std::exchange(buckets_[b], {}).elements;
    std::optional<int64_t> open;
    if (stage_->options.pad_to_boundary) open = stage_->boundaries[b] - 1;
    return joiner_.Join(elements, open);
  }

  static absl::Status NotThere(int64_t number) {
    return InvalidArgument(
        "BucketBySequenceLength: the position is behind element {} of its input, and what its buckets held is not there; the "
        "input must give the same elements again, and the length function the same lengths.",
        number);
  }

  const std::unique_ptr<Walk> input_;
  Joiner joiner_;
  std::vector<Bucket> buckets_;
  std::shared_ptr<const Mark> mark_;  // the last one
  int64_t held_ = 0;                  // how many elements the buckets hold at most
  int64_t read_ = 0;
  bool ended_ = false;
};

std::unique_ptr<Walk> Bucketing::Begin(uint64_t epoch) const {
  return std::make_unique<BucketWalk>(*this, epoch);
}

}  // namespace

StagePtr PaddedBatchStage(StagePtr input, int64_t n, PaddingOptions options) {
  return std::make_shared<PaddedBatching>(std::move(input), n, std::move(options));
}

StagePtr BucketStage(StagePtr input, Pipeline::LengthFunction length, std::vector<int64_t> boundaries,
                     std::vector<int64_t> batch_sizes, BucketOptions options) {
  return std::make_shared<Bucketing>(std::move(input), std::move(length), std::move(boundaries),
                                     std::move(batch_sizes), std::move(options));
}

}  // namespace meshwork::internal
