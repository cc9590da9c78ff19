// The rows of each family in this room; families.cc lists the families of all rooms.
#pragma once

#include <span>

#include "meshwork/ir/row.h"

namespace meshwork {

std::span<const OpRow> ControlOps();
std::span<const OpRow> ManualOps();

}  // namespace meshwork
