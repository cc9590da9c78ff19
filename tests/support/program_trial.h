// Runs a random program as compiled and as executed, and compares it with the same program on one device,
// node by node. Padding is full of NaN, replicas are compared.
//
//   const RandomProgram random = …;
//   const Expected expected = ExpectedOf(random);
//   CpuBackend backend(2);
//   const Trial trial = TryProgram(random, expected, backend);   // trial.error() is "" if all is right
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/interpreter.h"
#include "support/program_drawer.h"

namespace meshwork {

// A program with a number in [-1, 1.3) for every element of its arguments. REQUIRES: these are real.
RandomProgram WithFeeds(Graph graph);

// With names for all outputs.
Graph WithOutputNames(const Graph& graph);

// A step on one device.
struct Expected {
  InterpretedStep step;
  // The largest magnitude of any value, in bodies of loops too; rounding errors are measured by it. At least
  // 1; infinity if a value is infinite or NaN, and then the program cannot be compared.
  double scale = 1;
  // Whether every bit must agree, except in NaNs; then `scale` may be anything.
  bool is_exact = false;
};
Expected ExpectedOf(const RandomProgram& random);
// A step on the virtual devices of one domain, for manual regions, which one device cannot run. REQUIRES: the
// program compiles and runs.
Expected ExpectedOnOneDomain(const RandomProgram& random);

// What is wrong with a program, or "": the compiler or the executor refuses it, or its results differ from
// the expected ones.
struct Trial {
  std::string rejected, wrong;

  std::string error() const { return rejected + wrong; }
};

// Runs `program`, which the compiler has made of `random`.
Trial TryCompiled(const RandomProgram& random, const Expected& expected, Backend& backend,
                  const Program& program, ExecutorOptions executor_options = {});

// Makes the backend of a domain.
using BackendMaker = std::function<absl::StatusOr<std::unique_ptr<Backend>>(int64_t domain)>;

// The same on several domains of this process (mesh/placement.h), each with a backend of its own; two steps from
// the same start. All outputs are distributed, besides what options say.
Trial TryOnDomains(const RandomProgram& random, const Expected& expected, int64_t num_domains,
                   const BackendMaker& make_backend, const ExecutorOptions& options = {});
// On CPUs with `workers` threads in each domain.
Trial TryOnDomains(const RandomProgram& random, const Expected& expected, int64_t num_domains,
                   int workers = 1, const ExecutorOptions& options = {});

// How the executor runs it; padding and replicas are checked in any case.
Trial TryProgram(const RandomProgram& random, const Expected& expected, Backend& backend,
                 const CompileOptions& options = {}, ExecutorOptions executor_options = {});

}  // namespace meshwork
