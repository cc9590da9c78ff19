#include "meshwork/train/parameter_server/rpc/closures.h"

#include <mutex>
#include <string_view>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {
namespace {

// One walk, by several threads in turn.
struct SharedWalk {
  explicit SharedWalk(PipelineIterator walk) : walk(std::move(walk)) {}
  std::mutex mutex;
  PipelineIterator walk;
};

template <typename Functions, typename Function>
absl::Status AddNamed(Functions& functions, std::string_view kind, const std::string& name,
                      Function function) {
  if (function == nullptr)
    return InvalidArgument("ClosureRegistry: {} \"{}\" is an empty function; give one that can be called.",
                           kind, name);
  if (!functions.emplace(name, std::move(function)).second)
    return absl::AlreadyExistsError(fmt::format(
        "ClosureRegistry: there is a {} \"{}\" already; give each a name of its own.", kind, name));
  return absl::OkStatus();
}

template <typename Functions>
absl::Status NoSuch(const Functions& functions, std::string_view kind, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& entry : functions) names.push_back(entry.first);
  return absl::NotFoundError(fmt::format("{} \"{}\": the worker's program has registered none of this name{}",
                                         kind, name, DidYouMeanOneOf(name, names, fmt::format("{}s", kind))));
}

}  // namespace

absl::Status ClosureContext::NoResource(size_t i) const {
  if (i >= resources_.size())
    return InvalidArgument(
        "resource {} is asked for, of {}; they are numbered from 0, in the order of the arguments.", i,
        Count(std::ssize(resources_), "resource"));
  return InvalidArgument(
      "resource {}, \"{}\", is of another C++ type; ask for the type that it was registered with.", i,
      resources_[i].name);
}

absl::StatusOr<std::optional<Example>> ClosureContext::Next(size_t i) const {
  MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<SharedWalk> shared, Resource<SharedWalk>(i));
  const std::lock_guard lock(shared->mutex);
  return shared->walk.Next();
}

absl::Status ClosureRegistry::Register(const std::string& name, Closure closure) {
  return AddNamed(closures_, "closure", name, std::move(closure));
}

absl::Status ClosureRegistry::AddMaker(const std::string& name, Maker make) {
  return AddNamed(makers_, "resource", name, std::move(make));
}

absl::Status ClosureRegistry::RegisterDataset(
    const std::string& name, std::function<absl::StatusOr<Pipeline>(WorkerPlace worker)> make) {
  if (make == nullptr) return AddMaker(name, nullptr);
  return RegisterResource<SharedWalk>(
      name, [make = std::move(make)](WorkerPlace worker) -> absl::StatusOr<std::shared_ptr<SharedWalk>> {
        MESHWORK_ASSIGN_OR_RETURN(const Pipeline pipeline, make(worker));
        MESHWORK_RETURN_IF_ERROR(pipeline.status());
        return std::make_shared<SharedWalk>(pipeline.Begin());
      });
}

absl::StatusOr<std::vector<Tensor>> ClosureRegistry::Run(const std::string& name, ClosureContext& context,
                                                         const std::vector<Tensor>& arguments) const {
  const auto found = closures_.find(name);
  if (found == closures_.end()) return NoSuch(closures_, "closure", name);
  const std::string where = fmt::format("closure \"{}\"", name);
  try {
    absl::StatusOr<std::vector<Tensor>> results = found->second(context, arguments);
    MESHWORK_RETURN_IF_ERROR(Annotate(results.status(), where + ": "));
    for (const Tensor& result : *results)
      MESHWORK_RETURN_IF_ERROR(Annotate(result.status(), where + " returned an invalid tensor: "));
    return results;
  } catch (...) {
    return CaughtStatus(where, "there is not enough memory");
  }
}

absl::StatusOr<std::any> ClosureRegistry::MakeResource(const std::string& name, WorkerPlace worker) const {
  const auto found = makers_.find(name);
  if (found == makers_.end()) return NoSuch(makers_, "resource", name);
  const std::string where = fmt::format("resource \"{}\"", name);
  try {
    absl::StatusOr<std::any> made = found->second(worker);
    MESHWORK_RETURN_IF_ERROR(Annotate(made.status(), where + ": "));
    return made;
  } catch (...) {
    return CaughtStatus(where, "there is not enough memory");
  }
}

}  // namespace meshwork
