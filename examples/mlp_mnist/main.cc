// Trains an MLP on handwritten digits on a mesh of virtual CPU devices. See --help.
//
// Exit code 2, one line on standard error and no file touched: something about the input is wrong.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/status.h"
#include "examples/mlp_mnist/options.h"
#include "examples/support/mlp.h"
#include "meshwork.h"
#include "train/file.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Data {
  std::string source;  // "mnist" or "synthetic"
  MnistData digits;
};

absl::StatusOr<Data> LoadData(const MlpOptions& options, DType dtype) {
  std::string dir = options.data_dir;
  if (const char* variable = std::getenv("MNIST_DIR"); dir.empty() && variable != nullptr) dir = variable;
  Data data{"mnist", {}};
  if (dir.empty() || dir == "synthetic") {
    fmt::print(stderr,
               "*** These are NOT the MNIST digits: training on synthetic ones from the built-in generator.\n"
               "*** For MNIST give --data-dir or MNIST_DIR, or run ./dev mnist.\n");
    data = {"synthetic", SyntheticDigits(options.train_examples, options.test_examples,
                                         static_cast<uint64_t>(options.seed), dtype)};
  } else {
    ASSIGN_OR_RETURN(data.digits, LoadMnist(dir, dtype));
  }
  data.digits.train = data.digits.train.Take(options.train_examples);
  data.digits.test = data.digits.test.Take(options.test_examples);
  if (data.digits.train.size() == 0 || data.digits.test.size() == 0)
    return InvalidArgument("{}: there are {} training and {} test images; at least one of each is needed.",
                           dir, data.digits.train.size(), data.digits.test.size());
  return data;
}

// Writes each pass's program as DIR/03_propagate.mw.
class Dumper {
 public:
  explicit Dumper(std::string dir) : dir_(std::move(dir)) {}
  void operator()(std::string_view pass, const Graph& graph) {
    const std::string path = fmt::format("{}/{:02}_{}.mw", dir_, count_++, pass);
    if (status_.ok()) status_ = WriteFileAtomically(path, PrintGraph(graph));
  }
  const absl::Status& status() const { return status_; }

 private:
  std::string dir_;
  int count_ = 0;
  absl::Status status_;
};

// Finds out before hours of training, not after, that a result could not be written.
absl::Status CheckOutputs(const MlpOptions& options) {
  std::error_code ignored;
  if (!options.save.empty() && std::filesystem::weakly_canonical(options.save, ignored) ==
                                   std::filesystem::weakly_canonical(options.json, ignored))
    return InvalidArgument("--save and --json are the same file, {}; one would overwrite the other.",
                           options.save);
  for (const std::string& path : {options.save, options.json})
    if (!path.empty()) RETURN_IF_ERROR(CheckWritable(path));
  return absl::OkStatus();
}

// Makes the folder of --dump. After the data was read, so that bad data leaves no folder behind.
absl::Status MakeDumpFolder(const MlpOptions& options) {
  if (options.dump.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(options.dump, error);
  if (error) return InvalidArgument("--dump: cannot make the folder {}: {}.", options.dump, error.message());
  return CheckWritable(options.dump + "/00.mw");
}

struct Averages {
  double loss = 0, accuracy = 0, examples = 0;

  absl::Status Add(const StepResult& result, int64_t rows) {
    ASSIGN_OR_RETURN(const double step_loss, result.scalar("loss"));
    ASSIGN_OR_RETURN(const double step_accuracy, result.scalar("accuracy"));
    loss += step_loss * static_cast<double>(rows);
    accuracy += step_accuracy * static_cast<double>(rows);
    examples += static_cast<double>(rows);
    return absl::OkStatus();
  }
  double mean_loss() const { return loss / examples; }
  double mean_accuracy() const { return accuracy / examples; }
};

Feeds FeedsOf(const Batch& batch) { return {{"images", batch["image"]}, {"labels", batch["label"]}}; }

absl::StatusOr<Averages> EvaluateOn(Session& session, const Dataset& data, int64_t batch_size) {
  Averages averages;
  for (const Batch& batch : data.Batches({.batch_size = batch_size})) {
    ASSIGN_OR_RETURN(StepResult result, session.Evaluate(FeedsOf(batch)));
    RETURN_IF_ERROR(averages.Add(result, batch.rows()));
  }
  return averages;
}

struct TrainLog {
  std::vector<double> step_seconds;  // full batches
  std::vector<double> step_losses;
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
};

absl::StatusOr<TrainLog> Train(Session& session, const Data& data, const MlpOptions& options) {
  TrainLog log;
  BatchOptions batches{.batch_size = options.batch_size};
  if (options.shuffle == "on") batches.shuffle_seed = static_cast<uint64_t>(options.seed);
  ProgressReporter progress =
      ProgressReporter::For(stdout, options.epochs, data.digits.train.Batches(batches).num_batches());
  int64_t steps = 0;
  auto done = [&] { return options.steps > 0 && steps >= options.steps; };
  for (int64_t epoch = 0; epoch < options.epochs && !done(); ++epoch) {
    const Clock::time_point start = Clock::now();
    batches.epoch = epoch;
    progress.BeginEpoch(epoch);
    Averages train;
    for (const Batch& batch : data.digits.train.Batches(batches)) {
      const Clock::time_point step_start = Clock::now();
      ASSIGN_OR_RETURN(StepResult result, session.Run(FeedsOf(batch)));
      if (batch.rows() == options.batch_size) log.step_seconds.push_back(SecondsSince(step_start));
      RETURN_IF_ERROR(train.Add(result, batch.rows()));
      log.step_losses.push_back(*result.scalar("loss"));
      progress.Step(batch.rows(), log.step_losses.back(), *result.scalar("accuracy"));
      ++steps;
      if (done()) break;
    }
    ASSIGN_OR_RETURN(const Averages test, EvaluateOn(session, data.digits.test, options.batch_size));
    progress.EndEpoch(fmt::format("test loss {:.4f}  test accuracy {:.2f} %", test.mean_loss(),
                                  100 * test.mean_accuracy()));
    log.epochs.push_back({{"train_loss", train.mean_loss()},
                          {"train_accuracy", train.mean_accuracy()},
                          {"test_loss", test.mean_loss()},
                          {"test_accuracy", test.mean_accuracy()},
                          {"seconds", SecondsSince(start)}});
  }
  return log;
}

absl::Status Save(const Session& session, const std::string& path) {
  std::vector<std::pair<std::string, Tensor>> weights;
  for (const std::string& name : MlpWeights()) {
    ASSIGN_OR_RETURN(Tensor tensor, session.Get(name));
    weights.emplace_back(name, std::move(tensor));
  }
  return WriteSafetensors(path, weights);
}

absl::StatusOr<int64_t> CountParameters(const Session& session) {
  int64_t count = 0;
  for (const std::string& name : MlpWeights()) {
    ASSIGN_OR_RETURN(Tensor tensor, session.Get(name));
    count += tensor.num_elements();
  }
  return count;
}

absl::Status WriteJson(const Session& session, const Mesh& mesh, const Data& data, const MlpOptions& options,
                       TrainLog log) {
  nlohmann::ordered_json json;
  json["data"] = data.source;
  json["mesh"] = mesh.ToString();
  json["devices"] = mesh.num_devices();
  ASSIGN_OR_RETURN(const int64_t parameters, CountParameters(session));
  json["parameters"] = parameters;
  json["step_ms"] = nullptr;  // where there was no full batch
  if (!log.step_seconds.empty()) {
    auto middle = log.step_seconds.begin() + static_cast<int64_t>(log.step_seconds.size() / 2);
    std::nth_element(log.step_seconds.begin(), middle, log.step_seconds.end());
    json["step_ms"] = *middle * 1e3;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  json["peak_rss_mb"] = static_cast<double>(usage.ru_maxrss) / 1024;
  json["collectives"] = nlohmann::ordered_json::array();
  for (const CollectiveSummary& c : SummarizeCollectives(session.program().body))
    json["collectives"].push_back(
        {{"type", c.type}, {"axes", c.axes}, {"count", c.count}, {"bytes", c.bytes}});
  json["epochs"] = std::move(log.epochs);
  if (options.steps > 0) json["step_losses"] = log.step_losses;
  return WriteFileAtomically(options.json, json.dump(2) + "\n");
}

absl::Status Main(const MlpOptions& options) {
  absl::StatusOr<Mesh> mesh = Mesh::VirtualCpus(options.mesh);
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
  RETURN_IF_ERROR(CheckOutputs(options));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromName(options.dtype));
  ASSIGN_OR_RETURN(const Data data, LoadData(options, dtype));
  RETURN_IF_ERROR(MakeDumpFolder(options));

  Graph graph(*mesh);
  BuildMlp(graph, std::min(options.batch_size, data.digits.train.size()), dtype,
           MakeOptimizer(options.optimizer, options.learning_rate));
  Dumper dumper(options.dump);
  SessionOptions session_options{.workers = static_cast<int>(options.workers), .seed = options.seed};
  if (!options.dump.empty()) session_options.compile.dump = std::ref(dumper);
  session_options.executor.profile = options.profile == "on";
  ASSIGN_OR_RETURN(Session session, Session::Create(graph, std::move(session_options)));
  RETURN_IF_ERROR(dumper.status());
  ASSIGN_OR_RETURN(const int64_t parameters, CountParameters(session));
  fmt::print("{}: {} training and {} test images, mesh {} of {} devices, {} parameters\n", data.source,
             data.digits.train.size(), data.digits.test.size(), mesh->ToString(), mesh->num_devices(),
             parameters);
  for (const CollectiveSummary& c : SummarizeCollectives(session.program().body))
    fmt::print("  each step: {} {} over {}, {} B on the wire per device\n", c.count, c.type, c.axes, c.bytes);

  ASSIGN_OR_RETURN(TrainLog log, Train(session, data, options));
  if (options.profile == "on")
    fmt::print("\n{}\n{}", session.Profile().ToString(), session.Profile().ByOp().ToString());
  if (!options.save.empty()) RETURN_IF_ERROR(Save(session, options.save));
  if (!options.json.empty()) RETURN_IF_ERROR(WriteJson(session, *mesh, data, options, std::move(log)));
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // training goes on when nobody reads its report any more
  absl::StatusOr<meshwork::MlpOptions> options = meshwork::ParseMlpOptions(argc, argv);
  absl::Status status = options.status();
  if (options.ok() && options->help) {
    fmt::print("{}", options->help_text);
    return 0;
  }
  try {
    if (options.ok()) status = meshwork::Main(*options);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(
        "there is not enough memory; take fewer examples or a smaller --batch-size.");
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(fmt::format("the system refused a resource: {}.", error.what()));
  }
  if (status.ok()) return 0;
  fmt::print(stderr, "mlp_mnist: {}\n", meshwork::MessageOf(status));
  return 2;
}
