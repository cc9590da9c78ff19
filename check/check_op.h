// CheckOp: whether what a row says of its op is so. The library's own rows are tried by the same code
// (tests/contract).
//
//   const absl::StatusOr<OpReport> report = CheckOp(row);   // before or after RegisterOp(row)
//   if (!report.ok()) …                                     // "wrong: swiglu …: {x,_}, {_,_} -> {x,_}"
//   fmt::print("{}", report->ToString());
//
// It takes from tenths of a second to some seconds, by the number of operands and dims of the samples; large
// samples show no more than small ones. Gradients are compared at values of the row's sample ranges, where
// the op has to have one. The kernel is run on blocks whose elements beyond are garbage, but it runs in this
// process: one that writes anywhere ends it.
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
  int64_t placements = 0;  // of the kernel on blocks, on meshes of 2 and 3 devices; of each reduction owed
  int64_t programs = 0;    // compiled, proven and run, on up to 4 devices; even, uneven and empty blocks
  int64_t slopes = 0;      // elements of gradients, in f64
  // What is not wrong, and could be better: placements that are right and that the rule does not accept, for
  // which the compiler then pays; a gradient that could not be compared.
  std::vector<std::string> notes;

  // "swiglu: 1234 placements, 56 programs and 48 slopes are right\n", and the notes.
  std::string ToString() const;
};

// Tries every sample of the row: its kernel by itself, on the blocks of every placement that the rule accepts
// and of those that it does not, in programs, and its gradient, if it has one, against central differences.
// The row need not be registered. Thread-safe. Errors: those of CheckRow, and whatever is wrong, up to eight
// lines: a placement at which the blocks are not those of one device; a kernel that writes beyond its
// results, or not all of them, or whose results depend on how its work is cut; a program that does not
// compile or gives other values; a gradient that is not the slope.
absl::StatusOr<OpReport> CheckOp(const OpRow& row);

}  // namespace meshwork
