#include "meshwork/stablehlo/write.h"

#include <algorithm>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/stablehlo/forms.h"
#include "meshwork/stablehlo/module_text.h"

namespace meshwork {
namespace {

using stablehlo::FindForm;
using stablehlo::HloText;
using stablehlo::HloValues;
using stablehlo::TypeText;

// The values that main returns: outputs, then updates.
std::vector<ValueId> ReturnedBy(const Graph& local) {
  std::vector<ValueId> returned;
  for (const OutputInfo& output : local.outputs()) returned.push_back(output.value);
  for (const VariableUpdate& update : local.updates()) returned.push_back(update.value);
  return returned;
}

std::string ArgumentText(const Graph& local, size_t a) {
  std::string text = fmt::format("%{}: {}", a, TypeText(local.value(local.arguments()[a].value).type));
  for (size_t u = 0; u < local.updates().size(); ++u)
    if (local.updates()[u].argument == static_cast<int>(a))
      text += fmt::format(" {{tf.aliasing_output = {} : i32}}", local.outputs().size() + u);
  return text;
}

std::string SignatureComments(const Graph& local) {
  std::string text;
  const auto add = [&](std::string_view what, size_t i, std::string_view name, ValueId id) {
    const ValueInfo& value = local.value(id);
    text += fmt::format("// {} {}: {} {}{}\n", what, i, name.empty() ? "-" : name, value.global.ToString(),
                        value.layout.has_value() ? " " + value.layout->ToString() : "");
  };
  for (size_t a = 0; a < local.arguments().size(); ++a)
    add("argument", a, local.value(local.arguments()[a].value).name, local.arguments()[a].value);
  for (size_t o = 0; o < local.outputs().size(); ++o)
    add("result", o, local.outputs()[o].name, local.outputs()[o].value);
  for (size_t u = 0; u < local.updates().size(); ++u)
    add("result", local.outputs().size() + u,
        local.value(local.arguments()[local.updates()[u].argument].value).name, local.updates()[u].value);
  return text;
}

}  // namespace

absl::StatusOr<std::string> WriteStableHlo(const Graph& local) {
  HloText text;
  HloValues arguments;
  std::vector<std::string> argument_texts;
  for (size_t a = 0; a < local.arguments().size(); ++a) {
    arguments.push_back(text.NewValue(local.value(local.arguments()[a].value).type));
    argument_texts.push_back(ArgumentText(local, a));
  }
  text.Indent();
  MESHWORK_ASSIGN_OR_RETURN(const HloValues values, stablehlo::WriteNodes(text, local, arguments));
  std::vector<std::string> returned, types;
  for (const ValueId id : ReturnedBy(local)) {
    returned.push_back(fmt::format("%{}", values[id].id));
    types.push_back(TypeText(values[id].type));
  }
  return fmt::format(
      "{}module @{} attributes {{mhlo.num_replicas = {} : i32, mhlo.num_partitions = 1 : i32}} {{\n"
      "  func.func public @main({}) -> ({}) {{\n{}    func.return{}\n  }}\n}}\n",
      SignatureComments(local), local.name, local.mesh().num_devices(), fmt::join(argument_texts, ", "),
      fmt::join(types, ", "), text.text(),
      returned.empty() ? "" : fmt::format(" {} : {}", fmt::join(returned, ", "), fmt::join(types, ", ")));
}

std::vector<std::string> OpsWithoutStableHlo() {
  std::vector<std::string> names;
  for (const OpRow* row : AllOps())
    if (row->kind != OpKind::kIdentity && FindForm(row->name) == nullptr) names.emplace_back(row->name);
  return names;
}

}  // namespace meshwork
