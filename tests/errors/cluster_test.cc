// Clusters over which a program cannot be spread, and wrong descriptions of clusters.
#include "meshwork/mesh/cluster.h"

#include <map>
#include <string>
#include <utility>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/mesh/placement.h"
#include "support/environment.h"

namespace meshwork::cluster_test {
namespace {

absl::StatusOr<Cluster> LaunchedBy(std::map<std::string, std::string> variables) {
  return Cluster::FromLauncher(EnvironmentOf(std::move(variables)));
}

TEST(ClusterErrors, Placements) {
  auto place = [](const std::string& mesh, const std::string& processes) {
    return Placement::Create(Mesh::Parse(mesh).value(),
                             LaunchedBy({{"PMI_RANK", "0"}, {"PMI_SIZE", processes}}).value());
  };
  ExpectErrors("placement_clusters", {
                                         MISTAKE(place("batch=4,model=2", "3")),
                                         MISTAKE(place("batch=4,model=2", "16")),
                                         MISTAKE(place("x=7", "2")),
                                         MISTAKE(place("x=3,y=6", "2")),
                                     });
}

TEST(ClusterErrors, TfConfig) {
  auto read = [](const std::string& text) { return Cluster::FromTfConfig(text); };
  auto cluster = [&](const std::string& roles) {
    return read(R"({"cluster": )" + roles + R"(, "task": {"type": "worker", "index": 0}})");
  };
  auto task = [&](const std::string& json) {
    return read(R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": )" + json + "}");
  };
  std::string many = R"({"worker": ["a:1")";
  for (int i = 0; i < 65536; ++i) many += ", \"a:1\"";
  many += "]}";
  ExpectErrors("tf_config", {
                                MISTAKE(read("")),
                                MISTAKE(read("worker")),
                                MISTAKE(read(R"({"cluster": {"worker": ["a:1"]})")),
                                MISTAKE(read("[]")),
                                MISTAKE(read("{}")),
                                MISTAKE(read(R"({"clusters": {}})")),
                                MISTAKE(read(R"({"cluster": {"worker": ["a:1"]}})")),
                                MISTAKE(cluster("[]")),
                                MISTAKE(cluster("{}")),
                                MISTAKE(cluster(R"({"ps": ["a:1"]})")),
                                MISTAKE(cluster(R"({"workers": ["a:1"]})")),
                                MISTAKE(cluster(R"({"master": ["a:1"]})")),
                                MISTAKE(cluster(R"({"worker": "a:1"})")),
                                MISTAKE(cluster(R"({"worker": [1]})")),
                                MISTAKE(cluster(R"({"worker": ["a"]})")),
                                MISTAKE(cluster(R"({"worker": ["a:0"]})")),
                                MISTAKE(cluster(R"({"worker": ["a:65536"]})")),
                                MISTAKE(cluster(R"({"worker": ["a:1", ":4444"]})")),
                                MISTAKE(cluster(R"({"worker": ["http://a:1"]})")),
                                MISTAKE(cluster(R"({"worker": ["::1:4444"]})")),
                                MISTAKE(cluster(R"({"worker": ["a:1", "b:1", "a:1"]})")),
                                MISTAKE(cluster(R"({"worker": ["a:1"], "ps": ["a:1"]})")),
                                MISTAKE(cluster(R"({"worker": ["a:1"], "worker": ["b:1"]})")),
                                MISTAKE(cluster(R"({"chief": ["a:1", "b:1"]})")),
                                {"65537 workers", [&] { return cluster(many); }},
                                MISTAKE(task("0")),
                                MISTAKE(task("{}")),
                                MISTAKE(task(R"({"type": "worker"})")),
                                MISTAKE(task(R"({"index": 0})")),
                                MISTAKE(task(R"({"type": "wroker", "index": 0})")),
                                MISTAKE(task(R"({"type": "worker", "index": "0"})")),
                                MISTAKE(task(R"({"type": "worker", "index": 2})")),
                                MISTAKE(task(R"({"type": "worker", "index": -1})")),
                                MISTAKE(task(R"({"type": "ps", "index": 0})")),
                                MISTAKE(task(R"({"type": "evaluator", "index": 1})")),
                                MISTAKE(task(R"({"type": "worker", "index": 0, "job": 1})")),
                            });
}

TEST(ClusterErrors, ClusterFiles) {
  const std::string file = R"({"cluster": {"worker": ["a:1", "b:1"]}})";
  auto read = [&](const std::string& task) {
    return Cluster::FromFile(file, "cluster.json", EnvironmentOf({{"MESHWORK_TASK", task}}));
  };
  ExpectErrors("cluster_file", {
                                   MISTAKE(Cluster::FromFile("{", "cluster.json", EnvironmentOf({}))),
                                   MISTAKE(Cluster::FromFile(file, "cluster.json", EnvironmentOf({}))),
                                   MISTAKE(read("worker")),
                                   MISTAKE(read("worker:")),
                                   MISTAKE(read("worker:one")),
                                   MISTAKE(read("driver:0")),
                                   MISTAKE(read("worker:2")),
                                   MISTAKE(read("chief:0")),
                               });
}

TEST(ClusterErrors, Launchers) {
  auto mpi = [](const std::string& rank, const std::string& size) {
    return LaunchedBy({{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", size}});
  };
  ExpectErrors("launchers", {
                                MISTAKE(LaunchedBy({})),
                                MISTAKE(LaunchedBy({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})),
                                MISTAKE(LaunchedBy({{"OMPI_COMM_WORLD_SIZE", "2"}})),
                                MISTAKE(LaunchedBy({{"PMI_RANK", "2"}})),
                                MISTAKE(mpi("0", "two")),
                                MISTAKE(mpi("0", "0")),
                                MISTAKE(mpi("0", "65537")),
                                MISTAKE(mpi("2", "2")),
                                MISTAKE(mpi("-1", "2")),
                                MISTAKE(mpi("", "2")),
                            });
}

}  // namespace
}  // namespace meshwork::cluster_test
