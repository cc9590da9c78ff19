// Mistakes that ParameterServerStrategy refuses, and errors that end a training.
#include <filesystem>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/fit/fit.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/optim/optimizers.h"
#include "meshwork/train/parameter_server/rpc/parameter_server_strategy.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/sequence_set.h"
#include "support/served_cluster.h"
#include "support/temp_dir.h"

namespace meshwork::served_strategy_test {
namespace {

using Training = ParameterServerTraining;

absl::StatusOr<ParameterServerStrategy> Of(const std::string& config,
                                           const ParameterServerOptions& options = {}) {
  return ParameterServerStrategy::Create(options, [&](const std::string& name) -> std::optional<std::string> {
    if (name == "TF_CONFIG") return config;
    return std::nullopt;
  });
}

Graph Mean() {
  Graph g(Mesh::VirtualCpus("device=1").value());
  const Value x = g.Input("x", F32, {2, 3});
  const Variable w = g.Var("w", Zeros({3}));
  const Value loss = ReduceMean(Square(x - w));
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

absl::StatusOr<Pipeline> Rows(int64_t rows) {
  return BatchesOf({{"x", Tensor::Zeros({F32, {rows, 3}})}}, {.batch_size = 2});
}

// The error of `body` in the chief of two workers and a server.
absl::Status InChief(const ParameterServerStrategy::ChiefFunction& body,
                     const ParameterServerOptions& options = {}, int64_t rows = 4) {
  const Graph graph = Mean();
  const absl::Status status =
      ServedCluster(2, 1, graph, options, [rows](const InputContext&) { return Rows(rows); }).Run(body);
  static const std::regex port("127\\.0\\.0\\.1:[0-9]+");
  return absl::Status(status.code(),
                      std::regex_replace(std::string(status.message()), port, "127.0.0.1:PORT"));
}

TEST(ServedStrategyErrors, Clusters) {
  const std::string cluster =
      R"({"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4"], "evaluator": ["e:5"]})";
  const std::string chief = R"({"cluster": )" + cluster + R"(, "task": {"type": "chief", "index": 0}})";
  const std::string evaluator =
      R"({"cluster": )" + cluster + R"(, "task": {"type": "evaluator", "index": 0}})";
  const std::string workers =
      R"({"cluster": {"worker": ["b:2", "c:3"]}, "task": {"type": "worker", "index": 0}})";
  const Graph graph = Mean();
  const auto data = [](const InputContext&) { return Rows(4); };
  const auto body = [](Training&) { return absl::OkStatus(); };
  ExpectErrors("served_clusters", {
                                      MISTAKE(Of("{")),
                                      MISTAKE(Of(workers)),
                                      MISTAKE(Of(chief, {.save_every = 0})),
                                      MISTAKE(Of(chief, {.gather = 3})),
                                      MISTAKE(Of(evaluator)->Run(graph, data, body)),
                                      MISTAKE(SequenceSet::Parse("7 3")),
                                  });
}

#ifdef MESHWORK_HAVE_GLOO
// A server is restarted and has lost its state: between two calls of Train, or within one. `folder`: of
// checkpoints, which do not exist any more.
constexpr bool kBetween = false, kWithin = true;
absl::Status LoseServer(bool within, const std::string& folder = "") {
  const Graph graph = Mean();
  std::thread again;
  const ServedCluster* cluster_of_data = nullptr;
  const auto lose = [&]() -> absl::Status {
    if (again.joinable()) return absl::OkStatus();  // the data begin anew, and with them the count of batches
    const ServedCluster& cluster = *cluster_of_data;
    MESHWORK_RETURN_IF_ERROR(ShutDownServer(cluster.server_address(0), cluster.options().rpc));
    if (!folder.empty()) std::filesystem::remove_all(folder);
    again = std::thread([&] {
      // The first one may not have left the port yet.
      while (cluster_of_data->RunTask("ps:0", nullptr).code() == absl::StatusCode::kAlreadyExists) {
      }
    });
    return absl::OkStatus();
  };
  // The worker gets its fourth batch after three steps.
  const auto rows = [&](const InputContext&) -> absl::StatusOr<Pipeline> {
    MESHWORK_ASSIGN_OR_RETURN(const Pipeline batches, Rows(20));
    if (!within) return batches;
    return batches.Map([&, count = 0](Example batch) mutable -> absl::StatusOr<Example> {
      if (++count == 4) MESHWORK_RETURN_IF_ERROR(lose());
      return batch;
    });
  };
  ServedCluster cluster(1, 1, graph, {.folder = folder, .save_every = 2}, rows);
  cluster_of_data = &cluster;
  const absl::Status status = cluster.Run([&](Training& training) -> absl::Status {
    MESHWORK_RETURN_IF_ERROR(training.Train(6).status());
    MESHWORK_RETURN_IF_ERROR(lose());
    return training.Train(8).status();
  });
  again.join();
  return status;
}

using ServedTrainingsErrors = TempDirTest;

TEST_F(ServedTrainingsErrors, Trainings) {
  const Feeds feeds = {{"x", Tensor::Zeros({F32, {2, 3}})}};
  ExpectErrors("served_trainings",
               {
                   MISTAKE(InChief([](Training& t) { return t.Train(3).status(); }, {.gather = 2})),
                   MISTAKE(InChief([](Training& t) { return t.Fit({.epochs = 2}).status(); })),
                   MISTAKE(InChief([](Training& t) { return t.Step({}).status(); })),
                   MISTAKE(InChief([&](Training& t) {
                     return t.Step({{"x", feeds.at("x")}, {"y", feeds.at("x")}}).status();
                   })),
                   MISTAKE(InChief([](Training& t) { return t.Save(); })),
                   MISTAKE(InChief([](Training& t) { return t.Train(2).status(); }, {}, /*rows=*/0)),
                   MISTAKE(InChief([](Training& t) {
                     const PerWorker own = t.coordinator().CreatePerWorker("meshwork/worker");
                     return t.coordinator().Schedule("meshwork/step", {own})->Fetch().status();
                   })),
                   MISTAKE(InChief([](Training& t) {
                     const PerWorker own = t.coordinator().CreatePerWorker("meshwork/worker");
                     return t.coordinator().Schedule("meshwork/step", {own, Tensor(1.5f)})->Fetch().status();
                   })),
                   MISTAKE(LoseServer(kBetween)),
                   MISTAKE(LoseServer(kWithin)),
                   MISTAKE(LoseServer(kBetween, Path("servers"))),
               },
               {{Path(""), "DIR/"}});
}
#endif

}  // namespace
}  // namespace meshwork::served_strategy_test
