// Closures: functions that a coordinator has workers run, by name. All processes of a job run the same program and
// register the same functions.
//
//   ClosureRegistry closures;
//   closures.RegisterDataset("train", [](WorkerPlace worker) -> absl::StatusOr<Pipeline> {
//     return Pipeline::From(digits).Shard(worker.index, worker.count).Repeat().Batch(32);
//   });
//   closures.Register("train_step", [](ClosureContext& context, const std::vector<Tensor>& arguments)
//                                       -> absl::StatusOr<std::vector<Tensor>> {
//     MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> batch, context.Next(0));
//     …
//     return std::vector<Tensor>{loss};
//   });
//
// A *resource* is an object that a worker makes once and keeps: a session, or a data set of which each closure reads
// on. The coordinator names it in the arguments of closures (ClusterCoordinator::CreatePerWorker), and each worker
// makes its own when a closure needs it first. A worker that was started again makes it anew.
//
// Thread safety: a ClosureRegistry is a value; nobody else may use it while functions are registered. Closures run in
// several threads if the coordinator gives a worker several at a time; a resource that they share is then used by
// several threads. Next may be called by any.
// Source: https://www.tensorflow.org/tutorials/distribute/parameter_server_training, "Training with a custom training
// loop".
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/data/example.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork {

// A worker among those of its coordinator.
struct WorkerPlace {
  int64_t index = 0, count = 1;
};

// A handle of a resource that each worker has, for the arguments of closures.
struct PerWorker {
  // Explicit, so that a number among arguments is a tensor.
  explicit PerWorker(int64_t id = 0, std::string name = {}) : id(id), name(std::move(name)) {}

  int64_t id;        // of its coordinator's resources
  std::string name;  // as it was registered
};

// The surroundings of a closure, besides its arguments.
class ClosureContext {
 public:
  struct NamedResource {
    std::string name;
    std::any value;  // std::shared_ptr<T>
  };
  ClosureContext(WorkerPlace worker, std::vector<NamedResource> resources)
      : worker_(worker), resources_(std::move(resources)) {}

  const WorkerPlace& worker() const { return worker_; }
  // This worker's own resource for number i of the resources among the arguments. Errors: there are not so many; it is
  // of another C++ type than T.
  template <typename T>
  absl::StatusOr<std::shared_ptr<T>> Resource(size_t i) const {
    const auto* const resource =
        i < resources_.size() ? std::any_cast<std::shared_ptr<T>>(&resources_[i].value) : nullptr;
    if (resource == nullptr) return NoResource(i);
    return *resource;
  }
  // The next element of a data set, resource i; nothing at its end. Errors, besides: those of PipelineIterator::Next.
  absl::StatusOr<std::optional<Example>> Next(size_t i) const;

 private:
  absl::Status NoResource(size_t i) const;

  const WorkerPlace worker_;
  const std::vector<NamedResource> resources_;
};

class ClosureRegistry {
 public:
  // May return an error, or throw: the coordinator gets it.
  using Closure = std::function<absl::StatusOr<std::vector<Tensor>>(ClosureContext& context,
                                                                    const std::vector<Tensor>& arguments)>;
  template <typename T>
  using Make = std::function<absl::StatusOr<std::shared_ptr<T>>(WorkerPlace worker)>;

  // Errors: the name is taken; the function is empty.
  absl::Status Register(const std::string& name, Closure closure);
  template <typename T>
  absl::Status RegisterResource(const std::string& name, Make<T> make) {
    if (make == nullptr) return AddMaker(name, nullptr);
    return AddMaker(name, [make = std::move(make)](WorkerPlace worker) -> absl::StatusOr<std::any> {
      MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<T> made, make(worker));
      return std::any(std::move(made));
    });
  }
  // A resource over which ClosureContext::Next walks.
  absl::Status RegisterDataset(const std::string& name,
                               std::function<absl::StatusOr<Pipeline>(WorkerPlace worker)> make);

  // Runs a closure. Errors: there is no such closure (with the nearest name); its own, or what it throws; it returns an
  // invalid tensor.
  absl::StatusOr<std::vector<Tensor>> Run(const std::string& name, ClosureContext& context,
                                          const std::vector<Tensor>& arguments) const;
  // Makes a resource. Errors alike.
  absl::StatusOr<std::any> MakeResource(const std::string& name, WorkerPlace worker) const;

 private:
  using Maker = std::function<absl::StatusOr<std::any>(WorkerPlace worker)>;
  absl::Status AddMaker(const std::string& name, Maker make);

  std::map<std::string, Closure> closures_;
  std::map<std::string, Maker> makers_;
};

}  // namespace meshwork
