// Compile turns a global program into the program that each device runs.
//
//   Program program = Compile(graph).value();
//   fmt::print("{}", PrintGraph(program.body));
//
// Nothing in the compiler loops over devices: its time does not depend on how many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/ir/program.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// What Compile does if the result of an optional pass does not verify. Without an optional pass the program
// is right, but sends, computes or holds more.
enum class WrongPass : uint8_t {
  // By the environment: MESHWORK_STRICT=1 refuses, MESHWORK_STRICT=0 leaves out. If it is not set, a library
  // built for debugging (without NDEBUG) refuses, others leave out.
  kByEnvironment,
  kLeaveOut,  // compiles without that pass, warns, and says so in Program::left_out
  kRefuse,    // INTERNAL, as for every other pass
};

struct CompileOptions {
  // Prove that the result computes the same as `global` (verify/verify.h); the time is
  // Program::verify_seconds.
  bool verify = true;
  // The time that sending and computing take. With the assumed topology, the compiler sends as few bytes as
  // possible. A known topology must be of the program's mesh; the compiler then takes as little time as
  // possible.
  Topology topology = {};
  // Bytes that a device has for arguments and values, as ReportMemory counts them (ir/plan/memory_report.h). A
  // program that needs more is planned again (spmd/local/fit_memory.h). 0: no limit.
  int64_t memory_budget = 0;
  // The most bytes that are gathered whole on every device without being asked for (spmd/planner/replication.h).
  int64_t replication_budget = int64_t{1} << 20;
  // Lays optimizer state out in blocks over the data-parallel axes, if that sends no more: ZeRO stage 1
  // (spmd/shard_weight_update.h).
  bool shard_weight_update = false;
  // The number of domains (mesh/placement.h) over which the devices are spread. As little as possible is sent
  // between domains (spmd/local/split_at_domains.h). Program::body is then on Placement::mesh(), or on this mesh
  // cut further.
  int64_t num_domains = 1;
  // The numbers do not depend on num_domains: domains exchange every term of a sum, and each adds them in the
  // order of the devices, which sends more. Session runs such a program with the devices one by one
  // (ExecutorOptions::coalesce), as kernels may round otherwise for other numbers of rows.
  bool deterministic = false;
  // Cut axes of the mesh where a reshape then sends less (spmd/cut_mesh.h). Program::body is then on the cut
  // mesh; programs that share variables must be on one mesh.
  bool cut_mesh = true;
  // Terms of bf16 sums are rounded, sent and added in bf16. That halves the bytes and adds a rounding error
  // per term; otherwise terms are carried in f32 and the whole is rounded once, as on one device. Layouts are
  // chosen by the bytes of f32 either way.
  bool narrow_sums = false;
  WrongPass wrong_pass = WrongPass::kByEnvironment;
  // Called with each warning about a program that compiles, one line each: passes that were left out. Null:
  // the line goes to standard error.
  std::function<void(std::string_view line)> warn = nullptr;
  // Called with the program after each pass that changes it. If a pass is left out, it is called first for
  // the compile that was refused, and then for the compile that is returned.
  std::function<void(std::string_view pass, const Graph& graph)> dump = nullptr;
};

// Errors: RESOURCE_EXHAUSTED, the program needs more than the memory budget; INTERNAL, the result does not
// verify, which is a bug of the compiler (unless an optional pass causes it and is left out); all mistakes
// recorded in `global`; a program that is local already; a partial pin; the topology of another mesh; a
// negative budget; a number of domains that Placement refuses; an unasked gather of more than
// options.replication_budget.
absl::StatusOr<Program> Compile(const Graph& global, const CompileOptions& options = {});

}  // namespace meshwork
