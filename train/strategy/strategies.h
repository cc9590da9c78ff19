// The strategies by the names that TensorFlow's users know, and those that it lacks.
//
//   one device                                OneDeviceStrategy, Strategy::Default()
//   the devices of this process               MirroredStrategy: each variable is on all of them
//                                             CentralStorageStrategy: each is in the host's memory, once
//   the devices of all processes              MultiWorkerMirroredStrategy
//   those of a PJRT plugin, as TPUs           TPUStrategy
//   either, weights and state in blocks       FullyShardedStrategy: ZeRO stage 1 or 3, or hybrid
//   any mesh, layouts by names                MeshStrategy
//
// All are synchronous: every replica computes its part of the same batch, and a step ends for all of them together.
// The numbers are those of one device, but for the order in which sums are added up. CPU devices are shares of the
// cores (Mesh::VirtualCpus); their number need not be that of the cores.
//
// Thread-safe. Sources: https://www.tensorflow.org/guide/distributed_training; ZeRO: Rajbhandari et al., "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models", SC 2020, section 5; hybrid: Zhao et al., "PyTorch FSDP",
// VLDB 2023, section 3.2.2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/layout_rules.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/train/cluster/processes.h"
#include "meshwork/train/strategy/strategy.h"

namespace meshwork {

// All on one device: "cpu:0", the first share of this process's cores. Error: any other device; this build computes
// on CPUs.
absl::StatusOr<Strategy> OneDeviceStrategy(const std::string& device = "cpu:0");

struct MirroredOptions {
  int64_t num_devices = 0;  // 0: one per core that this process may use
  // How sums over the devices are made: ReductionToOneDevice(), HierarchicalCopyAllReduce(), RingAllReduce(),
  // NcclAllReduce(), or a custom op (runtime/plan/cross_device.h). Null: the compiler chooses, which is the fastest on
  // CPUs.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;
  int64_t bytes_per_pack = 0;  // most bytes reduced together (ExecutorOptions); 0: each tensor by itself
};
// Batches are cut over the devices of this process, on an axis "replica". Each device has all variables, and gradients
// are summed over the devices before they are applied. Errors: fewer than 0 devices, or more than a mesh has;
// bytes_per_pack < 0, or without cross_device_ops.
absl::StatusOr<Strategy> MirroredStrategy(const MirroredOptions& options = {});

// As MirroredStrategy, but variables and optimizer state are stored once, in the host's memory, whatever the number
// of devices. On CPUs, all devices compute in that memory, and MirroredStrategy stores values that are the same on
// all devices once, too. So on CPUs the two do the same.
absl::StatusOr<Strategy> CentralStorageStrategy(const MirroredOptions& options = {});

struct TPUOptions {
  std::string devices = "tpu";  // a PJRT plugin and its options, as SessionOptions::devices has them
  int64_t num_devices = 0;      // the first so many of the plugin's; 0: all
};
// As MirroredStrategy, over the devices of a PJRT plugin (docs/tpu.md), which may be TPUs or others. Errors:
// those of PjrtBackend::Create; fewer than 0 devices, or more than the plugin has.
absl::StatusOr<Strategy> TPUStrategy(const TPUOptions& options = {});

struct MultiWorkerOptions {
  int64_t devices_per_worker = 1;
  // Which other processes take part, how they are reached, and how long to wait for them.
  JoinOptions join = {};
  // How sums within a process are made, as in MirroredOptions. NcclAllReduce() makes the sums between GPUs instead.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;
  int64_t bytes_per_pack = 0;
};
// As MirroredStrategy, over the devices of all processes of a cluster (mesh/cluster.h): a launcher or TF_CONFIG says
// which processes there are. Every process runs the same program. Reductions within a process come first; then one
// message per process crosses. Errors: fewer than 1 device; the cluster has parameter servers; bytes_per_pack, as in
// MirroredStrategy; those of Processes::Join.
absl::StatusOr<Strategy> MultiWorkerMirroredStrategy(const MultiWorkerOptions& options = {});

enum class Sharded : uint8_t {
  kState,      // ZeRO stage 1: the state of optimizers, and each device updates its block of the weights
  kVariables,  // ZeRO stage 3: weights, too; each op gathers those that it reads, and forgets them
};
struct FullyShardedOptions {
  int64_t num_devices = 0;  // of this process, or per process with `join`; 0: one per core, or 1
  Sharded sharded = Sharded::kVariables;
  // Blocks are spread over groups of this many neighbouring devices, and each group holds a copy ("hybrid"); gathers
  // stay within a group. 0: one group of all devices.
  int64_t group = 0;
  // Variables of fewer elements stay whole on every device.
  int64_t least_in_blocks = 1024;
  // How other processes join; nothing: this process is alone.
  std::optional<JoinOptions> join = {};
};
// As MirroredStrategy, or MultiWorkerMirroredStrategy if `join` is given, with less memory per device. Errors: theirs;
// a group that does not divide the devices.
absl::StatusOr<Strategy> FullyShardedStrategy(const FullyShardedOptions& options = {});

struct MeshOptions {
  NamedLayouts layouts = {};  // of inputs and variables
  std::vector<std::string> batch = {
      "batch"};  // axes that cut dim 0 of other inputs; those that the mesh lacks are ignored
  std::vector<std::string> variables = {};  // axes over which other large variables are kept in blocks
  bool shard_weight_update = false;         // ZeRO stage 1
  // How other processes, which share the mesh, join; nothing: this process is alone.
  std::optional<JoinOptions> join = {};
};
// Any mesh, with layouts by the names of tensors: data, tensor, sequence and expert parallelism in any mixture. Its
// replicas are the groups of devices that differ on the axes `batch`. An axis that a layout names and the mesh lacks
// shards nothing.
//
//   MeshStrategy("batch=4,model=2", {.layouts = {{"*/query/kernel", {UNSHARDED, "model"}}}})
//
// Errors: those of Mesh::Parse; an axis of `variables` that the mesh lacks; with `join`, those of Processes::Join and
// Placement::Create.
absl::StatusOr<Strategy> MeshStrategy(const std::string& mesh, const MeshOptions& options = {});

}  // namespace meshwork
