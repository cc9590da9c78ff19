// The picture of docs/parameter-servers.md: SplitTraining says where the pieces lie, and how many bytes are sent.
#pragma once

#include "meshwork/base/svg.h"

namespace meshwork::docs {

Svg DrawParameterServers();

}  // namespace meshwork::docs
