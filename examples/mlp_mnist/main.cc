// Trains an MLP on handwritten digits on a mesh of virtual CPU devices. See --help.
//
// Exit code 2, one line on standard error and no file touched: something about the input is wrong.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <new>
#include <system_error>

#include "base/status.h"
#include "examples/mlp_mnist/options.h"
#include "examples/mlp_mnist/report.h"
#include "examples/mlp_mnist/training.h"
#include "examples/mlp_mnist/weights.h"
#include "examples/support/mlp.h"
#include "meshwork.h"
#include "ops/memory_report.h"
#include "train/file.h"

namespace meshwork {
namespace {

constexpr int64_t kTracedSteps = 10, kTracedDeviceSteps = 5120;

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
    ASSIGN_OR_RETURN(data.digits, LoadMnist(dir, dtype, {options.train_examples, options.test_examples}));
  }
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

// The file for --profile's trace; empty if it only prints.
std::string TraceFile(const MlpOptions& options) {
  return options.profile == "on" || options.profile == "off" ? "" : options.profile;
}

// Finds out before hours of training, not after, that a result could not be written.
absl::Status CheckOutputs(const MlpOptions& options) {
  const std::pair<std::string_view, std::string> files[] = {{"--save", options.save},
                                                            {"--json", options.json},
                                                            {"--plot", options.plot},
                                                            {"--profile", TraceFile(options)}};
  std::map<std::filesystem::path, std::string_view> flags;
  for (const auto& [flag, path] : files) {
    if (path.empty()) continue;
    std::error_code ignored;
    const auto [other, is_new] = flags.emplace(std::filesystem::weakly_canonical(path, ignored), flag);
    if (!is_new)
      return InvalidArgument("{} and {} are the same file, {}; one would overwrite the other.", other->second,
                             flag, path);
  }
  for (const auto& [flag, path] : files)
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

// A trace has an event per device and instruction; many devices fill a file with few steps.
int TraceSteps(const Mesh& mesh) {
  return static_cast<int>(std::clamp<int64_t>(kTracedDeviceSteps / mesh.num_devices(), 1, kTracedSteps));
}

void PrintHead(const Session& session, const Data& data, const Mesh& mesh, int64_t parameters) {
  fmt::print("{}: {} training and {} test images, mesh {} of {} devices, {} parameters\n", data.source,
             data.digits.train.size(), data.digits.test.size(), mesh.ToString(), mesh.num_devices(),
             parameters);
  for (const CollectiveSummary& c : SummarizeCollectives(session.program().body))
    fmt::print("  each step: {} {} over {}, {} B on the wire per device\n", c.count, c.type, c.axes, c.bytes);
}

absl::Status WriteResults(const Session& session, const Data& data, const MlpOptions& options,
                          const TrainLog& log) {
  if (options.profile != "off")
    fmt::print("\n{}\n{}", session.Profile().ToString(), session.Profile().ByOp().ToString());
  if (!options.save.empty()) RETURN_IF_ERROR(SaveWeights(session, options.save));
  if (!options.json.empty()) RETURN_IF_ERROR(WriteJson(session, data, options, log));
  if (!options.plot.empty()) RETURN_IF_ERROR(WritePlot(session, data, options, log));
  if (const std::string file = TraceFile(options); !file.empty())
    RETURN_IF_ERROR(WriteFileAtomically(file, session.Trace().ToJson()));
  return absl::OkStatus();
}

absl::Status Main(const MlpOptions& options) {
  absl::StatusOr<Mesh> mesh = Mesh::VirtualCpus(options.mesh);
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
  RETURN_IF_ERROR(CheckOutputs(options));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromName(options.dtype));
  ASSIGN_OR_RETURN(const Data data, LoadData(options, dtype));

  Graph graph(*mesh);
  BuildMlp(graph, std::min(options.batch_size, data.digits.train.size()), dtype,
           MakeOptimizer(options.optimizer, options.learning_rate));
  Weights weights;
  if (!options.load.empty()) {
    absl::StatusOr<Weights> read = ReadWeights(options.load, graph);
    if (!read.ok()) return Annotate(read.status(), "--load: ");
    weights = *std::move(read);
  }
  RETURN_IF_ERROR(MakeDumpFolder(options));
  Dumper dumper(options.dump);
  SessionOptions session_options{.workers = static_cast<int>(options.workers), .seed = options.seed};
  session_options.compile.shard_weight_update = options.shard_weight_update;
  if (!options.dump.empty()) session_options.compile.dump = std::ref(dumper);
  session_options.executor.profile = options.profile != "off";
  session_options.executor.trace_steps = TraceFile(options).empty() ? 0 : TraceSteps(*mesh);
  ASSIGN_OR_RETURN(Session session, Session::Create(graph, std::move(session_options)));
  RETURN_IF_ERROR(dumper.status());
  for (const auto& [name, tensor] : weights) RETURN_IF_ERROR(session.Set(name, tensor));
  ASSIGN_OR_RETURN(const int64_t parameters, CountParameters(session));
  PrintHead(session, data, *mesh, parameters);
  if (options.explain) {
    const Graph& local = session.program().body;
    fmt::print("\n{}\nmemory: {}\n", session.Explain(), PrintMemoryReport(local, ReportMemory(local)));
  }

  // Otherwise only where it is of interest: testing takes time.
  const bool test_before = options.epochs == 0 || !options.load.empty() || !options.plot.empty();
  ASSIGN_OR_RETURN(const TrainLog log, Train(session, data, options, test_before));
  return WriteResults(session, data, options, log);
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
