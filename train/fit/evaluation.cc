#include "meshwork/train/fit/evaluation.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/clock.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/train/fit/fit_loop.h"
#include "meshwork/train/fit/output_means.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr const char* kStep = "global_step";

// The program without updates, and without what only they need.
Graph Computed(Graph graph) {
  graph.ClearUpdates();
  return DropDeadCode(std::move(graph));
}

// What the program does with its arguments, as text.
std::string BodyOf(const Graph& graph) {
  const std::string text = PrintGraph(graph);
  return text.substr(text.find(") {\n"));
}

// Type and layout of each argument that something reads.
std::map<std::string, std::string> ReadArgumentsOf(const Graph& graph) {
  const std::vector<bool> live = LiveValues(graph);
  std::map<std::string, std::string> arguments;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (live[static_cast<size_t>(argument.value)])
      arguments[info.name] = fmt::format("{} {}", argument.is_variable, PrintType(info));
  }
  return arguments;
}

// Training has each variable of the evaluation.
absl::Status CheckVariables(const Session& training, const Session& evaluation) {
  const std::map<std::string, DTensor> trained = training.State();
  for (const auto& [name, variable] : evaluation.State()) {
    const auto found = trained.find(name);
    if (found == trained.end())
      return InvalidArgument(
          "TrainAndEvaluate: the program of Mode::kEvaluate has a variable \"{}\", and that of Mode::kTrain has none{}",
          name, DidYouMeanOneOf(name, training.variable_names(), "variables"));
    if (found->second.type() != variable.type())
      return InvalidArgument(
          "TrainAndEvaluate: variable \"{}\" is {} in the program of Mode::kTrain and {} in that of Mode::kEvaluate; both "
          "need the same.",
          name, found->second.type().ToString(), variable.type().ToString());
  }
  return absl::OkStatus();
}

// Sets the variables of `to` to what those of `from` are. REQUIRES: CheckVariables(from, to) is OK.
absl::Status CopyVariables(const Session& from, Session& to) {
  const std::map<std::string, DTensor> sources = from.State();
  for (auto& [name, target] : to.State()) {
    const DTensor& source = sources.at(name);
    DTensor copy = target;  // of the same elements
    if (source.layout() == copy.layout() && source.bytes() == copy.bytes() && source.memory().is_host() &&
        copy.memory().is_host()) {
      std::memcpy(copy.instance(0), source.instance(0), static_cast<size_t>(source.bytes()));
      continue;
    }
    MESHWORK_ASSIGN_OR_RETURN(const Tensor whole, from.Get(name));
    MESHWORK_RETURN_IF_ERROR(to.Set(name, whole));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Evaluation::ToString() const {
  std::string text;
  if (const auto loss = metrics.find("loss"); loss != metrics.end())
    text = fmt::format("\"loss\": {:.6g}, ", loss->second);
  for (const auto& [name, value] : metrics)
    if (name != "loss") text += fmt::format("\"{}\": {:.6g}, ", name, value);
  return fmt::format("({{{}\"{}\": {}}})", text, kStep, global_step);
}

std::string Evaluation::ToDict() const {
  std::map<std::string, std::string> all = {{kStep, fmt::format("{}", global_step)}};
  for (const auto& [name, value] : metrics) all[name] = fmt::format("{:.6g}", value);
  std::vector<std::string> terms;
  for (const auto& [name, value] : all) terms.push_back(fmt::format("{} = {}", name, value));
  return fmt::format("{}", fmt::join(terms, ", "));
}

absl::StatusOr<Graph> BuildModel(const ModelFn& model, Mode mode) {
  Graph graph = model(mode);
  MESHWORK_RETURN_IF_ERROR(graph.status());
  for (const OutputInfo& output : graph.outputs()) {
    const Type& type = graph.value(output.value).type;
    if (output.name != "loss") continue;
    if (type.rank() == 0) return graph;
    return InvalidArgument(
        "TrainAndEvaluate: the model's output \"loss\" is {}; it must be a scalar, as ReduceMean makes it.",
        type.ToString());
  }
  return InvalidArgument(
      "TrainAndEvaluate: the model's program of {} has no output \"loss\"; name its loss by Graph::Output.",
      mode == Mode::kTrain ? "Mode::kTrain" : "Mode::kEvaluate");
}

Metrics ScalarsOf(const StepResult& result) {
  Metrics scalars;
  for (const auto& [name, tensor] : result.outputs())
    if (tensor.type().rank() == 0)
      if (const absl::StatusOr<double> value = tensor.Scalar(); value.ok()) scalars[name] = *value;
  return scalars;
}

absl::StatusOr<Metrics> Evaluate(Session& session, const EvalSpec& spec) {
  BatchesOptions options = spec.input.batches;
  options.epoch = options.first_batch = 0;
  options.rows = [&session](int64_t rows) { return session.RowsHere(rows); };
  const Pipeline batches = spec.input.dataset.Batches(options);
  MESHWORK_RETURN_IF_ERROR(batches.status());
  OutputMeans means(session.graph());
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsAside> aside, MetricsAside::Begin(session));
  PipelineIterator walk = batches.Begin();
  int64_t steps = 0;
  do {
    const absl::StatusOr<std::optional<Batch>> batch = walk.Next();
    MESHWORK_RETURN_IF_ERROR(internal::FailInAll(session, batch.status()));
    if (!batch->has_value()) break;
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Accumulate(spec.input.feeds(**batch)));
    means.Add(result, (*batch)->rows());
  } while (++steps != spec.steps);
  MESHWORK_RETURN_IF_ERROR(aside->End());
  return means.Values();
}

RunConfig WithDefaults(RunConfig config) {
  if (config.seconds == nullptr) config.seconds = SteadySeconds;
  if (config.log == nullptr)
    config.log = [](std::string_view line) {
      fmt::print("{}\n", line);
      std::fflush(stdout);  // a file or a pipe shows what is going on, too
    };
  return config;
}

std::string ResultsFile(const std::string& model_dir, const std::string& name) {
  return fmt::format("{}/eval{}{}/results.jsonl", model_dir, name.empty() ? "" : "_", name);
}

absl::Status AppendResult(const std::string& path, const Evaluation& result) {
  nlohmann::ordered_json json;
  json[kStep] = result.global_step;
  for (const auto& [name, value] : result.metrics) json[name] = value;
  std::error_code ignored;  // what comes next says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  absl::StatusOr<std::string> before = ReadFile(path);
  if (absl::IsNotFound(before.status())) before = "";
  MESHWORK_RETURN_IF_ERROR(before.status());
  return WriteFileAtomically(path, *before + json.dump() + "\n");
}

void SaveResult(const Evaluation& result, const EvalSpec& spec, const RunConfig& config) {
  config.log(fmt::format("Saving dict for global step {}: {}", result.global_step, result.ToDict()));
  const absl::Status status = AppendResult(ResultsFile(config.model_dir, spec.name), result);
  if (!status.ok()) config.log(fmt::format("The result is not saved: {}", MessageOf(status)));
}

bool ComputeTheSame(const Graph& a, const Graph& b) {
  const Graph x = Computed(a), y = Computed(b);
  return x.mesh() == y.mesh() && ReadArgumentsOf(x) == ReadArgumentsOf(y) && BodyOf(x) == BodyOf(y);
}

absl::StatusOr<EvaluationHere> EvaluationHere::Create(const ModelFn& model, const Graph& trained,
                                                      Session& training, const SessionOptions& options) {
  EvaluationHere here(training);
  MESHWORK_ASSIGN_OR_RETURN(const Graph evaluated, BuildModel(model, Mode::kEvaluate));
  if (ComputeTheSame(trained, evaluated)) return here;
  SessionOptions own = options;
  own.compile.dump = nullptr;
  own.executor.profile = false;
  own.executor.trace_steps = 0;
  MESHWORK_ASSIGN_OR_RETURN(here.own_, Session::Create(evaluated, std::move(own)));
  MESHWORK_RETURN_IF_ERROR(CheckVariables(training, *here.own_));
  return here;
}

absl::StatusOr<Metrics> EvaluationHere::Run(const EvalSpec& spec) {
  if (!own_.has_value()) return Evaluate(*training_, spec);
  MESHWORK_RETURN_IF_ERROR(CopyVariables(*training_, *own_));
  return Evaluate(*own_, spec);
}

}  // namespace meshwork
