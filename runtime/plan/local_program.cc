#include "meshwork/runtime/plan/local_program.h"

#include <set>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// "x", or where it comes from, for values without a name.
std::string NameOf(const Graph& local, ValueId id) {
  const ValueInfo& info = local.value(id);
  if (!info.name.empty()) return fmt::format("%{}", info.name);
  return info.node < 0 ? "an argument" : fmt::format("the result of {}", local.Describe(info.node));
}

absl::Status CheckValue(const Graph& local, ValueId id) {
  const ValueInfo& info = local.value(id);
  if (!info.layout.has_value()) {
    return InvalidArgument(
        "Executor: {} has no layout; a local program says where every value lies, so compile the "
        "program first.",
        NameOf(local, id));
  }
  if (info.layout->mesh() != local.mesh() || !info.layout->Fits(info.global.shape).ok() ||
      info.type != Type{info.global.dtype, info.layout->LocalShape(info.global.shape)}) {
    return InvalidArgument(
        "Executor: {} is {} of {} {} on {}; a device holds the block that the layout cuts.",
        NameOf(local, id), info.type.ToString(), info.global.ToString(), info.layout->ToString(),
        local.mesh().ToString());
  }
  return Annotate(CheckPartials(*info.layout, info.type), fmt::format("Executor: {}: ", NameOf(local, id)));
}

absl::Status CheckNode(const Graph& local, int n) {
  const OpRow& row = *local.nodes()[n].row;
  if (row.kind == OpKind::kIdentity) {
    return InvalidArgument(
        "Executor: {} tells the compiler something and runs nowhere; compile the program first.",
        local.Describe(n));
  }
  if (row.kind == OpKind::kControl) {
    const Node& node = local.nodes()[n];
    for (const auto& region : node.regions) {
      for (size_t v = 0; v < region->values().size(); ++v)
        MESHWORK_RETURN_IF_ERROR(CheckValue(*region, static_cast<ValueId>(v)));
      for (size_t i = 0; i < region->nodes().size(); ++i)
        MESHWORK_RETURN_IF_ERROR(CheckNode(*region, static_cast<int>(i)));
    }
    return Annotate(CheckLocalControl(local, node), fmt::format("Executor: {}: ", local.Describe(n)));
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Graph& local, std::string_view what, std::string_view name, ValueId id) {
  const ValueInfo& info = local.value(id);
  if (!info.layout->is_partial()) return absl::OkStatus();
  return InvalidArgument(
      "Executor: {} \"{}\" is {} {}; a partial value is not one tensor yet, reduce it first.", what, name,
      info.global.ToString(), info.layout->ToString());
}

absl::Status CheckUpdates(const Graph& local) {
  std::set<int> updated;
  for (const VariableUpdate& update : local.updates()) {
    const std::string& name = local.argument_name(update.argument);
    if (!local.arguments()[update.argument].is_variable) {
      return InvalidArgument("Executor: update of \"{}\": it is an input; only variables keep values.", name);
    }
    if (!updated.insert(update.argument).second) {
      return InvalidArgument(
          "Executor: update of \"{}\": it is already updated; a step writes a variable once.", name);
    }
    const ValueInfo& variable = local.value(local.arguments()[update.argument].value);
    const ValueInfo& value = local.value(update.value);
    if (variable.global != value.global ||
        variable.layout->WithoutTrivialAxes() != value.layout->WithoutTrivialAxes()) {
      return InvalidArgument(
          "Executor: update of \"{}\": the variable is {} {}, the new value {} {}; they must agree.", name,
          variable.global.ToString(), variable.layout->ToString(), value.global.ToString(),
          value.layout->ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const Graph& local) {
  std::set<std::string> names;
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    const std::string name = OutputName(local, static_cast<int>(o));
    if (!names.insert(name).second) {
      return InvalidArgument("Executor: output \"{}\" appears twice; output names must be unique.", name);
    }
    MESHWORK_RETURN_IF_ERROR(CheckWhole(local, "output", name, local.outputs()[o].value));
  }
  return absl::OkStatus();
}

}  // namespace

std::string OutputName(const Graph& local, int output) {
  const std::string& name = local.outputs()[output].name;
  return name.empty() ? fmt::format("{}", output) : name;
}

absl::Status CheckLocalProgram(const Graph& local, int64_t num_domains) {
  if (const int64_t here = local.mesh().num_devices() / num_domains; here > kMaxVirtualDevices) {
    return InvalidArgument(
        "Executor: mesh {} has {} devices{}; one process runs at most {} virtual ones. Compile, verify "
        "and simulate the program instead, or run it on a smaller mesh.",
        local.mesh().ToString(), local.mesh().num_devices(),
        num_domains == 1 ? "" : fmt::format(", {} in each of {} domains", here, num_domains),
        kMaxVirtualDevices);
  }
  for (size_t v = 0; v < local.values().size(); ++v)
    MESHWORK_RETURN_IF_ERROR(CheckValue(local, static_cast<ValueId>(v)));
  for (size_t n = 0; n < local.nodes().size(); ++n)
    MESHWORK_RETURN_IF_ERROR(CheckNode(local, static_cast<int>(n)));
  for (size_t a = 0; a < local.arguments().size(); ++a) {
    const Argument& argument = local.arguments()[a];
    MESHWORK_RETURN_IF_ERROR(CheckWhole(local, argument.is_variable ? "variable" : "input",
                                        local.argument_name(static_cast<int>(a)), argument.value));
  }
  MESHWORK_RETURN_IF_ERROR(CheckUpdates(local));
  return CheckOutputs(local);
}

}  // namespace meshwork
