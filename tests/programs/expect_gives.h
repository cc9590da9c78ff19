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
#include "meshwork/base/random.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork {

using Numbers = std::map<std::string, std::vector<double>>;

inline Numbers RandomNumbers(const Graph& graph, uint64_t seed) {
  Numbers numbers;
  Random random(seed);
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    std::vector<double>& list = numbers[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      list.push_back(IsFloat(info.type.dtype) ? random.Uniform(-1, 1) : 1);
  }
  return numbers;
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
  std::map<std::string, Tensor> feeds, outputs;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    const Tensor tensor = ToTensor(HostTensor(info.type, numbers.at(info.name)));
    if (argument.is_variable) ASSERT_TRUE(Pack(tensor, state.at(info.name)).ok());
    else feeds.emplace(info.name, tensor);
  }
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE((*executor)->Run(feeds, &outputs).ok());
    for (const auto& [name, value] : expected)
      ExpectClose(name, NumbersOf(outputs.at(name)), value.Numbers());
    if (testing::Test::HasFatalFailure()) FAIL() << PrintGraph(program->body);
  }
}

}  // namespace meshwork
