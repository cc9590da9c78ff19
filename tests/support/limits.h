// Loops that may never end, ended.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `program`, global or local, with whiles that are over after `limit` iterations, if they were not before.
Graph WithLimits(const Graph& program, int64_t limit);

}  // namespace meshwork
