// A training of the MNIST MLP under a strategy, on data and from weights in a file: its losses, and the time of a step.
// benchmarks/peers/strategies.py runs it beside TensorFlow's strategies of the same names. See --help.
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
  int64_t devices = 2, steps = 40;
  JoinOptions join;
  std::string help;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "strategies",
      "Trains the MNIST MLP (784-700-500-10, ReLU, gradient descent at rate 0.1), and prints JSON.");
  flags.Choice("strategy", "where it is trained", &o.strategy, {"mirrored", "multi_worker"});
  flags.Int("devices", "of each process", &o.devices, 1);
  flags.Int("steps", "of training", &o.steps, 1);
  flags.Text(
      "data",
      "an .npz file: w0, b0, w1, b1, w2, b2; images [k,b,784] and labels [k,b], for steps 0, 1, … in turn",
      &o.data);
  AddJoinFlags(flags, &o.join);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  if (flags.help_asked()) o.help = flags.Help();
  else if (o.data.empty())
    return InvalidArgument("--data is missing; it names an .npz file with weights and batches.");
  return o;
}

absl::StatusOr<Strategy> StrategyOf(const Options& o) {
  if (o.strategy == "mirrored") return MirroredStrategy({.devices = o.devices});
  return MultiWorkerMirroredStrategy({.devices_per_worker = o.devices, .join = o.join});
}

absl::Status Main(const Options& o, const Strategy& strategy) {
  MESHWORK_ASSIGN_OR_RETURN(const auto arrays, ReadNpz(o.data));
  const std::map<std::string, Tensor> data(arrays.begin(), arrays.end());
  for (const char* name : {"w0", "b0", "w1", "b1", "w2", "b2", "images", "labels"})
    if (!data.contains(name)) return InvalidArgument("--data: {} has no array \"{}\".", o.data, name);
  const Tensor& images = data.at("images");
  const Tensor& labels = data.at("labels");
  if (images.type().rank() != 3 || labels.type().rank() != 2 || images.shape()[0] < 1 ||
      images.shape()[0] != labels.shape()[0])
    return InvalidArgument(
        "--data: images are {} and labels {}; they must be [k,b,784] and [k,b], with k at least 1.",
        images.type().ToString(), labels.type().ToString());
  const int64_t batches = images.shape()[0], batch = images.shape()[1];

  Graph graph = NewGraph();
  Value h = graph.Input("x", F32, {batch, 784});
  const Value y = graph.Input("y", I32, {batch});
  constexpr int64_t kUnits[] = {784, 700, 500, 10};
  for (int layer = 0; layer < 3; ++layer) {
    h = Dense(graph, fmt::format("dense{}", layer), kUnits[layer], kUnits[layer + 1])(h);
    if (layer < 2) h = Relu(h);
  }
  const Value loss = SparseSoftmaxCrossEntropy(h, y);
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  graph.Output("loss", loss);
  MESHWORK_ASSIGN_OR_RETURN(Session session, NewSession(graph));
  for (int layer = 0; layer < 3; ++layer) {
    MESHWORK_RETURN_IF_ERROR(
        session.Set(fmt::format("dense{}/kernel", layer), data.at(fmt::format("w{}", layer))));
    MESHWORK_RETURN_IF_ERROR(
        session.Set(fmt::format("dense{}/bias", layer), data.at(fmt::format("b{}", layer))));
  }
  std::vector<double> losses, ms;
  for (int64_t step = 0; step < o.steps; ++step) {
    const Feeds feeds = {{"x", images[step % batches]}, {"y", labels[step % batches]}};
    const auto start = std::chrono::steady_clock::now();
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(feeds));
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    MESHWORK_ASSIGN_OR_RETURN(losses.emplace_back(), result.scalar("loss"));
  }
  if (!strategy.is_chief()) return absl::OkStatus();
  std::sort(ms.begin(), ms.end());
  fmt::print("{}\n", nlohmann::json{{"losses", losses}, {"ms", ms[ms.size() / 2]}}.dump());
  return absl::OkStatus();
}

absl::Status Run(int argc, const char* const* argv) {
  MESHWORK_ASSIGN_OR_RETURN(const Options o, ParseOptions(argc, argv));
  if (!o.help.empty()) {
    fmt::print("{}", o.help);
    return absl::OkStatus();
  }
  MESHWORK_ASSIGN_OR_RETURN(const Strategy strategy, StrategyOf(o));
  return strategy.RunInAll([&] {
    const StrategyScope scope = strategy.Scope();
    return Main(o, strategy);
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
