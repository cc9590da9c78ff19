// A training of the MNIST MLP under a strategy, on data and from weights in a file: its losses, and the time of a step.
// benchmarks/peers/strategies.py compares it with TensorFlow's strategies of the same names. See --help.
#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

struct Options {
  std::string strategy = "mirrored", data;
  int64_t num_devices = 2, steps = 40;
  JoinOptions join;
  std::string help;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags("strategies", "Trains an MLP (ReLU, gradient descent at rate 0.1), and prints JSON.");
  flags.Choice("strategy", "where it is trained", &o.strategy,
               {"mirrored", "multi_worker", "parameter_server"});
  flags.Int("num-devices", "of each process", &o.num_devices, 1);
  flags.Int("steps", "of training", &o.steps, 1);
  flags.Text(
      "data",
      "an .npz file: kernels and biases w0, b0, w1, b1, … of the layers; images [k,b,features] and labels [k,b], for steps 0, 1, … "
      "in turn",
      &o.data);
  AddJoinFlags(flags, &o.join);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  if (flags.help_asked()) o.help = flags.Help();
  else if (o.data.empty())
    return InvalidArgument("--data is missing; it names an .npz file with weights and batches.");
  return o;
}

absl::StatusOr<Strategy> StrategyOf(const Options& o) {
  if (o.strategy == "mirrored") return MirroredStrategy({.num_devices = o.num_devices});
  return MultiWorkerMirroredStrategy({.devices_per_worker = o.num_devices, .join = o.join});
}

// Weights, and the batches of steps 0, 1, … in turn.
struct Data {
  std::map<std::string, Tensor> arrays;
  const Tensor& at(std::string_view name) const { return arrays.find(std::string(name))->second; }
  int64_t batch() const { return at("images").shape()[1]; }
  int num_layers() const {
    int layers = 0;
    while (arrays.contains(fmt::format("w{}", layers))) ++layers;
    return layers;
  }
  Feeds Step(int64_t step) const {
    const int64_t k = step % at("images").shape()[0];
    return {{"x", at("images")[k]}, {"y", at("labels")[k]}};
  }
};

absl::StatusOr<Data> ReadData(const Options& o) {
  MESHWORK_ASSIGN_OR_RETURN(const auto arrays, ReadNpz(o.data));
  Data data{{arrays.begin(), arrays.end()}};
  std::vector<std::string> needed = {"w0", "images", "labels"};
  for (int layer = 0; layer < data.num_layers(); ++layer) needed.push_back(fmt::format("b{}", layer));
  for (const std::string& name : needed)
    if (!data.arrays.contains(name)) return InvalidArgument("--data: {} has no array \"{}\".", o.data, name);
  for (int layer = 0; layer < data.num_layers(); ++layer)
    if (const Tensor& kernel = data.at(fmt::format("w{}", layer)); kernel.type().rank() != 2)
      return InvalidArgument("--data: w{} is {}; a kernel has 2 dims.", layer, kernel.type().ToString());
  const Tensor& images = data.at("images");
  const Tensor& labels = data.at("labels");
  if (images.type().rank() != 3 || labels.type().rank() != 2 || images.shape()[0] < 1 ||
      images.shape()[0] != labels.shape()[0])
    return InvalidArgument(
        "--data: images are {} and labels {}; they must be [k,b,features] and [k,b], with k at least 1.",
        images.type().ToString(), labels.type().ToString());
  return data;
}

// Keyed by the names of variables.
std::map<std::string, Tensor> WeightsOf(const Data& data) {
  std::map<std::string, Tensor> weights;
  for (int layer = 0; layer < data.num_layers(); ++layer) {
    weights[fmt::format("dense{}/kernel", layer)] = data.at(fmt::format("w{}", layer));
    weights[fmt::format("dense{}/bias", layer)] = data.at(fmt::format("b{}", layer));
  }
  return weights;
}

void AddModel(Graph& graph, const Data& data) {
  Value h = graph.Input("x", F32, {data.batch(), data.at("images").shape()[2]});
  const Value y = graph.Input("y", I32, {data.batch()});
  for (int layer = 0; layer < data.num_layers(); ++layer) {
    if (layer > 0) h = Relu(h);
    const Shape& kernel = data.at(fmt::format("w{}", layer)).shape();
    h = Dense(graph, fmt::format("dense{}", layer), kernel[0], kernel[1])(h);
  }
  const Value loss = SparseSoftmaxCrossEntropy(h, y);
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  graph.Output("loss", loss);
}

// Calls `step`, which returns a loss; prints the losses and the median time.
absl::Status Time(int64_t steps, bool prints,
                  const std::function<absl::StatusOr<double>(int64_t step)>& make_step) {
  std::vector<double> losses, ms;
  for (int64_t step = 0; step < steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    MESHWORK_ASSIGN_OR_RETURN(losses.emplace_back(), make_step(step));
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(ms.begin(), ms.end());
  if (prints) fmt::print("{}\n", nlohmann::json{{"losses", losses}, {"ms", ms[ms.size() / 2]}}.dump());
  return absl::OkStatus();
}

absl::Status Train(const Options& o, const Strategy& strategy, const Data& data) {
  Graph graph = NewGraph();
  AddModel(graph, data);
  MESHWORK_ASSIGN_OR_RETURN(Session session, NewSession(graph));
  for (const auto& [name, value] : WeightsOf(data)) MESHWORK_RETURN_IF_ERROR(session.Set(name, value));
  return Time(o.steps, strategy.is_chief(), [&](int64_t step) -> absl::StatusOr<double> {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(data.Step(step)));
    return result.scalar("loss");
  });
}

// One worker at a time, so that the losses do not depend on which worker is first.
absl::Status TrainByServers(const Options& o, const Data& data) {
  MESHWORK_ASSIGN_OR_RETURN(
      const auto strategy,
      ParameterServerStrategy::Create(
          {.cluster = o.join.cluster, .initial = WeightsOf(data), .session = {.workers = 1}}));
  Graph graph(Mesh::VirtualCpus("device=1").value());
  AddModel(graph, data);
  const auto no_data = [&](const InputContext&) {
    return BatchesOf(data.Step(0), {.batch_size = data.batch()});
  };
  return strategy.Run(graph, no_data, [&](ParameterServerTraining& training) {
    return Time(o.steps, /*prints=*/true, [&](int64_t step) -> absl::StatusOr<double> {
      MESHWORK_ASSIGN_OR_RETURN(const RemoteValue made, training.Step(data.Step(step)));
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<Tensor> results, made.Fetch());
      return results.at(1).Scalar();  // behind the number of examples
    });
  });
}

absl::Status Run(int argc, const char* const* argv) {
  MESHWORK_ASSIGN_OR_RETURN(const Options o, ParseOptions(argc, argv));
  if (!o.help.empty()) {
    fmt::print("{}", o.help);
    return absl::OkStatus();
  }
  MESHWORK_ASSIGN_OR_RETURN(const Data data, ReadData(o));
  if (o.strategy == "parameter_server") return TrainByServers(o, data);
  MESHWORK_ASSIGN_OR_RETURN(const Strategy strategy, StrategyOf(o));
  return strategy.RunInAll([&] {
    const StrategyScope scope = strategy.Scope();
    return Train(o, strategy, data);
  });
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  const absl::Status status = meshwork::Run(argc, argv);
  if (status.ok()) return 0;
  fmt::print(stderr, "strategies: {}\n", meshwork::MessageOf(status));
  return 2;
}
