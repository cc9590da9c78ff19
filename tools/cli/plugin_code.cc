#include "tools/cli/plugin_code.h"

#include <cstdlib>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/runtime/pjrt/pjrt_ahead.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

// "; XLA 12" if the plugin says it.
std::string Said(const PjrtAhead& ahead, const std::string& cost) {
  const auto found = ahead.costs.find(cost);
  return found == ahead.costs.end() ? "" : fmt::format("; XLA {:.6g}", found->second);
}

}  // namespace

absl::StatusOr<std::string> CompileByPlugin(const Graph& global, const CompileOptions& options,
                                            const KernelCodeChoice& choice) {
  MESHWORK_ASSIGN_OR_RETURN(const PjrtSpec spec, PjrtSpec::Parse(choice.devices));
  if (choice.arch.empty())
    return InvalidArgument(
        "--arch is missing; say for which devices it compiles, by the plugin's name of a topology, as --arch=v5e:2x4.");
  MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileWithin(global, options));
  // libtpu asks its cloud for a TPU otherwise, and waits for an answer.
  setenv("TPU_SKIP_MDS_QUERY", "1", /*overwrite=*/0);
  MESHWORK_ASSIGN_OR_RETURN(const PjrtAhead ahead, CompileAhead(spec, choice.arch, program.body));
  const PjrtMemoryUse& use = ahead.memory;
  std::string text = fmt::format(
      "{} on mesh {} for {} ({}), by {}; of one device:\n"
      "  memory      {} B; XLA {} B: arguments {}, results {} ({} of them over arguments), temporary {}\n"
      "  operations  {}{}\n",
      global.name, global.mesh().ToString(), choice.arch, ahead.platform, ahead.plugin,
      ReportMemory(program.body).peak_bytes, use.arguments + use.outputs - use.aliased + use.temporary,
      use.arguments, use.outputs, use.aliased, use.temporary, CountFlops(program.body), Said(ahead, "flops"));
  // libtpu gives a number below 0, which is no time, for some programs.
  if (const auto seconds = ahead.costs.find("optimal_seconds");
      seconds != ahead.costs.end() && seconds->second >= 0)
    text += fmt::format("  seconds     XLA {:.3g}\n", seconds->second);
  return text;
}

}  // namespace meshwork::tools
