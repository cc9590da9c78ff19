// Processes that cannot be joined.
#include "meshwork/train/cluster/processes.h"

#include <map>
#include <string>
#include <utility>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/transport/connect.h"
#include "support/environment.h"

namespace meshwork::processes_test {
namespace {

TEST(ProcessErrors, Join) {
  auto join = [](const JoinOptions& options, std::map<std::string, std::string> variables = {}) {
    return Processes::Join(options, EnvironmentOf(std::move(variables))).status();
  };
  const std::map<std::string, std::string> workers = {
      {"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})"}};
  // As a program that has the flags.
  const auto by_flags = [](const JoinOptions& asked) {
    FlagTable flags("program", "");
    JoinOptions options = asked;
    AddJoinFlags(flags, &options);
    return options;
  };
  const std::map<std::string, std::string> ps = {
      {"TF_CONFIG",
       R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}})"}};
  ExpectErrors("processes", {
                                MISTAKE(join({.cluster = "tf_config"})),
                                MISTAKE(join({.cluster = "mpi"})),
                                MISTAKE(join({.cluster = "/nowhere/cluster.json"})),
                                MISTAKE(join({}, {{"TF_CONFIG", "{"}})),
                                MISTAKE(join({.transport = "carrier pigeon"}, workers)),
                                MISTAKE(join({}, ps)),
                                MISTAKE(join({.transport = "mpi", .recover = "wait"}, workers)),
                                MISTAKE(join(by_flags({.cluster = "tf_config"}))),
                                MISTAKE(join(by_flags({.transport = "mpi", .recover = "wait"}), workers)),
                            });
}

}  // namespace
}  // namespace meshwork::processes_test
