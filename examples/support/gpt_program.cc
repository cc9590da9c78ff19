#include "examples/support/gpt_program.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "examples/support/gpt.h"
#include "examples/support/resumable.h"
#include "examples/support/text.h"
#include "examples/support/training_run.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMost = 1 << 20;
constexpr int64_t kTextBytes = 120'000;

// The flags of GptProgram, and their defaults.
struct GptOptions {
  RunOptions run;
  GptModel model{.layers = 2, .dim = 64, .heads = 4, .sequence = 64};
  int64_t batch = 16, steps = 200, sample_bytes = 200, experts_per_device = 0;
  double learning_rate = 3e-3, temperature = 0.8;
  int64_t test_batches = 0;
  std::string text, test_text, positions = "rotary", dtype = "f32";
  bool help = false;
  std::string help_text;
};

absl::StatusOr<GptOptions> ParseOptions(const GptProgram& program, int argc, const char* const* argv) {
  GptOptions o{.experts_per_device = program.experts_per_device};
  FlagTable flags(program.name, program.about);
  AddRunFlags(
      flags,
      "named axes; \"batch\" shards the examples, \"seq\" their positions, \"model\" heads, hidden units\n"
      "                     and the vocabulary; others hold copies",
      "of the initial weights, of what is read when, and of what is written", &o.run);
  flags.Text("text", "the file to learn; without it, a text that a small grammar makes", &o.text);
  flags.Int("layers", "blocks of attention and a feed-forward network", &o.model.layers, 0, kMost);
  flags.Int("dim", "units of a byte", &o.model.dim, 1, kMost);
  flags.Int("heads", "of attention; they divide the units", &o.model.heads, 1, kMost);
  flags.Int("experts-per-device",
            "of axis \"batch\", in each layer, one for each byte; 0: one network for all bytes",
            &o.experts_per_device, 0, kMost);
  flags.Int("sequence", "bytes of an example", &o.model.sequence, 1, kMost);
  flags.Choice("positions", "rotary: by turning queries and keys; learned: by a vector for each",
               &o.positions, {"rotary", "learned"});
  flags.Switch(
      "ring",
      "attention passes blocks of keys and values on along \"seq\" and never holds the whole sequence",
      &o.model.ring);
  flags.Int("batch", "examples per step", &o.batch, 1, kMost);
  flags.Int("steps", "how often the weights are updated in all", &o.steps, 0);
  flags.Real("learning-rate", "of Adam", &o.learning_rate, 0);
  flags.Choice("dtype", "of weights and activations", &o.dtype, {"f32", "f64"});
  flags.Int("test-batches", "so many batches of a text that is not learned are evaluated at the end",
            &o.test_batches, 0, kMost);
  flags.Text("test-text", "the file that they are of; without it and --text, another text of the grammar",
             &o.test_text);
  flags.Int("sample-bytes", "so many are written at the end", &o.sample_bytes, 0, kMost);
  flags.Real("temperature", "how freely: the chance of a byte grows with exp(logit / temperature)",
             &o.temperature, 0);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  MESHWORK_RETURN_IF_ERROR(CheckRunFlags(o.run));
  o.model.rotary = o.positions == "rotary";
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

// The text of a flag that names a file, or one of the grammar.
absl::StatusOr<std::string> LoadText(std::string_view flag, const std::string& file, uint64_t seed,
                                     const GptOptions& o) {
  std::string text = SyntheticText(kTextBytes, seed);
  if (!file.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(text, ReadFile(file));
  }
  if (static_cast<int64_t>(text.size()) < o.model.sequence + 1)
    return InvalidArgument("{}: {} has {} bytes; examples of {} and the byte that follows need {}.", flag,
                           file, text.size(), o.model.sequence, o.model.sequence + 1);
  return text;
}

// Empty unless the program evaluates on batches of it.
absl::StatusOr<std::string> LoadTestText(const GptOptions& o) {
  if (o.test_batches == 0) return "";
  if (!o.text.empty() && o.test_text.empty())
    return InvalidArgument(
        "--test-batches: there is no --test-text beside --text; it names the file to evaluate.");
  return LoadText("--test-text", o.test_text, /*seed=*/2, o);
}

// Passages that begin at random places of the text, and the same passages one byte later. Every process draws all
// places, so that they are the same on any number of processes, and copies the passages of its rows.
Feeds DrawExamples(const std::string& text, const GptOptions& o, int64_t step, const RowRange& rows) {
  Random random(static_cast<uint64_t>(o.run.seed), static_cast<uint64_t>(step));
  const int64_t s = o.model.sequence;
  Tensor tokens(Type{I32, {o.batch, s}}), targets(Type{I32, {o.batch, s}});
  const auto copy = [&](const char* from, int64_t row, Tensor& to) {
    std::transform(from, from + s, to.mutable_values<int32_t>().begin() + row * s,
                   [](char byte) { return static_cast<unsigned char>(byte); });
  };
  for (int64_t row = 0; row < o.batch; ++row) {
    const char* const begin = text.data() + random.Below(text.size() - static_cast<size_t>(s));
    if (row < rows.begin || row >= rows.end) continue;
    copy(begin, row, tokens);
    copy(begin + 1, row, targets);
  }
  return {{"tokens", std::move(tokens)}, {"targets", std::move(targets)}};
}

struct TrainLog {
  int64_t steps_before = 0;  // of the checkpoint; the entries below come after them
  bool was_stopped = false;  // by a signal, before the end
  absl::Status saved;        // whether the last checkpoint was written
  std::optional<double> startup_seconds;
  std::vector<double> losses, step_seconds;
};

// The facts that determine the examples of a step, besides its number.
CheckpointFacts FactsOf(const std::string& text, const GptOptions& o) {
  return {{"text", fmt::format("{:016x}", StableHash(text))},
          {"batch", fmt::format("{}", o.batch)},
          {"sequence", fmt::format("{}", o.model.sequence)},
          {"seed", fmt::format("{}", o.run.seed)}};
}

// The mean loss over the examples so far.
struct Mean {
  int64_t examples = 0;
  double sum = 0;

  void Add(double loss, int64_t rows) {
    sum += loss * static_cast<double>(rows);
    examples += rows;
  }
  double value() const { return sum / static_cast<double>(examples); }
};

absl::StatusOr<TrainLog> Train(Session& session, const std::string& text, const GptOptions& o,
                               Resumable& training) {
  using Clock = std::chrono::steady_clock;
  training.PrintFrom();
  int64_t step = training.first_step();
  TrainLog log{.steps_before = step};
  ProgressReporter progress = ProgressReporter::For(Out(), /*epochs=*/1, o.steps);
  progress.BeginEpoch(0);
  Mean mean{.examples = training.Number("examples"), .sum = training.Real("loss_sum")};
  if (step > 0 && mean.examples > 0) progress.Resume(step, mean.examples, mean.value());
  const auto facts = [&]() -> CheckpointFacts {
    return {{"examples", fmt::format("{}", mean.examples)},
            {"loss_sum", fmt::format("{}", mean.sum)},
            {"optimizer", "adam"},
            {"learning_rate", fmt::format("{}", o.learning_rate)}};
  };
  const RowRange rows = session.RowsHere(o.batch);
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<PrefetchToDevice> ahead, PrefetchToDevice::Create(session));
  ahead->Start([&, next = step]() mutable { return NextFeeds{.feeds = DrawExamples(text, o, next++, rows)}; },
               /*most=*/o.steps - step);
  while (step < o.steps && training.goes_on()) {
    MESHWORK_ASSIGN_OR_RETURN(const PrefetchedFeeds* const batch, ahead->Next());
    if (log.losses.empty()) log.startup_seconds = SecondsSinceProcessStart();
    const Clock::time_point start = Clock::now();
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(batch->feeds, batch->staged));
    log.step_seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    MESHWORK_ASSIGN_OR_RETURN(log.losses.emplace_back(), result.scalar("loss"));
    MESHWORK_RETURN_IF_ERROR(CheckLoss(session, batch->feeds, step + 1, log.losses.back(), o.run));
    mean.Add(log.losses.back(), o.batch);
    progress.Step(o.batch, log.losses.back());
    MESHWORK_RETURN_IF_ERROR(training.AfterStep(++step, facts));
  }
  log.was_stopped = step < o.steps;
  if (!log.losses.empty()) progress.EndEpoch(fmt::format("last loss {:.4f}", log.losses.back()));
  log.saved = training.End(step, facts());
  return log;
}

// The mean loss over batches of a text that the model has not learned; each step draws other places in it.
absl::StatusOr<double> Test(Session& session, const std::string& text, const GptOptions& o) {
  const RowRange rows = session.RowsHere(o.batch);
  double sum = 0;
  for (int64_t i = 0; i < o.test_batches; ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                              session.Evaluate(DrawExamples(text, o, i, rows), {"loss"}));
    MESHWORK_ASSIGN_OR_RETURN(const double loss, result.scalar("loss"));
    sum += loss;
  }
  return sum / static_cast<double>(o.test_batches);
}

// Draws a byte, with probabilities from a softmax of these logits, by a number in [0, 1).
int32_t Choose(std::span<const double> logits, double temperature, double at) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> chances;
  double sum = 0;
  for (double logit : logits) sum += chances.emplace_back(std::exp((logit - top) / temperature));
  at *= sum;
  size_t byte = 0;
  while (byte + 1 < chances.size() && at >= chances[byte]) at -= chances[byte++];
  return static_cast<int32_t>(byte);
}

// Row `row` of logits [1,s,v].
std::vector<double> RowOf(const Tensor& logits, int64_t row) {
  const int64_t v = logits.shape()[2];
  const Tensor wide = logits.Cast(F64);
  const auto values = wide.values<double>();
  return std::vector<double>(values.begin() + row * v, values.begin() + (row + 1) * v);
}

// Continues the beginning of the text, on one device of the chief. Each new byte is predicted from the last `sequence`
// bytes.
absl::StatusOr<std::string> WriteSample(const Session& trained, const std::string& text,
                                        const GptOptions& o) {
  Graph graph{Mesh()};
  BuildGptSampler(graph, o.model);
  MESHWORK_ASSIGN_OR_RETURN(
      Session session,
      Session::Create(graph, {.devices = o.run.devices, .workers = static_cast<int>(o.run.workers)}));
  for (const std::string& name : GptWeights(graph)) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor weight, trained.Get(name));
    MESHWORK_RETURN_IF_ERROR(session.Set(name, weight));
  }
  if (!o.run.is_chief()) return "";
  const int64_t s = o.model.sequence;
  std::vector<int32_t> all(1, static_cast<unsigned char>(text[0]));
  Random random(static_cast<uint64_t>(o.run.seed), static_cast<uint64_t>(o.steps));
  for (int64_t i = 0; i < o.sample_bytes; ++i) {
    const int64_t seen = std::min(std::ssize(all), s);
    std::vector<int32_t> window(all.end() - seen, all.end());
    window.resize(static_cast<size_t>(s));  // attention is causal: later bytes are not seen
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                              session.Evaluate({{"tokens", Tensor::From<int32_t>({1, s}, window)}}));
    MESHWORK_ASSIGN_OR_RETURN(const Tensor logits, result.Get("logits"));
    all.push_back(Choose(RowOf(logits, seen - 1), o.temperature, random.Uniform()));
  }
  return std::string(all.begin(), all.end());
}

int64_t CountParameters(const Graph& graph) {
  int64_t count = 0;
  for (const std::string& name : GptWeights(graph)) {
    const Argument& weight = graph.arguments()[static_cast<size_t>(graph.FindArgument(name))];
    count += graph.value(weight.value).global.num_elements();
  }
  return count;
}

absl::Status WriteResults(const Session& session, int64_t parameters, const std::string& sample,
                          std::optional<double> test_loss, const GptOptions& o, const TrainLog& log) {
  MESHWORK_RETURN_IF_ERROR(WriteProfile(session, o.run));
  const std::string source = o.text.empty() ? "synthetic" : o.text;
  if (!o.run.json.empty()) {
    nlohmann::ordered_json json = {{"data", source}};
    json.update(DescribeRun(session, parameters, log.startup_seconds, log.step_seconds));
    json["first_step"] = log.steps_before + 1;
    json["step_losses"] = log.losses;
    if (test_loss.has_value()) json["test_loss"] = *test_loss;
    json["sample"] = sample;
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // bytes that are not UTF-8
    MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(o.run.json, json.dump(2, ' ', false, replace) + "\n"));
  }
  if (o.run.plot.empty()) return absl::OkStatus();
  const std::string note =
      fmt::format("adam, mesh {}, batches of {}", session.program().body.mesh().ToString(), o.batch);
  return WriteLossPlot(o.run.plot,
                       fmt::format("Transformer on {}", source == "synthetic" ? "a synthetic text" : source),
                       note, log.steps_before + 1, log.losses);
}

absl::Status RunGpt(const GptOptions& o) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(o.run));
  GptModel model = o.model;
  const auto batch_axes = mesh.FindAxes("batch");
  model.experts = o.experts_per_device * (batch_axes.ok() ? mesh.GroupSize(*batch_axes) : 1);
  MESHWORK_ASSIGN_OR_RETURN(model.dtype, DTypeFromName(o.dtype));
  if (o.run.precision == "bf16") model.compute = BF16;
  GptOptions with_model = o;
  with_model.model = model;
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, LoadText("--text", o.text, /*seed=*/1, o));
  MESHWORK_ASSIGN_OR_RETURN(const std::string test_text, LoadTestText(o));
  Graph graph(mesh);
  BuildGpt(graph, model, o.batch, Adam({.learning_rate = o.learning_rate}));
  MESHWORK_RETURN_IF_ERROR(graph.status());
  MESHWORK_RETURN_IF_ERROR(CheckOutputs(o.run));
  MESHWORK_ASSIGN_OR_RETURN(Session session, CreateSession(graph, o.run));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Resumable> training,
                            Resumable::Begin(o.run, session, FactsOf(text, o)));
  const int64_t parameters = CountParameters(graph);
  fmt::print(Out(), "{}: {} bytes, mesh {} of {} devices, {} parameters\n",
             o.text.empty() ? "synthetic" : o.text, text.size(), mesh.ToString(), mesh.num_devices(),
             parameters);
  PrintStep(session, o.run);
  MESHWORK_ASSIGN_OR_RETURN(const TrainLog log, Train(session, text, o, *training));
  std::optional<double> test_loss;
  if (o.test_batches > 0 && !log.was_stopped) {
    MESHWORK_ASSIGN_OR_RETURN(test_loss, Test(session, test_text, o));
    fmt::print(Out(), "test loss {:.4f}, over {} batches\n", *test_loss, o.test_batches);
  }
  std::string sample;
  if (o.sample_bytes > 0 && !log.was_stopped) {
    MESHWORK_ASSIGN_OR_RETURN(sample, WriteSample(session, text, with_model));
    fmt::print(Out(), "\n{}\n", sample);
  }
  MESHWORK_RETURN_IF_ERROR(WriteResults(session, parameters, sample, test_loss, o, log));
  return log.saved;
}

}  // namespace
int RunGptProgram(const GptProgram& program, int argc, const char* const* argv) {
  return RunMain(program.name, [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(GptOptions options, ParseOptions(program, argc, argv));
    if (!options.help) return RunOnDevices<GptOptions>(options, RunGpt);
    fmt::print("{}", options.help_text);
    return absl::OkStatus();
  });
}

}  // namespace meshwork
