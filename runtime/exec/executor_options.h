// How an executor runs a program, and the memory that it takes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "meshwork/base/debug.h"

namespace meshwork {

class CrossDeviceOps;
class StepRecord;
class Transport;

using InPlace = std::map<std::string, std::string>;  // output -> the input that it replaces

// How GPUs multiply the f32 numbers of a product (row matmul); they add in f32 in any case.
enum class MatmulPrecision : uint8_t {
  kFull,  // as f32
  kTf32,  // rounded to 10 bits of mantissa first, on tensor cores: relative errors of about 1e-3, and several times the speed
};

struct ExecutorOptions {
  // Values that are the same on several devices have one instance; otherwise one per device, for comparison.
  bool share = true;
  // Ops of several devices that read the same operand run as one, and sums of their results are made by the
  // kernel that computes them (runtime/plan/coalesce.h). Otherwise, and always without sharing, ops run device by
  // device; sums are then made in another order.
  bool coalesce = true;
  // Chains of ops run a few rows at a time (runtime/cpu/fusion.h); otherwise op by op, for comparison.
  bool fuse = true;
  // The precision of products that cuBLASLt computes on GPUs (docs/gpu.md). CPUs, and kernels that replace cuBLASLt,
  // ignore it: they multiply as kFull says.
  MatmulPrecision matmul_precision = MatmulPrecision::kFull;
  // GPUs launch the kernels of a step one by one and wait for each, so that the error of a kernel that fails names its
  // op and the user's line. A step then takes longer (docs/gpu.md). MESHWORK_BLOCKING_LAUNCHES=1 in the environment
  // does the same. CPUs ignore it.
  bool blocking_launches = false;
  // Collectives across domains start when their operands are there and are waited for where their results are read
  // (runtime/plan/overlap.h); otherwise each is waited for where it starts, for comparison. The numbers are the same.
  bool overlap = true;
  // Fill all temporary memory, outputs, and the padding of variables with NaN (bytes 0xFF) before each step,
  // so that it shows if anything reads padding or what another value left.
  bool poison_padding = kDebugBuild;
  // Compare the replicas of outputs and of new values of variables: wherever a layout says that devices hold
  // the same block and each device has its own copy (see runtime/exec/replicas.h). With share=true, only blocks
  // that the program does not prove to be the same have several copies. Copies in other domains are not
  // compared.
  bool check_replicas = kDebugBuild;
  // Measure every instruction of every step; see Profile().
  bool profile = false;
  // Record when each instruction of the last `trace_steps` steps ran; see Trace(). Measures for a profile,
  // too.
  int trace_steps = 0;
  // A step that updates variables takes effect as a whole, or not at all. New values are written to spares
  // (runtime/exec/dtensor.h), which take the place of the old values when the step has ended; so a step that fails
  // leaves the variables as they were. Until the other domains have begun the next step, too, a step can be undone
  // (runtime/exec/step_record.h). Costs the memory of the spares, and a message of one byte to each other domain and
  // step. Inputs that outputs replace (in_place) are written in place nevertheless. The numbers are the same.
  bool atomic = false;
  // Counts the steps of all executors that share it. Null: steps are not counted, and none can be undone.
  std::shared_ptr<StepRecord> record = nullptr;
  // Carries data to other domains, for a program for several domains (CompileOptions::num_domains); it says
  // which domain this is. It must outlive the executor. Null: there is one domain.
  Transport* transport = nullptr;
  // The inputs and outputs, by name, that steps are bound to as DTensors, which hold this domain's blocks.
  // Others are whole host tensors, which are the same in all domains. An output whose blocks lie in several
  // domains has to be distributed.
  std::set<std::string> distributed = {};
  // Outputs that take the memory of an input: caches and recurrent state that a step reads and updates. Both
  // are distributed, of one type and layout. A step writes the output over the fed tensor, in place where a
  // variable would be written in place, so that state goes from step to step without a copy.
  InPlace in_place = {};
  // Makes the all_reduces between devices of this process (runtime/plan/cross_device.h); each device gets a result of
  // its own. Null: the backend makes them, and stores equal results once. The op makes no other collectives, and no
  // sums between processes. NcclAllReduce() is an exception: it makes the sums over all domains, between GPUs, and the
  // backend makes those within a domain. The ops of all domains must have the same name.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;
  // The op gets tensors that are reduced at the same point of a step as one pack, as long as they have no more bytes
  // than this together; they are copied into it and out of it. 0: each tensor is a pack. NcclAllReduce has no packs;
  // with it, more than 0 is an error (InvalidArgument).
  int64_t bytes_per_pack = 0;
};

// The memory that a program needs in this process, all devices together. Not counted are inputs and outputs,
// which are host tensors, the tables of the plan itself, and the cache line that an empty arena takes.
struct ExecutorMemory {
  int64_t private_bytes = 0;   // of values that one worker touches
  int64_t shared_bytes = 0;    // of values that several workers touch
  int64_t constant_bytes = 0;  // of values that are computed once
  int64_t variable_bytes = 0;  // bound variables, also if other executors share them
  int64_t spare_bytes = 0;     // the spares of updated variables (ExecutorOptions::atomic), the same
  int num_barriers = 0;        // per step
  int num_instructions = 0;    // per step

  int64_t total_bytes() const {
    return private_bytes + shared_bytes + constant_bytes + variable_bytes + spare_bytes;
  }
  bool operator==(const ExecutorMemory&) const = default;
};

}  // namespace meshwork
