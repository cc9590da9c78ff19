// Machine has the speeds of a device, and of the links between devices, for the simulation of a step
// (tools/simulate/simulate.h).
//
//   {"product_flops": 1e14, "memory_bandwidth": 1e12, "op_seconds": 4e-6, "step_seconds": 1e-5,
//    "kernels": {"tanh f32[64,700] -> f32[64,700]": 3.1e-5}}
//
// With "workers", the machine is a process whose threads do the work of its devices, which are virtual
// (tools/simulate/process.h). The numbers are those of all threads together.
//
// The roofline model (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
// multicore architectures", CACM 52(4), 2009): an op takes as long as its floating-point operations or as the bytes
// that it reads and writes, whichever is longer. If the time of an op was measured, it is taken instead.
//
// Plain data; reading and writing are pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

struct Machine {
  Topology topology = {};       // the links of the mesh
  double product_flops = 0;     // floating-point operations per second of one device; 0: topology.flops()
  double memory_bandwidth = 0;  // bytes per second that one device reads and writes; 0: no limit
  double op_seconds = 0;        // that each op and each collective takes in addition
  double step_seconds = 0;      // that a step takes in addition, at its end
  int64_t workers = 0;          // threads of a process of virtual devices; 0: each device is one of hardware
  double copy_bandwidth = 0;    // bytes per second that a process reads and writes as it copies; 0: no limit
  double barrier_seconds = 0;   // that the threads of a process take to meet
  // Seconds of an op as a whole, by KernelKey, or of a piece of a process's step, by Piece::key
  // (tools/simulate/pieces.h).
  std::map<std::string, double> kernels = {};

  double flops() const { return product_flops > 0 ? product_flops : topology.flops(); }
};

// The properties of a node on which its time depends; attributes with default values are left out:
// "matmul f32[784,32] f32[784,700] -> f32[32,700] transpose_a=true".
std::string KernelKey(const Graph& local, const Node& node);

// Seconds of a node that is no collective and has no regions, on one device: from `machine.kernels`, otherwise by the
// roofline. A view takes no time.
double ComputeSeconds(const Graph& local, const Node& node, const Machine& machine);
// Whether the memory's bandwidth, not the operations, sets the roofline of the node.
bool IsBoundByMemory(const Graph& local, const Node& node, const Machine& machine);

// The form above, for a machine whose links are the assumed ones (mesh/topology.h); every key may be left out. Errors:
// JSON of another form, with the place; a number that is negative or not finite.
absl::StatusOr<Machine> ParseMachine(std::string_view text);
// Law: ParseMachine(MachineToJson(m).dump()) equals `m`, except for the links, which are left out, and product_flops,
// which becomes m.flops().
nlohmann::ordered_json MachineToJson(const Machine& machine);

}  // namespace meshwork
