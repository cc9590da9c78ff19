// Loops that may never end, with a limit of iterations.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `program`, global or local, whose whiles end after `limit` iterations, if they have not ended before.
Graph WithLimits(const Graph& program, int64_t limit);

}  // namespace meshwork
