// Compile: one global program in, the program each device runs out.
//
//   Program program = Compile(graph).value();
//   fmt::print("{}", PrintGraph(program.body));
//
// Nothing in the compiler loops over devices: its time does not depend on how many there are.
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "mesh/topology.h"
#include "ops/program.h"

namespace meshwork {

struct CompileOptions {
  // Prove that what comes out computes what went in (spmd/verify.h); its time is Program::verify_seconds.
  bool verify = true;
  // What sending and computing take. Where it is assumed, the least is sent; one that is known is of the
  // program's mesh, and the least time by it is taken.
  Topology topology = {};
  // Called with the program after each pass.
  std::function<void(std::string_view pass, const Graph& graph)> dump = nullptr;
};

// Errors: INTERNAL, a program that does not verify, which is a bug of the compiler; the mistakes recorded in
// `global`, all of them; a program that is local already; a partial pin.
absl::StatusOr<Program> Compile(const Graph& global, const CompileOptions& options = {});

}  // namespace meshwork
