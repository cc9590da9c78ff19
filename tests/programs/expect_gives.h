// Runs a program as the compiler lays it out and compares its outputs with numbers computed another way.
// Padding is full of NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/arguments.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork {

using Numbers = NumbersByName;

inline Numbers RandomNumbers(const Graph& graph, uint64_t seed) {
  return DrawNumbers(graph, seed, [](Random& random, DType dtype, int64_t) {
    return IsFloat(dtype) ? random.Uniform(-1, 1) : 1;
  });
}

inline void ExpectClose(const std::string& name, const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size()) << name;
  double largest = 1;
  for (double x : b) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-10 * largest) << name << "[" << i << "]";
}

// Runs the program on its mesh and compares its outputs with those of `expected`.
inline void ExpectGives(const Graph& graph, const Numbers& numbers,
                        const std::map<std::string, HostTensor>& expected, ExecutorOptions options = {},
                        int workers = 2, const CompileOptions& compile = {}) {
  options.poison_padding = options.check_replicas = true;
  const absl::StatusOr<Program> program = Compile(graph, compile);
  ASSERT_TRUE(program.ok()) << program.status() << "\n" << PrintGraph(graph);
  CpuBackend backend(workers);
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(*program, backend, options, &state);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const std::map<std::string, Tensor> feeds = PackArguments(graph, numbers, state).value();
  std::map<std::string, Tensor> outputs;
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE((*executor)->Run(feeds, &outputs).ok());
    for (const auto& [name, value] : expected)
      ExpectClose(name, NumbersOf(outputs.at(name)), value.Numbers());
    if (testing::Test::HasFatalFailure()) FAIL() << PrintGraph(program->body);
  }
}

}  // namespace meshwork
