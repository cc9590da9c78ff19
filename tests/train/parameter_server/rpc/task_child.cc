// task_child: a process of a cluster, as TF_CONFIG says, that serves a store or runs closures until it is asked to end.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/train/parameter_server/rpc/run_task.h"
#include "support/memory_store.h"

namespace meshwork {
namespace {

absl::Status Run() {
  MESHWORK_ASSIGN_OR_RETURN(const Cluster cluster, Cluster::FromEnvironment(ProcessEnvironment()));
  RunTaskOptions options{.rpc = {.token = "a token"}, .saves_at_stop = true};
  options.store = [](const Task&) -> absl::StatusOr<std::shared_ptr<ParameterStore>> {
    auto pieces = std::make_shared<StoredPieces>();
    pieces->pieces["table"] = Tensor::From<float>({2, 1}, {1, 2});
    return std::make_shared<MemoryStore>(pieces);
  };
  // Twice its argument, after some milliseconds.
  MESHWORK_RETURN_IF_ERROR(options.closures.Register(
      "twice",
      [](ClosureContext&, const std::vector<Tensor>& arguments) -> absl::StatusOr<std::vector<Tensor>> {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        MESHWORK_ASSIGN_OR_RETURN(const double x, arguments.at(0).Scalar());
        return std::vector<Tensor>{Tensor(2 * x)};
      }));
  MESHWORK_RETURN_IF_ERROR(options.closures.Register(
      "die", [](ClosureContext&, const std::vector<Tensor>&) -> absl::StatusOr<std::vector<Tensor>> {
        std::_Exit(9);
      }));
  return RunTask(cluster, options).status();
}

}  // namespace
}  // namespace meshwork

int main() {
  const absl::Status status = meshwork::Run();
  if (!status.ok()) fmt::print(stderr, "{}\n", meshwork::MessageOf(status));
  return status.ok() ? 0 : 1;
}
