// A program of several processes in which something goes wrong, as its first argument says. Run by mishaps_test.
//
//   mishaps flip WORKER    bits of a weight flip in that worker, after step 4; replicas are compared after each third step
//   mishaps fork           each process forks after step 2; the child tries what it may not, and leaves; the parent goes on
//   mishaps orphan         worker 1 forks after step 2, and is killed while its child lives on
//
// Flags tell what the processes share, as in the examples. A further argument is ignored.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/train/cluster/replica_check.h"

namespace meshwork {
namespace {

constexpr int64_t kBatch = 8, kSteps = 7;

Graph Classifier() {
  Graph g(Mesh::VirtualCpus("batch=4").value());
  Value x = g.Input("x", F32, {kBatch, 6}, {"batch", UNSHARDED});
  Value y = g.Input("y", I32, {kBatch}, {"batch"});
  Variable w = g.Var("w", GlorotUniform({6, 4}), {UNSHARDED, UNSHARDED});
  Value loss = SparseSoftmaxCrossEntropy(MatMul(x, w), y);
  Adam({.learning_rate = 0.05}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

Feeds Examples(int64_t step) {
  Tensor x(Type{F32, {kBatch, 6}}), y(Type{I32, {kBatch}});
  for (int64_t i = 0; i < x.num_elements(); ++i)
    x.mutable_values<float>()[i] = static_cast<float>((i * 37 + step * 11) % 19) / 19;
  for (int64_t i = 0; i < kBatch; ++i) y.mutable_values<int32_t>()[i] = static_cast<int32_t>((i + step) % 4);
  return {{"x", x}, {"y", y}};
}

// In a child: makes all calls that need the others. Returns how many of them were not refused.
int TryAll(const Processes& processes, Session& session) {
  const absl::Status tried[] = {session.Run(Examples(0)).status(),
                                session.Evaluate(Examples(0)).status(),
                                session.Get("w").status(),
                                ReplicaCheck::Create(processes, 1).status(),
                                processes.transport()->AllGather("it", "text").status(),
                                processes.GatherTrace({}).status()};
  int others = 0;
  for (const absl::Status& status : tried)
    if (status.code() != absl::StatusCode::kFailedPrecondition) ++others;
  processes.transport()->Abort(absl::InternalError("a child aborts nothing"));
  return others;
}

// Returns an error if the child hung, or if a call was not refused.
absl::Status ForkAndWait(const Processes& processes, Session& session) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const int others = TryAll(processes, session);
    if (others == 0) std::exit(0);  // runs everything that runs at exit
    _exit(others);
  }
  int status = -1;
  if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return absl::OkStatus();
  return absl::InternalError(fmt::format("the child ended with {}", status));
}

// Leaves a child that has this process's connections, for a while.
[[noreturn]] void DieAsAParent() {
  if (fork() == 0) {
    for (int fd : {STDOUT_FILENO, STDERR_FILENO}) close(fd);  // which the launcher reads to their ends
    sleep(6);
    _exit(0);
  }
  std::raise(SIGKILL);
  std::abort();
}

absl::Status Train(const Processes& processes, const std::vector<std::string>& args) {
  SessionOptions options;
  processes.Use(options);
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(Classifier(), options));
  MESHWORK_ASSIGN_OR_RETURN(const ReplicaCheck replicas, ReplicaCheck::Create(processes, 3));
  const int64_t process = processes.cluster().process();
  double loss = 0;
  for (int64_t step = 1; step <= kSteps; ++step) {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(Examples(step)));
    MESHWORK_ASSIGN_OR_RETURN(loss, result.scalar("loss"));
    if (step == 4 && args[0] == "flip" && std::to_string(process) == args[1])
      *session.State().at("w").instance(0) ^= std::byte{4};
    if (step == 2 && args[0] == "fork") MESHWORK_RETURN_IF_ERROR(ForkAndWait(processes, session));
    if (step == 2 && args[0] == "orphan" && process == 1) DieAsAParent();
    MESHWORK_RETURN_IF_ERROR(replicas.AfterStep(step, session));
  }
  fmt::print("trained: {} steps, loss {:.5f}\n", kSteps, loss);
  return absl::OkStatus();
}

absl::Status Main(const std::vector<std::string>& args) {
  MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join({}));
  return processes.Run([&] { return Train(processes, args); });
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  args.resize(3);
  const absl::Status status = meshwork::Main(args);
  if (!status.ok()) fmt::print(stderr, "mishaps: {}\n", meshwork::MessageOf(status));
  return status.ok() ? 0 : 2;
}
