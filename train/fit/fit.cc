#include "meshwork/train/fit/fit.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/train/fit/data_agreement.h"
#include "meshwork/train/fit/evaluation.h"
#include "meshwork/train/fit/fit_loop.h"
#include "meshwork/train/fit/output_means.h"
#include "meshwork/train/optim/averages_as_weights.h"

namespace meshwork {
namespace {

// The outputs that are asked for; all scalars if there are none. Error: there is no such output, or it is no scalar.
absl::StatusOr<std::vector<std::string>> ScalarOutputs(std::string_view where, const Graph& graph,
                                                       const std::vector<std::string>& asked) {
  std::vector<std::string> all, scalars;
  for (const OutputInfo& output : graph.outputs()) {
    all.push_back(output.name);
    if (graph.value(output.value).type.rank() == 0) scalars.push_back(output.name);
  }
  for (const std::string& name : asked) {
    if (std::find(scalars.begin(), scalars.end(), name) != scalars.end()) continue;
    const auto found = std::find(all.begin(), all.end(), name);
    if (found == all.end())
      return absl::NotFoundError(
          fmt::format("{}: there is no output \"{}\"{}", where, name, DidYouMeanOneOf(name, all, "outputs")));
    return InvalidArgument("{}: output \"{}\" is {}; only scalars can be reported, such as its ReduceMean.",
                           where, name,
                           graph.value(graph.outputs()[found - all.begin()].value).type.ToString());
  }
  return asked.empty() ? scalars : asked;
}

absl::Status NoBatch(std::string_view where, const Pipeline& data) {
  return InvalidArgument(
      "{}: the data \"{}\" gave no batch; at least one is needed: see what its stages leave out.", where,
      data.ToString());
}

absl::Status CheckData(std::string_view where, std::string_view what, const Pipeline& data, int64_t steps,
                       std::string_view option) {
  if (!data.status().ok()) return Annotate(data.status(), fmt::format("{}: {}: ", where, what));
  if (steps < 0)
    return InvalidArgument("{}: {} is {}; it must be positive, or 0 until the data end.", where, option,
                           steps);
  if (steps == 0 && data.is_endless())
    return InvalidArgument(
        "{}: the {} \"{}\" have no end, and {} is 0; say how many steps to take, or leave out Repeat.", where,
        what, data.ToString(), option);
  return absl::OkStatus();
}

// Walks over data once, and calls `use`, which takes a step, with the feeds of each batch and their examples, up to
// `steps` times.
absl::Status ForEachBatch(std::string_view where, const Session& session, const Pipeline& data, int64_t steps,
                          const FeedFunction& feeds, const Feeds& fed, DataAgreement& agreement,
                          const std::function<absl::Status(const Feeds& feeds, int64_t examples)>& use) {
  if (data.size() == 0) return NoBatch(where, data);
  PipelineIterator walk = data.Begin();
  int64_t step = 0;
  while (steps == 0 || step < steps) {
    const absl::StatusOr<std::optional<Example>> batch = walk.Next();
    if (!batch.ok()) return internal::FailInAll(session, batch.status());
    if (!batch->has_value()) {
      MESHWORK_RETURN_IF_ERROR(agreement.AtPlace(
          step == 0 ? "the data have no batch" : fmt::format("the data end after batch {}", step)));
      break;
    }
    const absl::StatusOr<Feeds> fed_now = internal::FeedsOf(**batch, feeds, fed);
    if (!fed_now.ok()) return internal::FailInAll(session, fed_now.status());
    const int64_t examples = ExamplesIn(session.graph(), *fed_now);
    const DataAgreement::Step at(agreement,
                                 fmt::format("batch {}, {}", step + 1, Count(examples, "example")));
    const absl::Status status = use(*fed_now, examples);
    MESHWORK_RETURN_IF_ERROR(agreement.difference());
    if (!status.ok()) return Annotate(status, fmt::format("{}: batch {}: ", where, step + 1));
    ++step;
  }
  return step > 0 ? absl::OkStatus() : NoBatch(where, data);
}

// The facts that are equal in all processes that walk over the data together. `option`: the number of steps, 0 for all.
std::vector<DataFact> FactsOfWalk(std::string_view what, const Pipeline& data, std::string_view option,
                                  int64_t steps) {
  std::vector<DataFact> facts = FactsOfPipeline(what, data, /*is_whole=*/steps == 0);
  facts.push_back(OptionFact(std::string(option), steps));
  return facts;
}

// Checks an option that may name averages.
absl::Status CheckAveragesOf(std::string_view where, std::string_view option, const Session& session,
                             const std::string& averages) {
  if (averages.empty()) return absl::OkStatus();
  return Annotate(CheckAverages(session, averages), fmt::format("{}: {}: ", where, option));
}

// The outputs of the evaluation.
absl::StatusOr<std::vector<std::string>> CheckEvaluation(std::string_view where, std::string_view what,
                                                         std::string_view steps_option,
                                                         const Session& session, const Pipeline& data,
                                                         const EvaluateOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckData(where, what, data, options.steps, steps_option));
  MESHWORK_RETURN_IF_ERROR(CheckAveragesOf(where, "averages", session, options.averages));
  MESHWORK_ASSIGN_OR_RETURN(std::vector<std::string> outputs,
                            ScalarOutputs(where, session.graph(), options.outputs));
  if (outputs.empty())
    return InvalidArgument("{}: the program has no scalar output to report; name one by Graph::Output.",
                           where);
  return outputs;
}

absl::StatusOr<Metrics> EvaluateBatches(std::string_view where, std::string_view what,
                                        std::string_view steps_option, Session& session, const Pipeline& data,
                                        const EvaluateOptions& options) {
  const absl::StatusOr<std::vector<std::string>> checked =
      CheckEvaluation(where, what, steps_option, session, data, options);
  DataAgreement agreement(std::string(where), session);
  MESHWORK_RETURN_IF_ERROR(agreement.Begin(checked.status(), [&] {
    std::vector<DataFact> facts = FactsOfWalk(what, data, steps_option, options.steps);
    facts.push_back({"averages", options.averages, kSameOptions});
    return facts;
  }));
  const std::vector<std::string>& outputs = *checked;
  OutputMeans means(session.graph(), outputs);
  const absl::StatusOr<std::unique_ptr<MetricsAside>> aside = MetricsAside::Begin(session);
  MESHWORK_RETURN_IF_ERROR(internal::FailInAll(session, aside.status()));
  std::unique_ptr<AveragesAsWeights> averages;
  if (!options.averages.empty()) {
    absl::StatusOr<std::unique_ptr<AveragesAsWeights>> begun =
        AveragesAsWeights::Begin(session, options.averages);
    MESHWORK_RETURN_IF_ERROR(internal::FailInAll(session, begun.status()));
    averages = *std::move(begun);
  }
  MESHWORK_RETURN_IF_ERROR(ForEachBatch(where, session, data, options.steps, options.feeds, options.fed,
                                        agreement, [&](const Feeds& feeds, int64_t examples) -> absl::Status {
                                          MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                                                                    session.Accumulate(feeds, outputs));
                                          means.Add(result, examples);
                                          return absl::OkStatus();
                                        }));
  if (averages != nullptr) MESHWORK_RETURN_IF_ERROR(internal::FailInAll(session, averages->End()));
  MESHWORK_RETURN_IF_ERROR(internal::FailInAll(session, (*aside)->End()));
  return means.Values();
}

absl::Status CheckOptions(const Session& session, const Pipeline& data, const FitOptions& options) {
  if (options.initial_epoch < 0 || options.epochs < options.initial_epoch)
    return InvalidArgument(
        "Fit: epochs is {} and initial_epoch {}; neither may be negative, nor the first below the second.",
        options.epochs, options.initial_epoch);
  if (options.validation_every < 1)
    return InvalidArgument("Fit: validation_every is {}; it must be positive.", options.validation_every);
  MESHWORK_RETURN_IF_ERROR(internal::CheckCallbacks(options.callbacks));
  MESHWORK_RETURN_IF_ERROR(CheckData("Fit", "data", data, options.steps_per_epoch, "steps_per_epoch"));
  MESHWORK_RETURN_IF_ERROR(
      CheckAveragesOf("Fit", "validation_averages", session, options.validation_averages));
  if (!options.validation_data.has_value()) return absl::OkStatus();
  return CheckData("Fit", "validation data", *options.validation_data, options.validation_steps,
                   "validation_steps");
}

std::vector<DataFact> FactsOfFit(const Pipeline& data, const FitOptions& options) {
  std::vector<DataFact> facts = FactsOfWalk("data", data, "steps_per_epoch", options.steps_per_epoch);
  facts.push_back(OptionFact("number of epochs", options.epochs));
  facts.push_back(OptionFact("initial_epoch", options.initial_epoch));
  facts.push_back(OptionFact("validation_every", options.validation_every));
  facts.push_back({"validation_averages", options.validation_averages, kSameOptions});
  for (DataFact& fact : FactsOfWalk("validation data", options.validation_data.value_or(Pipeline()),
                                    "validation_steps", options.validation_steps))
    facts.push_back(std::move(fact));
  return facts;
}

}  // namespace

namespace internal {

absl::Status FailInAll(const Session& session, absl::Status status) {
  Transport* const transport = session.Here().transport;
  if (!status.ok() && transport != nullptr) transport->Abort(status);
  return status;
}

absl::StatusOr<Feeds> FeedsOf(const Example& batch, const FeedFunction& function, const Feeds& fed) {
  Feeds feeds;
  if (function != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(feeds, function(batch));
  } else {
    for (const auto& [name, tensor] : batch.columns()) feeds[name] = tensor;
  }
  for (const auto& [name, tensor] : fed) feeds[name] = tensor;
  return feeds;
}

absl::StatusOr<Metrics> Validate(Session& session, const FitOptions& options, const Feeds& fed) {
  return EvaluateBatches("Fit: validation", "validation data", "validation_steps", session,
                         *options.validation_data,
                         {.outputs = options.outputs,
                          .steps = options.validation_steps,
                          .feeds = options.feeds,
                          .fed = fed,
                          .averages = options.validation_averages});
}

absl::Status NoBatchOf(const Pipeline& data) { return NoBatch("Fit", data); }

absl::Status CheckCallbacks(const std::vector<CallbackPtr>& callbacks) {
  for (size_t c = 0; c < callbacks.size(); ++c)
    if (callbacks[c] == nullptr)
      return InvalidArgument("Fit: callback {} of {} is null; leave it out.", c + 1, callbacks.size());
  return absl::OkStatus();
}

std::vector<CallbackPtr> InOrderOfCalls(std::vector<CallbackPtr> callbacks) {
  std::stable_partition(callbacks.begin(), callbacks.end(), [](const CallbackPtr& callback) {
    return callback == nullptr || !callback->is_last();
  });
  return callbacks;
}

}  // namespace internal

absl::StatusOr<History> Fit(Session& session, const Pipeline& data, const FitOptions& options) {
  absl::Status status = CheckOptions(session, data, options);
  if (status.ok()) status = ScalarOutputs("Fit", session.graph(), options.outputs).status();
  MESHWORK_RETURN_IF_ERROR(
      DataAgreement("Fit", session).Begin(status, [&] { return FactsOfFit(data, options); }));
  if (data.size() == 0) return NoBatch("Fit", data);
  if (options.validation_data.has_value() && options.validation_data->size() == 0)
    return NoBatch("Fit", *options.validation_data);
  return FitLoop(session, data, options).Run();
}

absl::StatusOr<Metrics> Evaluate(Session& session, const Pipeline& data, const EvaluateOptions& options) {
  return EvaluateBatches("Evaluate", "data", "steps", session, data, options);
}

absl::StatusOr<StepResult> Predict(Session& session, const Pipeline& data, const PredictOptions& options) {
  DataAgreement agreement("Predict", session);
  MESHWORK_RETURN_IF_ERROR(agreement.Begin(CheckData("Predict", "data", data, 0, "steps"),
                                           [&] { return FactsOfPipeline("data", data, /*is_whole=*/true); }));
  std::map<std::string, std::vector<Tensor>> parts;
  MESHWORK_RETURN_IF_ERROR(ForEachBatch(
      "Predict", session, data, 0, options.feeds, {}, agreement,
      [&](const Feeds& batch, int64_t examples) -> absl::Status {
        MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Predict(batch, options.outputs));
        for (const auto& [name, tensor] : result.outputs()) {
          if (tensor.type().rank() == 0 || tensor.shape()[0] != examples)
            return InvalidArgument(
                "output \"{}\" is {} for {}; only outputs with a row for each example can be joined; choose others.",
                name, tensor.type().ToString(), Count(examples, "example"));
          parts[name].push_back(tensor);
        }
        return absl::OkStatus();
      }));
  std::map<std::string, Tensor> joined;
  for (auto& [name, tensors] : parts) {
    joined.emplace(name, Tensor::Concat(tensors, 0));
    tensors.clear();
  }
  return StepResult(std::move(joined));
}

absl::StatusOr<Pipeline> BatchesOf(const Feeds& tensors, const BatchesOfOptions& options) {
  absl::StatusOr<Dataset> dataset = Dataset::Create(Columns(tensors.begin(), tensors.end()));
  if (!dataset.ok()) return Annotate(dataset.status(), "BatchesOf: ");
  const int64_t rows = dataset->size();
  Pipeline pipeline = Pipeline::From(*std::move(dataset));
  if (options.shuffle_seed.has_value())
    pipeline = pipeline.Shuffle(std::max<int64_t>(rows, 1), *options.shuffle_seed);
  pipeline = pipeline.Batch(options.batch_size, {.drop_remainder = options.drop_remainder});
  if (!pipeline.status().ok()) return Annotate(pipeline.status(), "BatchesOf: ");
  return pipeline;
}

}  // namespace meshwork
