// The picture of docs/parameter-servers.md: which pieces lie where, and how many bytes cross, is what SplitTraining says.
#pragma once

#include "meshwork/base/svg.h"

namespace meshwork::docs {

Svg DrawParameterServers();

}  // namespace meshwork::docs
