#include "spmd/compile.h"

#include <chrono>

#include "base/status.h"
#include "spmd/bucket.h"
#include "spmd/insert_relayouts.h"
#include "spmd/localize.h"
#include "spmd/propagate.h"
#include "spmd/simplify.h"

namespace meshwork {

absl::StatusOr<Program> Compile(const Graph& global, const CompileOptions& options) {
  RETURN_IF_ERROR(global.status());
  Program program{.body = global};
  auto run = [&](std::string_view pass, auto&& function) {
    const auto start = std::chrono::steady_clock::now();
    program.body = function(program.body);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    program.passes.push_back({std::string(pass), seconds.count()});
    if (options.dump) options.dump(pass, program.body);
  };
  // Global program.
  run("fold_sizes", FoldSizes);
  run("share_subexpressions", ShareSubexpressions);
  run("drop_dead_code", DropDeadCode);
  run("propagate", [&](const Graph& graph) {
    PropagateResult result = Propagate(graph);
    program.decisions = std::move(result.decisions);
    return std::move(result.graph);
  });
  run("insert_relayouts", InsertRelayouts);
  // Local program.
  run("localize", Localize);
  run("share_subexpressions_local", ShareSubexpressions);
  run("drop_dead_code_local", DropDeadCode);
  run("bucket_reductions", BucketReductions);
  return program;
}

}  // namespace meshwork
