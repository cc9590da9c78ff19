// The passes of Compile, in their order.
//
// A pass is *optional* if the program is right without it: it saves bytes, time or memory, or merges equal
// nodes. An optional pass whose result does not verify can be left out (CompileOptions::wrong_pass).
//
// For Compile and its tests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/program.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/planner/work.h"

namespace meshwork {

// What RunPasses does differently from Compile.
struct PassControl {
  // Optional passes that do not run.
  std::vector<std::string> left_out = {};
  // Called with the result of each pass; the compile goes on with the graph that it returns. With it, a test
  // can replace a right pass by a wrong one.
  std::function<Graph(std::string_view pass, Graph made)> tamper = nullptr;
  // The most bytes that a device may send in a step. If by a short program (short_program.h) it sends more, the compile
  // ends with Cancelled.
  std::optional<int64_t> most_wire_bytes = std::nullopt;
  // What searches for layouts took is taken from this, too (spmd/planner/work.h). It does not change the result.
  SearchWork* work = nullptr;
};

// The names of all passes, in their order, and of the optional ones.
std::vector<std::string> PassNames();
std::vector<std::string> OptionalPasses();

// The result of one run of the passes.
struct Passed {
  Program program;
  // Errors: a gather that is refused, too little memory.
  absl::Status status = absl::OkStatus();
  std::vector<std::string> optional = {};  // the optional passes that changed the program
};

// Runs the passes, without a proof. REQUIRES: `global` and `options` are ones that Compile accepts.
Passed RunPasses(const Graph& global, const CompileOptions& options, const PassControl& control);

// Compile, with passes that are controlled.
absl::StatusOr<Program> CompileWith(const Graph& global, const CompileOptions& options,
                                    const PassControl& control);

}  // namespace meshwork
