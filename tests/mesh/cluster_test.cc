#include "meshwork/mesh/cluster.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/mesh/placement.h"
#include "support/environment.h"

namespace meshwork::cluster_test {
namespace {

Cluster Read(const std::map<std::string, std::string>& variables) {
  return Cluster::FromEnvironment(EnvironmentOf(variables)).value();
}

TEST(ClusterTest, WithoutVariablesAProcessIsAlone) {
  const Cluster alone = Read({});
  EXPECT_EQ(alone, Cluster());
  EXPECT_TRUE(alone.is_alone());
  EXPECT_TRUE(alone.is_chief());
  EXPECT_EQ(alone.num_processes(), 1);
  EXPECT_EQ(alone.process(), 0);
  EXPECT_EQ(alone.AddressOf(alone.task()), "");
  EXPECT_EQ(alone.ToString(), "one process");
}

TEST(ClusterTest, ThoseThatAreLeftAreNumberedAnew) {
  const auto cluster_of = [](const char* task) {
    return Read(
        {{"TF_CONFIG", fmt::format(R"({{"cluster": {{"chief": ["c:1"], "worker": ["a:1", "b:1", "d:1"],
                                               "evaluator": ["e:1"]}}, "task": {})",
                                   task) +
                           "}"}});
  };
  const Cluster last = cluster_of(R"({"type": "worker", "index": 2})");
  const Cluster left = last.Among({1, 3});
  EXPECT_EQ(left.num_processes(), 2);
  EXPECT_EQ(left.task(), (Task{Role::kWorker, 1}));
  EXPECT_EQ(left.process(), 1);
  EXPECT_EQ(left.count(Role::kChief), 0);
  EXPECT_EQ(left.count(Role::kEvaluator), 1);
  EXPECT_EQ(left.AddressOf(left.TaskOf(0)), "a:1");
  EXPECT_EQ(left.AddressOf(left.TaskOf(1)), "d:1");
  EXPECT_TRUE(cluster_of(R"({"type": "worker", "index": 0})").Among({1, 3}).is_chief());
  EXPECT_EQ(last.Among({0, 1, 2, 3}), last);
  EXPECT_TRUE(last.Among({3}).is_alone());
}

// For clusters of all roles, every process describes the cluster and the others alike.
TEST(ClusterTest, ProcessesAgreeOnWhoHoldsDevices) {
  for (int chiefs : {0, 1}) {
    for (int workers : {0, 1, 3}) {
      if (chiefs + workers == 0) continue;
      const auto list = [](const char* host, int count) {
        std::string text;
        for (int i = 0; i < count; ++i) text += fmt::format("{}\"{}-{}:4444\"", i == 0 ? "" : ", ", host, i);
        return text;
      };
      const std::string roles = fmt::format(
          R"({{"chief": [{}], "worker": [{}], "ps": ["[::1]:5", "p-1:65535"], "evaluator": ["e:1"]}})",
          list("c", chiefs), list("w", workers));
      std::map<int64_t, int> seen;
      const std::vector<std::pair<std::string, int>> all = {
          {"chief", chiefs}, {"worker", workers}, {"ps", 2}, {"evaluator", 1}};
      for (const auto& [role, count] : all) {
        for (int i = 0; i < count; ++i) {
          const Cluster cluster =
              Read({{"TF_CONFIG", fmt::format(R"({{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})",
                                              roles, role, i)}});
          EXPECT_EQ(NameOf(cluster.task().role), role);
          EXPECT_EQ(cluster.task().index, i);
          EXPECT_EQ(cluster.num_processes(), chiefs + workers);
          EXPECT_EQ(cluster.is_alone(), cluster.process() == 0 && chiefs + workers == 1);
          ++seen[cluster.process()];
          if (cluster.process() < 0) continue;
          EXPECT_EQ(cluster.TaskOf(cluster.process()), cluster.task());
          EXPECT_EQ(cluster.is_chief(), cluster.process() == 0);
          EXPECT_EQ(cluster.AddressOf(cluster.task()), fmt::format("{}-{}:4444", role[0], i));
          EXPECT_EQ(cluster.AddressOf({Role::kPs, 0}), "[::1]:5");
        }
      }
      for (int p = 0; p < chiefs + workers; ++p) EXPECT_EQ(seen[p], 1) << p;
      EXPECT_EQ(seen[-1], 3);
    }
  }
}

TEST(ClusterTest, AnEvaluatorNeedsNoAddress) {
  const Cluster cluster =
      Cluster::FromTfConfig(
          R"({"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}, "environment": "cloud"})")
          .value();
  EXPECT_EQ(cluster.process(), -1);
  EXPECT_FALSE(cluster.is_chief());
  EXPECT_EQ(cluster.AddressOf(cluster.task()), "");
  EXPECT_EQ(cluster.ToString(), "evaluator 0 of 1 process, by TF_CONFIG");
}

TEST(ClusterTest, AFileIsReadWithTheVariableThatSaysWhoThisIs) {
  const std::string text =
      R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})";
  EXPECT_EQ(Cluster::FromFile(text, "c.json", EnvironmentOf({}))->process(), 0);
  const Cluster second =
      Cluster::FromFile(text, "c.json", EnvironmentOf({{"MESHWORK_TASK", "worker:1"}})).value();
  EXPECT_EQ(second.process(), 1);
  EXPECT_EQ(second.source(), Cluster::Source::kFile);
  EXPECT_EQ(second.ToString(), "worker 1 of 2 processes, by a file");
}

TEST(ClusterTest, LaunchersSayWhichProcessThisIs) {
  struct Case {
    std::map<std::string, std::string> variables;
    Cluster::Source source;
    int64_t process, processes;
    std::string first;
  };
  using Source = Cluster::Source;
  const std::map<std::string, std::string> step = {
      {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_JOB_ID", "1234567"}};
  auto on = [&](const std::string& hosts) {
    auto variables = step;
    variables["SLURM_STEP_NODELIST"] = hosts;
    return variables;
  };
  const std::vector<Case> cases = {
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, Source::kMpi, 1, 2, ""},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}, Source::kMpi, 0, 3, ""},
      {step, Source::kSlurm, 2, 4, ""},
      {on("gpu3"), Source::kSlurm, 2, 4, "gpu3:24567"},
      {on("gpu3,gpu4"), Source::kSlurm, 2, 4, "gpu3:24567"},
      {on("node[07-12,20],gpu3"), Source::kSlurm, 2, 4, "node07:24567"},
      {on("node[7]"), Source::kSlurm, 2, 4, "node7:24567"},
      {on("rack[1-4]-a,b"), Source::kSlurm, 2, 4, "rack1-a:24567"},
      {on("node["), Source::kSlurm, 2, 4, ""},
      {on("r[1-2]n[3-4]"), Source::kSlurm, 2, 4, ""},
      // A batch script is not a step of Slurm.
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, Source::kAlone, 0, 1, ""},
      // The launcher of a single process tells nothing about others.
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, Source::kAlone, 0, 1, ""},
      {{{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "1"},
        {"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}},
       Source::kTfConfig,
       1,
       2,
       "a:1"},
  };
  for (const Case& c : cases) {
    const Cluster cluster = Read(c.variables);
    SCOPED_TRACE(cluster.ToString());
    EXPECT_EQ(cluster.source(), c.source);
    EXPECT_EQ(cluster.process(), c.process);
    EXPECT_EQ(cluster.num_processes(), c.processes);
    EXPECT_EQ(cluster.AddressOf({Role::kWorker, 0}), c.first);
  }
  EXPECT_EQ(Cluster::FromLauncher(EnvironmentOf({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}))->source(),
            Source::kMpi);
}

TEST(ClusterTest, VariablesOfThisProcessAreRead) {
  ASSERT_EQ(setenv("MESHWORK_CLUSTER_TEST", "a", 1), 0);
  EXPECT_EQ(ProcessEnvironment()("MESHWORK_CLUSTER_TEST"), "a");
  ASSERT_EQ(setenv("MESHWORK_CLUSTER_TEST", "", 1), 0);
  EXPECT_EQ(ProcessEnvironment()("MESHWORK_CLUSTER_TEST"), std::nullopt);
  ASSERT_EQ(unsetenv("MESHWORK_CLUSTER_TEST"), 0);
  EXPECT_EQ(ProcessEnvironment()("MESHWORK_CLUSTER_TEST"), std::nullopt);
}

TEST(ClusterTest, EachProcessHasADomain) {
  const Cluster cluster = Read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  const Placement placement = Placement::Create(Mesh::Parse("batch=4,model=2").value(), cluster).value();
  EXPECT_EQ(placement, Placement::Create(Mesh::Parse("batch=4,model=2").value(), 2).value());
  EXPECT_EQ(placement.DomainOf(7), 1);
}

}  // namespace
}  // namespace meshwork::cluster_test
