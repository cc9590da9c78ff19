// Data for a strategy: which examples each process reads, and batches as its programs take them.
//
//   // One description of global batches, the same in every process.
//   const Pipeline data = DistributeDataset(strategy, Pipeline::From(train).Shuffle(1000, 7).Batch(64)).value();
//
//   // Each process has data of its own, and makes its share of every batch.
//   const Pipeline data = DistributeDatasetsFromFunction(strategy, [&](const InputContext& context) {
//     return TextLines(context.FilesOf(files)).Map(parse).Batch(context.PerPipelineBatchSize(64).value(), {.drop_remainder = true});
//   }).value();
//
//   Fit(session, data, …)                  // either way, an element is a global batch
//
// Each process is one input pipeline; its devices share the examples that it reads. In a batch that is made of this
// process's share, the rows of other processes are zeros, which its devices do not read (Session::RowsHere).
//
// After tf.distribute's experimental_distribute_dataset, distribute_datasets_from_function and
// experimental_distribute_values_from_function (https://www.tensorflow.org/tutorials/distribute/input). Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/data/pipeline.h"
#include "meshwork/train/strategy/strategy.h"

namespace meshwork {

// Which input pipeline this process is.
struct InputContext {
  int64_t input_pipeline_id = 0;
  int64_t num_input_pipelines = 1;
  int64_t num_replicas_in_sync = 1;

  // One part of a global batch. Errors: the replicas, or the input pipelines, do not divide it.
  absl::StatusOr<int64_t> PerReplicaBatchSize(int64_t global_batch_size) const;
  absl::StatusOr<int64_t> PerPipelineBatchSize(int64_t global_batch_size) const;
  // Files id, id + n, id + 2n, … of n pipelines.
  std::vector<std::string> FilesOf(const std::vector<std::string>& files) const;
};
InputContext InputContextOf(const Strategy& strategy);

// How the data of one description are divided between processes.
enum class AutoShard : uint8_t {
  kAuto,  // kData: a description in C++ does not say which files it reads
  kFile,  // each process reads files of its own: DistributeDatasetsFromFunction and InputContext::FilesOf
  kData,  // every process walks the same batches, and its devices read their rows
  kOff,   // not at all: every process makes its shares of the batches from all data, in any order
};

struct DistributeOptions {
  AutoShard policy = AutoShard::kAuto;
  // A shorter batch is filled up with zeros to this many rows. 0: it stays short. Programs in which a manual region
  // reads the batch, as in Strategy::Run, take no short batches.
  int64_t batch_size = 0;
  // The name of a new column, i64[]: how many rows are real, for Strategy::Run. Only with batch_size.
  std::string rows = {};
};

// `batches`: whole batches; with kOff, this process's shares of them. Errors: those of the description; kFile; a
// negative batch_size; `rows` without batch_size. Errors of the iteration: with batch_size, a batch with more rows,
// or a column without rows; with kOff, those of WholeBatchesOf.
absl::StatusOr<Pipeline> DistributeDataset(const Strategy& strategy, const Pipeline& batches,
                                           const DistributeOptions& options = {});

// Whole batches, made of this process's shares: each stands at its place, and the rows of other processes are zeros.
// Errors of the iteration: a column without rows; a share of another size than the first one, such as a short last
// batch: the other processes could not know its size.
Pipeline WholeBatchesOf(const Pipeline& shares, const InputContext& context);

// `make` returns a pipeline of this process's shares of the batches. Errors: those of the description; in the
// iteration, those of WholeBatchesOf.
absl::StatusOr<Pipeline> DistributeDatasetsFromFunction(
    const Strategy& strategy, const std::function<Pipeline(const InputContext& context)>& make);

// The values make(0), make(1), … of the replicas, stacked to [n, …]: for an input of which each replica's part is one
// row. Error: values of different types.
absl::StatusOr<Tensor> DistributeValuesFromFunction(const Strategy& strategy,
                                                    const std::function<Tensor(int64_t replica_id)>& make);

}  // namespace meshwork
