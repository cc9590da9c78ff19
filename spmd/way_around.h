// The layouts that avoid a gather which the compiler refuses, tried one after the other.
#pragma once

#include <cstdint>
#include <string>

#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/gather_in_program.h"

namespace meshwork {

// "Cheapest without it: lay %w out as {_,x} (mlp.cc:9); 512 B on the wire per device and step instead of 1024.", or
// that none was found. num_refused: gathers that the program is refused for; with the change there must be fewer.
std::string CheapestWayAround(const GatherInProgram& at, int64_t num_refused, const Topology& topology,
                              int64_t budget);

}  // namespace meshwork
