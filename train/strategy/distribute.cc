#include "meshwork/train/strategy/distribute.h"

#include <atomic>
#include <memory>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

absl::StatusOr<int64_t> ShareOf(int64_t global, int64_t parts, std::string_view what) {
  if (global < 1 || global % parts != 0)
    return InvalidArgument("a global batch of {} has no equal parts for {}; take a multiple of {}.", global,
                           Count(parts, what), parts);
  return global / parts;
}

Tensor ZeroRows(const Tensor& like, int64_t rows) {
  Type type = like.type();
  type.shape[0] = rows;
  return Tensor::Zeros(type);
}

absl::Status CheckHasRows(std::string_view name, const Tensor& tensor) {
  if (tensor.type().rank() > 0) return absl::OkStatus();
  return InvalidArgument(
      "column \"{}\" of a batch is {}, which has no rows; put Batch(n) behind the examples.", name,
      tensor.type().ToString());
}

// A batch of `rows` rows and the column that says how many it had.
absl::StatusOr<Example> FilledUp(const Example& batch, const DistributeOptions& options) {
  Example full = batch;
  int64_t real = options.batch_size;
  for (const auto& [name, tensor] : batch.columns()) {
    MESHWORK_RETURN_IF_ERROR(CheckHasRows(name, tensor));
    real = tensor.shape()[0];
    if (real > options.batch_size)
      return InvalidArgument("column \"{}\" of a batch has {}; batch_size={} is the most that it may have.",
                             name, Count(real, "row"), options.batch_size);
    if (real < options.batch_size)
      full.Set(name, Tensor::Concat({tensor, ZeroRows(tensor, options.batch_size - real)}, 0));
  }
  if (!options.rows.empty()) full.Set(options.rows, Tensor::From<int64_t>({}, {real}));
  return full;
}

// This process's share, at its place in a batch of all shares.
absl::StatusOr<Example> InWholeBatch(const Example& share, const InputContext& context,
                                     std::atomic<int64_t>& rows) {
  Example whole = share;
  for (const auto& [name, tensor] : share.columns()) {
    MESHWORK_RETURN_IF_ERROR(CheckHasRows(name, tensor));
    const int64_t here = tensor.shape()[0];
    int64_t first = 0;
    if (!rows.compare_exchange_strong(first, here) && first != here)
      return InvalidArgument(
          "column \"{}\" of a share has {}, and earlier ones had {}; the other processes cannot know of it. Leave a "
          "short batch out: Batch(n, {{.drop_remainder = true}}).",
          name, Count(here, "row"), first);
    const int64_t id = context.input_pipeline_id, n = context.num_input_pipelines;
    whole.Set(name, Tensor::Concat(
                        {ZeroRows(tensor, id * here), tensor, ZeroRows(tensor, (n - 1 - id) * here)}, 0));
  }
  return whole;
}

}  // namespace

absl::StatusOr<int64_t> InputContext::PerReplicaBatchSize(int64_t global_batch_size) const {
  return ShareOf(global_batch_size, num_replicas_in_sync, "replica");
}

absl::StatusOr<int64_t> InputContext::PerPipelineBatchSize(int64_t global_batch_size) const {
  return ShareOf(global_batch_size, num_input_pipelines, "input pipeline");
}

std::vector<std::string> InputContext::FilesOf(const std::vector<std::string>& files) const {
  std::vector<std::string> own;
  for (size_t i = static_cast<size_t>(input_pipeline_id); i < files.size();
       i += static_cast<size_t>(num_input_pipelines))
    own.push_back(files[i]);
  return own;
}

InputContext InputContextOf(const Strategy& strategy) {
  InputContext context{.num_replicas_in_sync = strategy.num_replicas_in_sync()};
  if (strategy.processes() != nullptr) {
    context.input_pipeline_id = strategy.processes()->cluster().process();
    context.num_input_pipelines = strategy.processes()->cluster().num_processes();
  }
  return context;
}

Pipeline WholeBatchesOf(const Pipeline& shares, const InputContext& context) {
  if (context.num_input_pipelines == 1) return shares;
  const auto rows = std::make_shared<std::atomic<int64_t>>(0);
  return shares.Map([context, rows](const Example& share) { return InWholeBatch(share, context, *rows); },
                    {.from_shares = true});
}

absl::StatusOr<Pipeline> DistributeDataset(const Strategy& strategy, const Pipeline& batches,
                                           const DistributeOptions& options) {
  MESHWORK_RETURN_IF_ERROR(batches.status());
  if (options.policy == AutoShard::kFile)
    return InvalidArgument(
        "DistributeDataset: a description does not say which files it reads; for AutoShard::kFile give "
        "DistributeDatasetsFromFunction a function that reads InputContext::FilesOf(files).");
  if (options.batch_size < 0)
    return InvalidArgument(
        "DistributeDataset: batch_size={}; give the rows of a full batch, or 0 to leave batches short.",
        options.batch_size);
  if (!options.rows.empty() && options.batch_size == 0)
    return InvalidArgument(
        "DistributeDataset: rows=\"{}\" without batch_size; say to how many rows a batch is filled up.",
        options.rows);
  if (options.policy == AutoShard::kOff) return WholeBatchesOf(batches, InputContextOf(strategy));
  if (options.batch_size == 0) return batches;
  return batches.Map([options](const Example& batch) { return FilledUp(batch, options); });
}

absl::StatusOr<Pipeline> DistributeDatasetsFromFunction(
    const Strategy& strategy, const std::function<Pipeline(const InputContext& context)>& make) {
  const InputContext context = InputContextOf(strategy);
  const Pipeline shares = make(context);
  MESHWORK_RETURN_IF_ERROR(shares.status());
  return WholeBatchesOf(shares, context);
}

absl::StatusOr<Tensor> DistributeValuesFromFunction(const Strategy& strategy,
                                                    const std::function<Tensor(int64_t replica_id)>& make) {
  std::vector<Tensor> values;
  for (int64_t replica = 0; replica < strategy.num_replicas_in_sync(); ++replica) {
    values.push_back(make(replica));
    if (values.back().type() != values[0].type())
      return InvalidArgument(
          "DistributeValuesFromFunction: the value of replica {} is {}, that of replica 0 {}; give all one type.",
          replica, values.back().type().ToString(), values[0].type().ToString());
  }
  return Tensor::Stack(values);
}

}  // namespace meshwork
