// The commands of `meshwork import`, one file each: tools/cli/import_<name>.cc.
#pragma once

#include "absl/status/status.h"
#include "tools/cli/commands.h"

namespace meshwork::tools {

absl::Status ImportGguf(Arguments args);
absl::Status ImportStableHlo(Arguments args);

}  // namespace meshwork::tools
