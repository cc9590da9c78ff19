// CompileAhead: a program compiled for devices that need not be there, as for TPUs on a machine that has none.
//
//   MESHWORK_ASSIGN_OR_RETURN(const PjrtSpec spec, PjrtSpec::Parse("tpu"));
//   MESHWORK_ASSIGN_OR_RETURN(const PjrtAhead ahead, CompileAhead(spec, "v5e:2x4", program.body));
//   fmt::print("{} B on a device", ahead.memory.temporary);
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/pjrt/pjrt_spec.h"

namespace meshwork {

// What the plugin's compiler says of a program.
struct PjrtAhead {
  std::string plugin;    // "libtpu.so, API 0.117"
  std::string platform;  // of the topology: the kind of its devices, "TPU v5 lite"
  PjrtMemoryUse memory;
  // By the plugin's own names, of one device and step: "flops", "bytes accessed", "optimal_seconds".
  std::map<std::string, double> costs;
};

// `local`: Program::body. `topology`: as the plugin names them: "v5e:2x4" is eight chips. Errors: those of PjrtPlugin::Load and of
// WriteStableHlo; a topology that the plugin does not know, or of other than as many devices as the mesh has; what the compiler
// says. Thread-safe.
absl::StatusOr<PjrtAhead> CompileAhead(const PjrtSpec& spec, std::string_view topology, const Graph& local);

}  // namespace meshwork
