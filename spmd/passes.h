// The passes of Compile, in their order.
//
// A pass is *optional* if the program is right without it: it saves bytes, time or memory, or merges what is
// the same. One whose result does not verify can be left out (CompileOptions::wrong_pass).
//
// For Compile and for the tests of it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/program.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// What is done otherwise than Compile would.
struct PassControl {
  // Optional passes that do not run.
  std::vector<std::string> left_out = {};
  // Called with what a pass made; the compile goes on with what it returns. So a test puts a wrong
  // pass in the place of a right one.
  std::function<Graph(std::string_view pass, Graph made)> tamper = nullptr;
};

// The names of all passes, in their order, and of the optional ones.
std::vector<std::string> PassNames();
std::vector<std::string> OptionalPasses();

// What one run of the passes gives.
struct Passed {
  Program program;
  // Errors: a gather that is refused, too little memory.
  absl::Status status = absl::OkStatus();
  std::vector<std::string> optional = {};  // the optional passes that made something of it
};

// Runs the passes, without a proof. REQUIRES: `global` and `options` are as Compile wants them.
Passed RunPasses(const Graph& global, const CompileOptions& options, const PassControl& control);

// Compile, with passes that are controlled.
absl::StatusOr<Program> CompileWith(const Graph& global, const CompileOptions& options,
                                    const PassControl& control);

}  // namespace meshwork
