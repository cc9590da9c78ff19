// CrossDeviceOps: how the values of several devices of one process are added up, and how the result reaches them all.
//
//   const auto ring = RingAllReduce();                                       // runtime/cpu/cross_device_ops.h
//   MirroredStrategy({.num_devices = 8, .cross_device_ops = ring})               // sums gradients so
//
// There are two ways to write an op of your own: as data, an algorithm that CPUs and GPUs run
// (runtime/plan/cross_device_algorithm.h); or as code for the memory of the host, which only CPUs run. The code has two
// functions:
//
//   class Mine : public CrossDeviceOps {
//    public:
//     std::string_view name() const override { return "mine"; }
//     absl::Status Reduce(const ReducePack& pack) override;                  // what the devices have -> one of them
//     absl::Status Broadcast(const BroadcastPack& pack) override;            // what one of them has -> all
//   };
//   CheckCrossDeviceOps(mine)                                                // tools/check/check_cross_device.h
//
// With a cross-device op, each device has its own result of every all_reduce within the process. The op writes that
// result, and the device computes with it. (Without an op, equal values are stored and computed once.) A variable is
// still stored once, with the value that device 0 computed. So only ExecutorOptions::check_replicas finds an op that
// leaves different values on the devices: it compares the new values of variables, and the outputs, on all devices, and
// a difference ends the step. If a sum goes on to other processes, only the result on one device is needed: Reduce is
// called without Broadcast.
//
// A *pack* is the data that one call reduces: a tensor, or several tensors of one dtype that are reduced at the same
// point of a step. They lie one behind the other, and have up to ExecutorOptions::bytes_per_pack bytes together. A pack
// has the same elements on each device; the order of the calls is the same in every step.
//
// After TensorFlow's tf.distribute.CrossDeviceOps
// (https://www.tensorflow.org/api_docs/python/tf/distribute/CrossDeviceOps).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/runtime/plan/cross_device_algorithm.h"

namespace meshwork {

struct ReducePack {
  DType dtype = F32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;                             // elements of each device; may be 0
  std::span<const int64_t> devices = {};         // numbers in the mesh; at least one
  std::span<const std::byte* const> terms = {};  // the elements of devices[k]; some may be the same memory
  size_t root = 0;                               // the result is for devices[root]
  std::byte* to = nullptr;                       // room for it, apart from all terms

  int64_t bytes() const { return count * DTypeSize(dtype); }
};

struct BroadcastPack {
  DType dtype = F32;
  int64_t count = 0;
  std::span<const int64_t> devices = {};
  size_t root = 0;  // devices[root] has the elements
  const std::byte* from = nullptr;
  std::span<std::byte* const> to = {};  // of devices[k]; to[root] is `from`

  int64_t bytes() const { return count * DTypeSize(dtype); }
};

// Thread safety: see is_thread_safe. If several sessions share an op, each of them calls it.
class CrossDeviceOps {
 public:
  static constexpr int64_t kPieceBytes = int64_t{256} << 10;

  virtual ~CrossDeviceOps() = default;

  // In messages: "RingAllReduce".
  virtual std::string_view name() const = 0;

  // Writes terms[0] op terms[1] op … to pack.to, in an order of its own, which must be the same every time; each
  // element by itself. Reduce of runtime/cpu/reduce.h does so for arrays of all dtypes. An error, or an exception, ends
  // the step with a status that names the op.
  virtual absl::Status Reduce(const ReducePack& pack) = 0;
  // Copies the elements of one device to all others.
  virtual absl::Status Broadcast(const BroadcastPack& pack) = 0;
  // Reduce to the root, then Broadcast; for ops that reduce and distribute in one. `to`: of devices[k];
  // to[pack.root] is pack.to.
  virtual absl::Status AllReduce(const ReducePack& pack, std::span<std::byte* const> to);

  // The op as data; a backend may then make the copies and sums itself instead of calling the op. Null: the op is code.
  virtual const CrossDeviceAlgorithm* algorithm() const { return nullptr; }

  // NcclAllReduce: sums of all domains are made by NCCL within the step (runtime/plan/domain_sums.h), and nothing calls
  // the op.
  virtual bool is_nccl() const { return false; }

  // Whether several threads may call it at once. If so, packs are cut into pieces of kPieceBytes, which the workers
  // share out; the cuts do not depend on the number of workers. Otherwise one thread calls it, with one whole pack at a
  // time.
  virtual bool is_thread_safe() const { return false; }
};

}  // namespace meshwork
