#include "examples/support/digits.h"

#include <algorithm>

#include "examples/support/digits_data.h"
#include "examples/support/digits_options.h"
#include "examples/support/digits_report.h"
#include "examples/support/digits_summaries.h"
#include "examples/support/digits_training.h"
#include "examples/support/digits_weights.h"
#include "meshwork/base/status.h"
#include "meshwork/core.h"

namespace meshwork {
namespace {

void PrintHead(const Data& data, const Mesh& mesh, int64_t parameters) {
  fmt::print(Out(), "{}: {} training and {} test images, mesh {} of {} devices, {} parameters\n", data.source,
             data.digits.train.size(), data.digits.test.size(), mesh.ToString(), mesh.num_devices(),
             parameters);
}

absl::Status WriteResults(const DigitsModel& model, const Session& session, const Data& data,
                          const DigitsOptions& options, const TrainLog& log) {
  MESHWORK_RETURN_IF_ERROR(WriteProfile(session, options.run));
  if (!options.save.empty() && !log.was_stopped) {
    MESHWORK_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(model, session));
    if (options.run.is_chief()) MESHWORK_RETURN_IF_ERROR(WriteSafetensors(options.save, weights));
  }
  if (!options.run.json.empty()) MESHWORK_RETURN_IF_ERROR(WriteJson(model, session, data, options, log));
  if (!options.run.plot.empty()) MESHWORK_RETURN_IF_ERROR(WritePlot(model, session, data, options, log));
  return absl::OkStatus();
}

absl::Status Main(const DigitsModel& model, const DigitsOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(options.run));
  MESHWORK_RETURN_IF_ERROR(CheckOutputs(options.run, {{"--save", options.save}}));
  MESHWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFromName(options.dtype));
  MESHWORK_ASSIGN_OR_RETURN(const Data data,
                            LoadData({options.data_dir, options.train_examples, options.test_examples,
                                      options.run.seed, options.run.is_chief()},
                                     dtype));

  Graph graph(mesh);
  const Precision precision = {.compute = options.run.precision == "bf16" ? BF16 : dtype, .variables = dtype};
  model.build(graph, std::min(options.batch_size, data.digits.train.size()), precision,
              MakeOptimizer(options.optimizer, options.learning_rate));
  Weights weights;
  if (!options.load.empty()) {
    absl::StatusOr<Weights> read = ReadWeights(model, options.load, graph);
    if (!read.ok()) return Annotate(read.status(), "--load: ");
    weights = *std::move(read);
  }
  MESHWORK_ASSIGN_OR_RETURN(Session session, CreateSession(graph, options.run));
  for (const auto& [name, tensor] : weights) MESHWORK_RETURN_IF_ERROR(session.Set(name, tensor));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Resumable> training,
                            Resumable::Begin(options.run, session, FactsOf(data, options)));
  MESHWORK_ASSIGN_OR_RETURN(
      DigitsSummaries summaries,
      DigitsSummaries::Create(model, graph, session, data, options, training->first_step()));
  const int64_t parameters = CountParameters(model, graph);
  PrintHead(data, mesh, parameters);
  PrintStep(session, options.run);

  // Testing takes time, so the model is tested before training only if that is of interest.
  const bool test_before = options.epochs == 0 || !options.load.empty() || !options.run.plot.empty();
  MESHWORK_ASSIGN_OR_RETURN(const TrainLog log,
                            Train(model, session, data, options, *training, summaries, test_before));
  summaries.Close();
  MESHWORK_RETURN_IF_ERROR(WriteResults(model, session, data, options, log));
  return log.saved;
}

struct Choice {
  std::string_view name;
  Optimizer (*make)(double learning_rate);
};

template <typename T>
Optimizer Make(double learning_rate) {
  return T({.learning_rate = learning_rate});
}

constexpr Choice kOptimizers[] = {{"sgd", Make<Sgd>},           {"momentum", Make<Momentum>},
                                  {"nesterov", Make<Nesterov>}, {"adagrad", Make<Adagrad>},
                                  {"rmsprop", Make<RmsProp>},   {"adam", Make<Adam>},
                                  {"adamw", Make<AdamW>}};

}  // namespace

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const Choice& choice : kOptimizers) names.emplace_back(choice.name);
  return names;
}

Optimizer MakeOptimizer(std::string_view name, double learning_rate) {
  const Choice* chosen = std::begin(kOptimizers);
  while (chosen != std::end(kOptimizers) && chosen->name != name) ++chosen;
  MESHWORK_CHECK(chosen != std::end(kOptimizers), "optimizer {}", name);
  return chosen->make(learning_rate);
}

int RunDigits(const DigitsModel& model, int argc, char** argv) {
  return RunMain(model.program, [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(DigitsOptions options, ParseDigitsOptions(model, argc, argv));
    if (!options.help)
      return RunOnDevices<DigitsOptions>(options, [&](const DigitsOptions& o) { return Main(model, o); });
    fmt::print("{}", options.help_text);
    return absl::OkStatus();
  });
}

}  // namespace meshwork
