// A local program as one StableHLO module for all devices of its mesh, which any PJRT plugin compiles.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph));
//   MESHWORK_ASSIGN_OR_RETURN(const std::string module, WriteStableHlo(program.body));
//
// The module has num_replicas = the mesh's devices and num_partitions = 1: replica r is device r, and no partitioner of the
// plugin's changes what Verify has proven. Its function `main` takes the blocks of arguments() in their order, and returns the
// blocks of outputs(), then those of updates(). What a variable holds after the step may be written over what it held
// (tf.aliasing_output). Comments name each. Elements of a block beyond the tensor, where it is uneven, may be anything.
//
// Products of f32 ask for the precision HIGHEST. Reals of 16 bits are computed in f32 and rounded once per op. Random numbers
// are those of the CPU, bit for bit; normal ones in f64 to rounding. Sums are in the compiler's order. docs/stablehlo.md has the
// differences that are known.
//
// Pure; thread-safe. Source: StableHLO specification, openxla.org/stablehlo/spec; the text has no promise of compatibility
// between versions of StableHLO.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// Errors: UNIMPLEMENTED, with all ops of the program that have no form: those that were registered, collectives of strided layouts.
absl::StatusOr<std::string> WriteStableHlo(const Graph& local);

// The rows that WriteStableHlo knows no form of, in the order of AllOps, but for notes. Those of the library are in no local
// program: Compile writes the ops of manual regions as others.
std::vector<std::string> OpsWithoutStableHlo();

}  // namespace meshwork
