// Tries every placement of one op on a mesh of one axis: which placements are right, and which the rule
// accepts.
//
//   std::vector<KernelFinding> findings;
//   TryKernel(EvenSample(sample, 2), /*devices=*/2, findings);
//
// A placement gives each operand and result a layout: replicated, sharded along a dim that the axis
// divides, or partial by a reduction; all partial operands owe the same reduction. A placement is right if
// the row's kernel, run on each device's blocks, computes the blocks of the one-device result. It is accepted
// if it follows from the rule's letters (one letter lies on the axis; a reduced letter leaves the result
// partial) or from its passes (partial operands, partial result). tools/check/owed.h says what a partial operand
// holds on each device. Windows need an exchange before the op, which tools/check/program_trial.h tries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/sample.h"

namespace meshwork {

// Whether the kernel writes every element of the inferred results and none beyond, however its work is cut,
// and whether the result of a view is its operand.
absl::Status TryWholeKernel(const Sample& sample);

// The sample with every letter's size a multiple of `devices`, as far as possible.
Sample EvenSample(const Sample& sample, int64_t devices);

struct KernelFinding {
  // True: the rule accepts a placement that is not right, or the kernel fails on it. False: a placement is
  // right, but the rule does not accept it, which only costs communication.
  bool is_wrong = false;
  std::string text;  // "missing: outer f32[4], f32[6] -> f32[4,6] (…): {_}, {_ | sum:x} -> {_,_ | sum:x}"
  std::string placement;            // "{_}, {_ | sum:x} -> {_,_ | sum:x}"
  std::optional<ReduceOp> in, out;  // what operands and results owe
};

// Adds to `findings`; returns how many placements there were. The sample's row must outlive the call.
int64_t TryKernel(const Sample& sample, int64_t devices, std::vector<KernelFinding>& findings);

}  // namespace meshwork
