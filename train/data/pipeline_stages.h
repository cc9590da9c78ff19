// The stages of pipelines; train/data/pipeline.h says what each does. Arguments are right: Pipeline has checked them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/train/data/dataset.h"
#include "meshwork/train/data/pipeline.h"
#include "meshwork/train/data/pipeline_stage.h"

namespace meshwork::internal {

StagePtr DatasetSource(Dataset dataset);
// Errors: those of Dataset::Batches.
absl::StatusOr<StagePtr> BatchesSource(Dataset dataset, BatchesOptions options);
StagePtr RangeSource(std::optional<int64_t> n);
StagePtr GeneratorSource(std::function<Pipeline::Generator()> make);

StagePtr ZipStage(std::vector<StagePtr> inputs);
StagePtr InterleaveStage(std::vector<StagePtr> inputs, InterleaveOptions options);

// `name` begins the messages: "Map".
StagePtr MapStage(StagePtr input, std::string name, Pipeline::MapFunction function, MapOptions options);
StagePtr FilterStage(StagePtr input, Pipeline::FilterFunction function);
StagePtr ShuffleStage(StagePtr input, int64_t buffer, uint64_t seed);
StagePtr CacheStage(StagePtr input);
StagePtr RepeatStage(StagePtr input, std::optional<int64_t> n);
StagePtr BatchStage(StagePtr input, int64_t n, bool drop_remainder);
StagePtr PaddedBatchStage(StagePtr input, int64_t n, PaddingOptions options);
StagePtr BucketStage(StagePtr input, Pipeline::LengthFunction length, std::vector<int64_t> boundaries,
                     std::vector<int64_t> batch_sizes, BucketOptions options);
StagePtr ShardStage(StagePtr input, int64_t index, int64_t count);
StagePtr TakeStage(StagePtr input, int64_t n);
StagePtr SkipStage(StagePtr input, int64_t n);
// `name` begins the message of a child of a fork: "Prefetch".
StagePtr PrefetchStage(StagePtr input, std::string name, int64_t n);

}  // namespace meshwork::internal
