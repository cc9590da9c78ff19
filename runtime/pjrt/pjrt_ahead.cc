#include "meshwork/runtime/pjrt/pjrt_ahead.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/pjrt/pjrt_compiler.h"
#include "meshwork/runtime/pjrt/pjrt_plugin.h"
#include "meshwork/stablehlo/write.h"

namespace meshwork {
namespace {

// Devices that need not be there.
class Topology {
 public:
  static absl::StatusOr<std::unique_ptr<Topology>> Create(const PjrtPlugin& plugin, const PjrtSpec& spec,
                                                          std::string_view name) {
    const std::vector<pjrt::NamedValue> options = NamedValuesOf(spec);
    pjrt::TopologyDescriptionCreate create{.name = name.data(),
                                           .name_size = name.size(),
                                           .options = options.data(),
                                           .num_options = options.size()};
    MESHWORK_RETURN_IF_ERROR(plugin.Call(create, fmt::format("the topology \"{}\"", name)));
    return std::unique_ptr<Topology>(new Topology(plugin, create.topology));
  }
  ~Topology() {
    pjrt::TopologyDescriptionDestroy destroy{.topology = topology_};
    (void)plugin_.Call(destroy, "a topology");
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  const pjrt::TopologyDescription* get() const { return topology_; }

  absl::StatusOr<std::vector<pjrt::DeviceDescription*>> Devices() const {
    pjrt::TopologyDescriptionGetDeviceDescriptions devices{.topology = topology_};
    MESHWORK_RETURN_IF_ERROR(plugin_.Call(devices, "a topology's devices"));
    return std::vector<pjrt::DeviceDescription*>(devices.descriptions,
                                                 devices.descriptions + devices.num_descriptions);
  }

 private:
  Topology(const PjrtPlugin& plugin, pjrt::TopologyDescription* topology)
      : plugin_(plugin), topology_(topology) {}

  const PjrtPlugin& plugin_;
  pjrt::TopologyDescription* const topology_;
};

}  // namespace

absl::StatusOr<PjrtAhead> CompileAhead(const PjrtSpec& spec, std::string_view topology, const Graph& local) {
  MESHWORK_ASSIGN_OR_RETURN(std::string module, WriteStableHlo(local));
  MESHWORK_ASSIGN_OR_RETURN(const PjrtPlugin* const plugin, PjrtPlugin::Load(spec.path));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Topology> there, Topology::Create(*plugin, spec, topology));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<pjrt::DeviceDescription*> devices, there->Devices());
  if (std::ssize(devices) != local.mesh().num_devices())
    return InvalidArgument(
        "PJRT: the topology \"{}\" has {}, and the mesh {} has {}; take a mesh of as many.", topology,
        Count(std::ssize(devices), "device"), local.mesh().ToString(), local.mesh().num_devices());
  PjrtAhead ahead{.plugin = fmt::format("{}, API {}", plugin->name(), plugin->version())};
  std::vector<int> ids;
  for (pjrt::DeviceDescription* const device : devices) {
    pjrt::DeviceDescriptionId id{.description = device};
    MESHWORK_RETURN_IF_ERROR(plugin->Call(id, "a topology's devices"));
    ids.push_back(id.id);
  }
  std::sort(ids.begin(), ids.end());
  pjrt::DeviceDescriptionKind kind{.description = devices[0]};
  if (plugin->Call(kind, "a topology's devices").ok())
    ahead.platform = std::string_view(kind.kind, kind.kind_size);

  const std::string options = CompileOptionsOf(ids);
  const pjrt::Program program = ProgramOf(module);
  pjrt::Compile compile{.topology = there->get(),
                        .program = &program,
                        .options = options.data(),
                        .options_size = options.size()};
  {
    const CompilePatience patience(*plugin, local.name, local.mesh().num_devices());
    MESHWORK_RETURN_IF_ERROR(plugin->Call(compile, fmt::format("compiling {} for {}", local.name, topology)));
  }
  ahead.memory = MemoryUseOf(*plugin, compile.executable);
  ahead.costs = CostsOf(*plugin, compile.executable);
  pjrt::ExecutableDestroy destroy{.executable = compile.executable};
  (void)plugin->Call(destroy, "freeing a program");
  return ahead;
}

}  // namespace meshwork
