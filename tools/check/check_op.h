// CheckOp checks that the statements of a row about its op are true. The library's own rows are tried by the
// same code (tests/contract).
//
//   const absl::StatusOr<OpReport> report = CheckOp(row);   // before or after RegisterOp(row)
//   if (!report.ok()) …                                     // "wrong: swiglu …: {x,_}, {_,_} -> {x,_}"
//   fmt::print("{}", report->ToString());
//
// It takes from tenths of a second to some seconds, depending on the number of operands and dims of the
// samples; large samples show no more than small ones. Gradients are compared at values in the row's sample
// ranges, where the op must have a gradient. The kernel runs on blocks with garbage in the padding. It runs
// in this process: a kernel that writes to arbitrary memory may crash it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// What was tried.
struct OpReport {
  std::string op;
  int64_t placements = 0;  // of the kernel on blocks, on meshes of 2 and 3 devices; for each owed reduction
  int64_t programs = 0;    // compiled, proven and run, on up to 4 devices; even, uneven and empty blocks
  int64_t slopes = 0;      // elements of gradients, in f64
  // Findings that are not errors: placements that are right but that the rule does not accept, which costs
  // communication; a gradient that could not be compared.
  std::vector<std::string> notes;

  // "swiglu: 1234 placements, 56 programs and 48 slopes are right\n", and the notes.
  std::string ToString() const;
};

// Tries every sample of the row: its kernel by itself, on the blocks of every placement, whether the rule
// accepts it or not; programs with the op; and its gradient, if it has one, against central differences. The
// row need not be registered. Thread-safe. Errors: those of CheckRow, and everything that is wrong, up to
// eight lines: a placement whose blocks are not blocks of the one-device result; a kernel that writes beyond
// its results, or not all of them, or whose results depend on how its work is cut; a program that does not
// compile or gives other values; a gradient that is not the slope.
absl::StatusOr<OpReport> CheckOp(const OpRow& row);

}  // namespace meshwork
