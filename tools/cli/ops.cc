// meshwork ops.
#include <string>

#include "meshwork/base/status.h"
#include "meshwork/ir/reference.h"
#include "meshwork/ops/other_names.h"
#include "tools/cli/commands.h"

namespace meshwork::tools {

absl::Status Ops(Arguments args) {
  std::string name;
  FlagTable flags(
      "meshwork ops",
      "Says what ops there are, what they compute and take, and what sharding them costs: of all the\n"
      "page docs/ops.md, of one a few lines.");
  flags.Text("op", "one op by its name, instead of all; also what C++ functions write in terms of ops",
             &name);
  if (const auto done = Parse(flags, args)) return *done;
  if (name.empty()) {
    fmt::print("{}", OpsReference());
    return absl::OkStatus();
  }
  const absl::StatusOr<const OpRow*> row = FindOp(name);
  if (const Composite* composite = FindComposite(name); !row.ok() && composite != nullptr) {
    fmt::print("{}", Describe(*composite));
    return absl::OkStatus();
  }
  MESHWORK_RETURN_IF_ERROR(row.status());
  fmt::print("{}", Describe(**row));
  return absl::OkStatus();
}

}  // namespace meshwork::tools
