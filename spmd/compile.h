// Compile: one global program in, the program each device runs out.
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

// What Compile does where the result of an optional pass does not verify: a pass without which the program is
// right, and sends, computes or holds more.
enum class WrongPass : uint8_t {
  // As the environment says: MESHWORK_STRICT=1 refuses, MESHWORK_STRICT=0 leaves out. Without it, a library
  // that is built for debugging (without NDEBUG) refuses, others leave out.
  kByEnvironment,
  kLeaveOut,  // compiles without that pass, warns, and says so in Program::left_out
  kRefuse,    // INTERNAL, as for every other pass
};

struct CompileOptions {
  // Prove that what comes out computes what went in (verify/verify.h); its time is Program::verify_seconds.
  bool verify = true;
  // What sending and computing take. Where it is assumed, the least is sent; one that is known is of the
  // program's mesh, and the least time by it is taken.
  Topology topology = {};
  // Bytes that a device has for arguments and values, as ReportMemory counts them (plan/memory_report.h). A
  // program that needs more is planned again (spmd/fit_memory.h). 0: no limit.
  int64_t memory_budget = 0;
  // The most bytes that are gathered whole on every device without being asked for (spmd/replication.h).
  int64_t replication_budget = int64_t{1} << 20;
  // Lays optimizer state out in blocks over the data-parallel axes, where that sends no more: ZeRO stage 1
  // (spmd/shard_weight_update.h).
  bool shard_weight_update = false;
  // Over how many domains (mesh/placement.h) the devices are spread: memories between which as little as
  // possible is sent (spmd/split_at_domains.h). Program::body is then on Placement::mesh(), or that cut
  // further.
  int64_t num_domains = 1;
  // Cut axes of the mesh where a reshape then sends less (spmd/cut_mesh.h). Program::body is then on the mesh
  // so cut; programs that share variables must be on one.
  bool cut_mesh = true;
  // Parts of sums of bf16 are rounded, sent and added in bf16. That is half of the bytes, and an error for
  // each of them; otherwise they are carried in f32 and the whole is rounded once, as on one device. Layouts
  // are chosen by the bytes of f32 either way.
  bool narrow_sums = false;
  WrongPass wrong_pass = WrongPass::kByEnvironment;
  // Called with what a user should know of a program that compiles, a line each: passes that were left out.
  // Null: the line goes to standard error.
  std::function<void(std::string_view line)> warn = nullptr;
  // Called with the program after each pass that changes it. Where a pass is left out: of the compile that
  // was refused, and then of the one that is returned.
  std::function<void(std::string_view pass, const Graph& graph)> dump = nullptr;
};

// Errors: RESOURCE_EXHAUSTED, it needs more than the memory budget; INTERNAL, a program that does not verify,
// which is a bug of the compiler, unless an optional pass is to blame and is left out; the mistakes recorded
// in `global`, all of them; a program that is local already; a partial pin; the topology of another mesh; a
// negative budget; a number of domains that Placement refuses; a gather that nobody asked for, of more than
// options.replication_budget.
absl::StatusOr<Program> Compile(const Graph& global, const CompileOptions& options = {});

}  // namespace meshwork
