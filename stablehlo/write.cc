#include "meshwork/stablehlo/write.h"

#include "fmt/format.h"
#include "meshwork/ir/row.h"
#include "meshwork/stablehlo/forms.h"
#include "meshwork/stablehlo/module.h"

namespace meshwork {

absl::StatusOr<std::string> WriteStableHlo(const Graph& local) {
  // A variable may be written over.
  const auto of_argument = [&](size_t a) -> std::string {
    for (size_t u = 0; u < local.updates().size(); ++u)
      if (local.updates()[u].argument == static_cast<int>(a))
        return fmt::format("{{tf.aliasing_output = {} : i32}}", local.outputs().size() + u);
    return "";
  };
  return stablehlo::WriteModule(
      local, {.attributes = fmt::format("mhlo.num_replicas = {} : i32, mhlo.num_partitions = 1 : i32",
                                        local.mesh().num_devices()),
              .of_argument = of_argument});
}

std::vector<std::string> OpsWithoutStableHlo() {
  std::vector<std::string> names;
  for (const OpRow* row : AllOps())
    if (row->kind != OpKind::kIdentity && stablehlo::FindForm(row->name) == nullptr)
      names.emplace_back(row->name);
  return names;
}

}  // namespace meshwork
