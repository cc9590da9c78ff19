// Which domain writes which part of each variable into a checkpoint.
//
// Every element is written once. If several domains hold the same block, one of them writes it or, if it is large,
// each writes some of its rows, so that all domains write about equally much. The plan depends only on types and
// layouts, so each domain makes the same plan by itself.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/layout/plain_parts.h"
#include "meshwork/mesh/placement.h"

namespace meshwork {

struct VariablePlace {
  Type type;
  Layout layout;
};

struct WrittenPart {
  int64_t domain = 0;  // who writes it
  int64_t device = 0;  // one of that domain's devices that hold it
  PlainPart part;
};

// By variable. REQUIRES: the layouts are on the placement's mesh, without partials.
std::map<std::string, std::vector<WrittenPart>> PlanParts(
    const Placement& placement, const std::map<std::string, VariablePlace>& variables);

}  // namespace meshwork
