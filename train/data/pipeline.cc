#include "meshwork/train/data/pipeline.h"

#include <algorithm>
#include <charconv>

#include "fmt/ranges.h"
#include "meshwork/base/clock.h"
#include "meshwork/base/first_failure.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/input_wait.h"
#include "meshwork/train/data/pipeline_call.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork {

using internal::Counters;
using internal::StagePtr;
using internal::Walk;

// ---- Descriptions.

namespace {

absl::Status CheckThreads(std::string_view stage, int threads) {
  if (0 <= threads && threads <= 1024) return absl::OkStatus();
  return InvalidArgument(
      "{}: threads is {}; it must be 0 to 1024, and 0 calls the function without a thread.", stage, threads);
}

absl::Status CheckAtLeast(std::string_view stage, std::string_view what, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return InvalidArgument("{}: {} is {}; it must be at least {}.", stage, what, value, least);
}

template <typename Function>
absl::Status CheckFunction(std::string_view stage, const Function& function) {
  if (function != nullptr) return absl::OkStatus();
  return InvalidArgument("{}: the function is null; give one that can be called.", stage);
}

}  // namespace

Pipeline Pipeline::Wrong(absl::Status status) {
  Pipeline pipeline;
  pipeline.status_ = std::move(status);
  return pipeline;
}

StagePtr Pipeline::stage() const { return stage_ != nullptr ? stage_ : internal::RangeSource(0); }

Pipeline internal::PipelineOf(absl::StatusOr<StagePtr> source) {
  return source.ok() ? Pipeline(*std::move(source)) : Pipeline::Wrong(source.status());
}

Pipeline Pipeline::Then(absl::Status mistake, const std::function<StagePtr(StagePtr input)>& make) const {
  if (!status_.ok()) return *this;
  if (!mistake.ok()) return Wrong(std::move(mistake));
  return Pipeline(make(stage()));
}

Pipeline Pipeline::From(Dataset dataset) { return Pipeline(internal::DatasetSource(std::move(dataset))); }

Pipeline Pipeline::Range(std::optional<int64_t> n) {
  return Pipeline().Then(CheckAtLeast("Range", "n", n.value_or(0), 0),
                         [&](const StagePtr&) { return internal::RangeSource(n); });
}

Pipeline Pipeline::FromFunction(std::optional<int64_t> n, IndexFunction function, MapOptions options) {
  const absl::Status mistake =
      FirstFailure({CheckAtLeast("FromFunction", "n", n.value_or(0), 0),
                    CheckFunction("FromFunction", function), CheckThreads("FromFunction", options.threads)});
  return Pipeline().Then(mistake, [&](const StagePtr&) {
    const auto of_index = [function = std::move(function)](const Example& number) {
      return function(number["index"].values<int64_t>()[0]);
    };
    return internal::MapStage(internal::RangeSource(n), "FromFunction", of_index, options);
  });
}

Pipeline Pipeline::Generate(std::function<Generator()> make) {
  const absl::Status mistake = CheckFunction("Generate", make);
  return Pipeline().Then(mistake,
                         [&](const StagePtr&) { return internal::GeneratorSource(std::move(make)); });
}

absl::StatusOr<std::vector<StagePtr>> Pipeline::StagesOf(std::string_view name,
                                                         const std::vector<Pipeline>& inputs) {
  if (inputs.empty()) return InvalidArgument("{}: there are no inputs; give at least one.", name);
  std::vector<StagePtr> stages;
  for (const Pipeline& input : inputs) {
    MESHWORK_RETURN_IF_ERROR(input.status());
    stages.push_back(input.stage());
  }
  return stages;
}

Pipeline Pipeline::Zip(std::vector<Pipeline> inputs) {
  absl::StatusOr<std::vector<StagePtr>> stages = StagesOf("Zip", inputs);
  if (!stages.ok()) return Wrong(stages.status());
  return Pipeline(internal::ZipStage(*std::move(stages)));
}

Pipeline Pipeline::Interleave(std::vector<Pipeline> inputs, InterleaveOptions options) {
  absl::StatusOr<std::vector<StagePtr>> stages = StagesOf("Interleave", inputs);
  if (!stages.ok()) return Wrong(stages.status());
  const absl::Status mistake = FirstFailure({CheckAtLeast("Interleave", "cycle", options.cycle, 1),
                                             CheckAtLeast("Interleave", "block", options.block, 1)});
  if (!mistake.ok()) return Wrong(mistake);
  return Pipeline(internal::InterleaveStage(*std::move(stages), options));
}

Pipeline Pipeline::Map(MapFunction function, MapOptions options) const {
  const absl::Status mistake =
      FirstFailure({CheckFunction("Map", function), CheckThreads("Map", options.threads)});
  return Then(mistake, [&](StagePtr input) {
    return internal::MapStage(std::move(input), "Map", std::move(function), options);
  });
}

Pipeline Pipeline::Filter(FilterFunction function) const {
  const absl::Status mistake = CheckFunction("Filter", function);
  return Then(mistake,
              [&](StagePtr input) { return internal::FilterStage(std::move(input), std::move(function)); });
}

Pipeline Pipeline::Shuffle(int64_t buffer, uint64_t seed) const {
  return Then(CheckAtLeast("Shuffle", "buffer", buffer, 1),
              [&](StagePtr input) { return internal::ShuffleStage(std::move(input), buffer, seed); });
}

Pipeline Pipeline::Cache() const { return Then(absl::OkStatus(), internal::CacheStage); }

Pipeline Pipeline::Repeat(std::optional<int64_t> n) const {
  return Then(CheckAtLeast("Repeat", "n", n.value_or(0), 0),
              [&](StagePtr input) { return internal::RepeatStage(std::move(input), n); });
}

Pipeline Pipeline::Batch(int64_t n, BatchOptions options) const {
  return Then(CheckAtLeast("Batch", "n", n, 1), [&](StagePtr input) {
    return internal::BatchStage(std::move(input), n, options.drop_remainder);
  });
}

namespace {

absl::Status CheckPadding(std::string_view stage, const PaddingOptions& options) {
  for (const auto& [name, shape] : options.shapes)
    for (const int64_t size : shape)
      if (size < -1)
        return InvalidArgument(
            "{}: the shape of column \"{}\" is [{}]; sizes are at least 0, or -1: as long as the longest.",
            stage, name, fmt::join(shape, ","));
  return absl::OkStatus();
}

absl::Status CheckBuckets(const std::vector<int64_t>& boundaries, const std::vector<int64_t>& batch_sizes,
                          bool pad_to_boundary) {
  const size_t buckets = boundaries.size() + (pad_to_boundary ? 0 : 1);
  if (boundaries.empty() || boundaries[0] < 1 ||
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) != boundaries.end())
    return InvalidArgument(
        "BucketBySequenceLength: the boundaries are [{}]; there must be at least one, the first at least 1, and each above the "
        "one before.",
        fmt::join(boundaries, ","));
  if (batch_sizes.size() != buckets)
    return InvalidArgument(
        "BucketBySequenceLength: {} for the boundaries [{}]; {} make {}, give one size for each{}.",
        Count(static_cast<int64_t>(batch_sizes.size()), "batch size"), fmt::join(boundaries, ","),
        pad_to_boundary ? "with pad_to_boundary they" : "they",
        Count(static_cast<int64_t>(buckets), "bucket"),
        pad_to_boundary ? "" : ", the last one for all lengths from the last boundary on");
  for (const int64_t size : batch_sizes)
    MESHWORK_RETURN_IF_ERROR(CheckAtLeast("BucketBySequenceLength", "a batch size", size, 1));
  return absl::OkStatus();
}

}  // namespace

Pipeline Pipeline::PaddedBatch(int64_t n, PaddingOptions options) const {
  const absl::Status mistake =
      FirstFailure({CheckAtLeast("PaddedBatch", "n", n, 1), CheckPadding("PaddedBatch", options)});
  return Then(mistake, [&](StagePtr input) {
    return internal::PaddedBatchStage(std::move(input), n, std::move(options));
  });
}

Pipeline Pipeline::BucketBySequenceLength(LengthFunction length, std::vector<int64_t> boundaries,
                                          std::vector<int64_t> batch_sizes, BucketOptions options) const {
  const absl::Status mistake = FirstFailure({CheckFunction("BucketBySequenceLength", length),
                                             CheckBuckets(boundaries, batch_sizes, options.pad_to_boundary),
                                             CheckPadding("BucketBySequenceLength", options.padding)});
  return Then(mistake, [&](StagePtr input) {
    return internal::BucketStage(std::move(input), std::move(length), std::move(boundaries),
                                 std::move(batch_sizes), std::move(options));
  });
}

Pipeline Pipeline::Shard(int64_t index, int64_t count) const {
  const absl::Status mistake =
      0 <= index && index < count
          ? absl::OkStatus()
          : InvalidArgument(
                "Shard: index is {} and count is {}; the index must be at least 0 and below the count.",
                index, count);
  return Then(mistake, [&](StagePtr input) { return internal::ShardStage(std::move(input), index, count); });
}

Pipeline Pipeline::Take(int64_t n) const {
  return Then(CheckAtLeast("Take", "n", n, 0),
              [&](StagePtr input) { return internal::TakeStage(std::move(input), n); });
}

Pipeline Pipeline::Skip(int64_t n) const {
  return Then(CheckAtLeast("Skip", "n", n, 0),
              [&](StagePtr input) { return internal::SkipStage(std::move(input), n); });
}

Pipeline Pipeline::Prefetch(int64_t n) const {
  return Then(CheckAtLeast("Prefetch", "n", n, 1),
              [&](StagePtr input) { return internal::PrefetchStage(std::move(input), "Prefetch", n); });
}

std::optional<int64_t> Pipeline::size() const { return stage()->Size(); }

bool Pipeline::is_endless() const { return stage()->IsEndless(); }

std::string Pipeline::ToString() const { return stage()->ToString(); }

std::string Pipeline::Fingerprint() const { return stage()->Describe(internal::For::kAllProcesses); }

// ---- Walks.

namespace internal {

struct PipelineState {
  Pipeline pipeline;
  std::unique_ptr<Walk> walk;
  absl::Status failed;  // why nothing more comes
  PipelineStats stats;
};

}  // namespace internal

PipelineIterator Pipeline::Begin() const {
  auto state = std::make_shared<internal::PipelineState>(internal::PipelineState{.pipeline = *this});
  state->failed = status_;
  if (status_.ok()) state->walk = stage()->Begin(/*epoch=*/0);
  return PipelineIterator(std::move(state));
}

PipelineCursor Pipeline::begin() const { return Begin().begin(); }

absl::StatusOr<std::optional<Example>> PipelineIterator::Next() {
  MESHWORK_RETURN_IF_ERROR(state_->failed);
  const double start = SteadySeconds();
  absl::StatusOr<std::optional<Example>> element = internal::CallWalk([&] { return state_->walk->Next(); });
  PipelineStats& stats = state_->stats;
  stats.last_seconds = SteadySeconds() - start;
  stats.seconds += stats.last_seconds;
  AddInputWait(stats.last_seconds);
  stats.longest = std::max(stats.longest, stats.last_seconds);
  if (stats.last_seconds > PipelineStats::kLongWait) ++stats.waits;
  if (!element.ok()) state_->failed = element.status();
  else if (element->has_value()) ++stats.elements;
  return element;
}

const PipelineStats& PipelineIterator::stats() const { return state_->stats; }

PipelineCursor PipelineIterator::begin() { return PipelineCursor(*this); }

PipelineCursor& PipelineCursor::operator++() {
  current_.reset();  // its memory may be used again
  current_ = walk_.Next().value();
  return *this;
}

// ---- Positions: "range(100) | batch(32); 32,3; 4b3c…": the description, the counters, and a hash of both.

namespace {

std::string HashOf(std::string_view text) { return fmt::format("{:016x}", StableHash(text)); }

absl::StatusOr<Counters> CountersIn(std::string_view position, const std::string& description) {
  const size_t before_hash = position.rfind("; ");
  const size_t before_counters = before_hash == std::string_view::npos || before_hash == 0
                                     ? before_hash
                                     : position.rfind("; ", before_hash - 1);
  if (before_hash == std::string_view::npos || before_counters == std::string_view::npos)
    return InvalidArgument(
        "Pipeline: the position is {} long and has not the form of one; give what PipelineIterator::Save returned.",
        Count(static_cast<int64_t>(position.size()), "byte"));
  if (position.substr(before_hash + 2) != HashOf(position.substr(0, before_hash)))
    return InvalidArgument(
        "Pipeline: the position is damaged, its hash differs; give what PipelineIterator::Save returned.");
  const std::string_view theirs = position.substr(0, before_counters);
  if (theirs != description)
    return InvalidArgument(
        "Pipeline: the position is one of \"{}\", and this is \"{}\"; the elements would be others: go on with the same "
        "description, or begin anew.",
        theirs, description);
  Counters counters;
  const char* at = position.data() + before_counters + 1;
  const char* const end = position.data() + before_hash;
  while (at != end) {
    int64_t counter = 0;
    const auto [behind, error] = std::from_chars(at + 1, end, counter);
    if (error != std::errc())
      return InvalidArgument("Pipeline: the position has the counters \"{}\"; they must be whole numbers.",
                             position.substr(before_counters + 2, before_hash - before_counters - 2));
    counters.push_back(counter);
    at = behind;
  }
  return counters;
}

absl::Status RestoreWalk(Walk& walk, const Counters& counters) {
  internal::CounterReader reader(counters);
  MESHWORK_RETURN_IF_ERROR(internal::CallWalk([&] { return walk.Restore(reader); }));
  if (reader.AtEnd()) return absl::OkStatus();
  return InvalidArgument(
      "the position goes on where it should end; it was not saved by a walk over this pipeline.");
}

}  // namespace

absl::StatusOr<std::string> PipelineIterator::Save() const {
  MESHWORK_RETURN_IF_ERROR(state_->failed);
  Counters counters;
  MESHWORK_RETURN_IF_ERROR(state_->walk->Save(counters));
  const std::string position = fmt::format("{}; {}", state_->pipeline.ToString(), fmt::join(counters, ","));
  return position + "; " + HashOf(position);
}

absl::StatusOr<PipelineIterator> Pipeline::Begin(std::string_view position, int64_t epoch) const {
  MESHWORK_RETURN_IF_ERROR(status_);
  MESHWORK_RETURN_IF_ERROR(CheckAtLeast("Begin", "epoch", epoch, 0));
  PipelineIterator begun = Begin();
  if (epoch > 0) begun.state_->walk = stage()->Begin(static_cast<uint64_t>(epoch));
  if (position.empty()) return begun;
  MESHWORK_ASSIGN_OR_RETURN(const Counters counters, CountersIn(position, ToString()));
  const absl::Status restored = RestoreWalk(*begun.state_->walk, counters);
  if (!restored.ok()) return Annotate(restored, "Pipeline: ");
  return begun;
}

}  // namespace meshwork
