// meshwork ops.
#include <string>

#include "base/status.h"
#include "ops/reference.h"
#include "tools/commands.h"

namespace meshwork::tools {

absl::Status Ops(Arguments args) {
  std::string name;
  FlagTable flags(
      "meshwork ops",
      "Says what ops there are, what they compute and take, and what sharding them costs: of all the\n"
      "page docs/ops.md, of one a few lines.");
  flags.Text("op", "one op by its name, instead of all", &name);
  if (const auto done = Parse(flags, args)) return *done;
  if (name.empty()) {
    fmt::print("{}", OpsReference());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const OpRow* row, FindOp(name));
  fmt::print("{}", Describe(*row));
  return absl::OkStatus();
}

}  // namespace meshwork::tools
