// Runs single steps of the MNIST example's network in f32, each from a state that mlp_oracle.py wrote with
// --save-each, and compares the results with the oracle's next state: |a - b| / |b|, per tensor.
//
//   mlp_single_steps --states DIR --losses FILE --data-dir MNIST --mesh batch=8 --batch-size 128 --steps 20
//
// Prints the worst tensor. Exit codes: 0; 1 if a tensor is above --tolerance; 2 if an input is wrong.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/support/mlp.h"
#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"

namespace meshwork {
namespace {

struct Options {
  std::string states, losses, data_dir, mesh = "batch=1";
  int64_t batch_size = 128, steps = 20;
  double learning_rate = 1e-3, tolerance = 1e-5;
};

using State = std::map<std::string, std::vector<double>>;  // by the session's names

// The oracle's "adam_m/dense1/bias" is "adam/m/dense1/bias" here.
std::string OurName(const std::string& name) {
  return name.starts_with("adam_") ? "adam/" + name.substr(5) : name;
}

absl::StatusOr<std::vector<double>> Doubles(const Tensor& tensor) {
  return Dispatch(tensor.dtype(), [&](auto zero) {
    const auto values = tensor.values<decltype(zero)>();
    return std::vector<double>(values.begin(), values.end());
  });
}

absl::StatusOr<State> ReadState(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const auto tensors, ReadSafetensors(path));
  State state;
  for (const auto& [name, tensor] : tensors) {
    MESHWORK_ASSIGN_OR_RETURN(state[OurName(name)], Doubles(tensor));
  }
  return state;
}

absl::StatusOr<std::vector<double>> ReadLosses(const std::string& path, int64_t steps) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || static_cast<int64_t>(json.size()) < steps)
    return InvalidArgument("{}: is not a JSON list of at least {} losses.", path, steps);
  return json.get<std::vector<double>>();
}

// A state has exactly one tensor for every variable of the session.
absl::Status SetState(Session& session, const State& state) {
  const std::vector<std::string> names = session.variable_names();
  if (names.size() != state.size())
    return InvalidArgument("the state has {} tensors, the session {}.", state.size(), names.size());
  for (const std::string& name : names) {
    if (!state.contains(name)) return InvalidArgument("the state has no {}.", name);
    const std::vector<double>& from = state.at(name);
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, session.Get(name));
    if (tensor.num_elements() != static_cast<int64_t>(from.size()))
      return InvalidArgument("the state's {} has {} elements, the session's {}.", name, from.size(),
                             tensor.num_elements());
    Dispatch(tensor.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::transform(from.begin(), from.end(), tensor.mutable_values<T>().begin(),
                     [](double x) { return static_cast<T>(x); });
    });
    MESHWORK_RETURN_IF_ERROR(session.Set(name, tensor));
  }
  return absl::OkStatus();
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

struct Worst {
  double distance = 0;
  std::string tensor = "none";
  int64_t step = 0;

  void Add(double other, const std::string& name, int64_t at) {
    if (std::isnan(distance) || other <= distance) return;  // a NaN is the worst, and stays
    *this = {other, name, at};
  }
};

absl::StatusOr<Worst> Compare(const Options& options) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(options.mesh));
  MESHWORK_ASSIGN_OR_RETURN(const MnistData mnist, LoadMnist(options.data_dir, F32));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<double> losses, ReadLosses(options.losses, options.steps));
  Graph graph(mesh);
  BuildMlp(graph, options.batch_size, {}, Adam({.learning_rate = options.learning_rate}));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph));
  Worst worst;
  int64_t step = 0;
  for (const Batch& batch : mnist.train.Batches({.batch_size = options.batch_size})) {
    if (step == options.steps) break;
    auto path = [&](int64_t n) { return fmt::format("{}/{}.safetensors", options.states, n); };
    MESHWORK_ASSIGN_OR_RETURN(const State before, ReadState(path(step)));
    MESHWORK_ASSIGN_OR_RETURN(const State after, ReadState(path(step + 1)));
    MESHWORK_RETURN_IF_ERROR(SetState(session, before));
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                              session.Run({{"images", batch["image"]}, {"labels", batch["label"]}}));
    MESHWORK_ASSIGN_OR_RETURN(const double loss, result.scalar("loss"));
    worst.Add(Distance({loss}, {losses[step]}), "loss", step);
    for (const auto& [name, expected] : after) {
      MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, session.Get(name));
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<double> actual, Doubles(tensor));
      worst.Add(Distance(actual, expected), name, step);
    }
    ++step;
  }
  if (step < options.steps) return InvalidArgument("the data has {} batches, not {}.", step, options.steps);
  return worst;
}

int Main(int argc, char** argv) {
  Options options;
  FlagTable flags("mlp_single_steps", "Compares single f32 steps with the oracle's.");
  flags.Text("states", "folder that mlp_oracle.py --save-each wrote", &options.states);
  flags.Text("losses", "file that mlp_oracle.py --losses wrote", &options.losses);
  flags.Text("data-dir", "folder of the MNIST files", &options.data_dir);
  flags.Text("mesh", "named axes", &options.mesh);
  flags.Int("batch-size", "images per step", &options.batch_size, 1);
  flags.Int("steps", "how many", &options.steps, 1);
  flags.Real("lr", "Adam's learning rate", &options.learning_rate, 0);
  flags.Real("tolerance", "of each tensor", &options.tolerance, 0);
  absl::Status status = flags.Parse(argc, argv);
  if (flags.help_asked()) {
    fmt::print("{}", flags.Help());
    return 0;
  }
  if (status.ok()) {
    const absl::StatusOr<Worst> worst = Compare(options);
    if (worst.ok()) {
      fmt::print("{:.3e} ({}, step {})\n", worst->distance, worst->tensor, worst->step);
      return worst->distance <= options.tolerance ? 0 : 1;
    }
    status = worst.status();
  }
  fmt::print(stderr, "mlp_single_steps: {}\n", MessageOf(status));
  return 2;
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) { return meshwork::Main(argc, argv); }
