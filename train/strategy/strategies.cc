#include "meshwork/train/strategy/strategies.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/runtime/pjrt/pjrt_backend.h"

namespace meshwork {
namespace {

using JoinedProcesses = std::shared_ptr<Processes>;

// `given`, or one device per core. Error: it is negative.
absl::StatusOr<int64_t> DevicesHere(std::string_view strategy, int64_t given) {
  if (given < 0)
    return InvalidArgument("{}: num_devices={}; give how many there are, at least 1, or 0 for one per core.",
                           strategy, given);
  return given > 0 ? given : int64_t{WorkerPool::DefaultWorkers()};
}

absl::StatusOr<JoinedProcesses> Join(std::string_view strategy, const JoinOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(options));
  const int64_t servers = processes.cluster().count(Role::kPs);
  if (servers > 0)
    return InvalidArgument(
        "{}: the cluster has {} (\"ps\"), and here the workers hold all variables; leave \"ps\" "
        "out, or take ParameterServerStrategy.",
        strategy, Count(servers, "parameter server"));
  return std::make_shared<Processes>(std::move(processes));
}

// Data parallelism over an axis "replica". `sums`: MirroredOptions or MultiWorkerOptions.
template <typename Options>
absl::StatusOr<Strategy> Replicated(std::string name, int64_t devices, JoinedProcesses processes,
                                    const Options& sums, std::shared_ptr<Backend> backend = nullptr) {
  MESHWORK_ASSIGN_OR_RETURN(Mesh mesh, Mesh::VirtualCpus(fmt::format("replica={}", devices)));
  return Strategy::Create({.name = std::move(name),
                           .mesh = std::move(mesh),
                           .replica_axes = {"replica"},
                           .layouts = {.batch = {"replica"}},
                           .processes = std::move(processes),
                           .cross_device_ops = sums.cross_device_ops,
                           .bytes_per_pack = sums.bytes_per_pack,
                           .backend = std::move(backend)});
}

}  // namespace

absl::StatusOr<Strategy> OneDeviceStrategy(const std::string& device) {
  if (device != "cpu:0")
    return InvalidArgument(
        "OneDeviceStrategy: there is no device \"{}\"; this build computes on CPUs, whose cores are one device, \"cpu:0\".",
        device);
  return Replicated("OneDeviceStrategy", 1, nullptr, MirroredOptions());
}

absl::StatusOr<Strategy> MirroredStrategy(const MirroredOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const int64_t devices, DevicesHere("MirroredStrategy", options.num_devices));
  return Replicated("MirroredStrategy", devices, nullptr, options);
}

absl::StatusOr<Strategy> CentralStorageStrategy(const MirroredOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const int64_t devices,
                            DevicesHere("CentralStorageStrategy", options.num_devices));
  return Replicated("CentralStorageStrategy", devices, nullptr, options);
}

absl::StatusOr<Strategy> TPUStrategy(const TPUOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<PjrtBackend> backend, PjrtBackend::Create(options.devices));
  const int64_t there = backend->num_devices();
  if (options.num_devices < 0 || options.num_devices > there)
    return InvalidArgument(
        "TPUStrategy: num_devices={}, and devices={} has {}; give as many or fewer, or 0 for all.",
        options.num_devices, options.devices, there);
  const int64_t devices = options.num_devices > 0 ? options.num_devices : there;
  return Replicated("TPUStrategy", devices, nullptr, MirroredOptions(), std::move(backend));
}

absl::StatusOr<Strategy> MultiWorkerMirroredStrategy(const MultiWorkerOptions& options) {
  if (options.devices_per_worker < 1)
    return InvalidArgument("MultiWorkerMirroredStrategy: devices_per_worker={}; each worker has 1 or more.",
                           options.devices_per_worker);
  MESHWORK_ASSIGN_OR_RETURN(JoinedProcesses processes, Join("MultiWorkerMirroredStrategy", options.join));
  const int64_t devices = processes->cluster().num_processes() * options.devices_per_worker;
  return Replicated("MultiWorkerMirroredStrategy", devices, std::move(processes), options);
}

absl::StatusOr<Strategy> FullyShardedStrategy(const FullyShardedOptions& options) {
  const std::string name = "FullyShardedStrategy";
  JoinedProcesses processes;
  int64_t devices = 0;
  if (options.join.has_value()) {
    MESHWORK_ASSIGN_OR_RETURN(processes, Join(name, *options.join));
    devices = processes->cluster().num_processes() * std::max<int64_t>(options.num_devices, 1);
  } else {
    MESHWORK_ASSIGN_OR_RETURN(devices, DevicesHere(name, options.num_devices));
  }
  const int64_t group = options.group == 0 ? devices : options.group;
  if (group < 1 || devices % group != 0)
    return InvalidArgument("{}: group={} does not divide the {}; blocks are spread over groups of one size.",
                           name, options.group, Count(devices, "device"));
  MESHWORK_ASSIGN_OR_RETURN(Mesh mesh,
                            Mesh::VirtualCpus(fmt::format("copy={},block={}", devices / group, group)));
  const bool all = options.sharded == Sharded::kVariables;
  return Strategy::Create(
      {.name = name,
       .mesh = std::move(mesh),
       .replica_axes = {"copy", "block"},
       .layouts = {.batch = {"copy", "block"},
                   .variables = all ? std::vector<std::string>{"block"} : std::vector<std::string>(),
                   .least_in_blocks = options.least_in_blocks},
       .shard_weight_update = true,
       .processes = std::move(processes)});
}

absl::StatusOr<Strategy> MeshStrategy(const std::string& text, const MeshOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(Mesh mesh, Mesh::VirtualCpus(text));
  JoinedProcesses processes;
  if (options.join.has_value()) {
    MESHWORK_ASSIGN_OR_RETURN(processes, Join("MeshStrategy", *options.join));
    MESHWORK_RETURN_IF_ERROR(Placement::Create(mesh, processes->cluster()).status());
  }
  std::vector<std::string> batch;
  for (const std::string& axis : options.batch)
    if (mesh.FindAxes(axis).ok()) batch.push_back(axis);
  return Strategy::Create({.name = "MeshStrategy",
                           .mesh = std::move(mesh),
                           .replica_axes = batch,
                           .layouts = {.layouts = options.layouts,
                                       .missing_axes = MissingAxes::kShardNothing,
                                       .batch = batch,
                                       .variables = options.variables},
                           .shard_weight_update = options.shard_weight_update,
                           .processes = std::move(processes)});
}

}  // namespace meshwork
