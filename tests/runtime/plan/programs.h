// Runs local programs from text in tests, in every way that must not change a number.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"

namespace meshwork {

using Tensors = std::map<std::string, Tensor>;

// A local program without a mistake.
inline constexpr std::string_view kLocalProgram = R"(mesh [x=2, y=1]
func step(%a: f32[2,3] of f32[4,3] {x,_}, var %w: f32[2,3] of f32[4,3] {x,_}) {
  %n = neg %a : f32[2,3] of f32[4,3] {x,_}
  %p = reduce_sum %n dims=[0] : f32[3] of f32[3] {_ | sum:x}
  update %w = %n
  return n=%n, w=%w
})";

inline Program ParseProgram(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) ADD_FAILURE() << MessageOf(graph.status());
  return {.body = graph.ok() ? *std::move(graph) : Graph(Mesh())};
}

// The way in which a program is run; it must not change the results.
struct RunMode {
  int workers = 1;
  bool share = true;
  bool poison = true;
  bool coalesce = true;
  bool fuse = true;
  bool atomic = false;

  std::string ToString() const {
    return fmt::format("workers={} share={} poison={} coalesce={} fuse={} atomic={}", workers, share, poison,
                       coalesce, fuse, atomic);
  }
};

inline std::vector<RunMode> AllRunModes() {
  std::vector<RunMode> modes;
  for (int workers : {1, 2, 3, 8})
    for (bool share : {true, false})
      for (bool coalesce : {true, false})
        for (bool fuse : {true, false}) modes.push_back({workers, share, true, coalesce, fuse});
  modes.push_back({2, true, false});
  for (bool share : {true, false}) modes.push_back({3, share, true, true, true, /*atomic=*/true});
  return modes;
}

struct RunResult {
  Tensors outputs;    // of the last step
  Tensors variables;  // after it
  ExecutorMemory memory;
};

// Runs `steps` steps. `initial` gives variables by name; the others are zeros. Checks that replicas agree.
inline RunResult RunProgram(const Program& program, const Tensors& feeds, const Tensors& initial,
                            const RunMode& mode, int steps = 1) {
  SCOPED_TRACE(mode.ToString());
  CpuBackend backend(mode.workers);
  std::map<std::string, DTensor> state;
  RunResult result;
  auto executor = Executor::Create(program, backend,
                                   {.share = mode.share,
                                    .coalesce = mode.coalesce,
                                    .fuse = mode.fuse,
                                    .poison_padding = mode.poison,
                                    .check_replicas = true,
                                    .atomic = mode.atomic},
                                   &state);
  if (!executor.ok()) {
    ADD_FAILURE() << MessageOf(executor.status());
    return result;
  }
  for (const auto& [name, value] : initial) EXPECT_EQ(MessageOf(Pack(value, state.at(name))), "");
  for (int step = 0; step < steps; ++step) EXPECT_EQ(MessageOf((*executor)->Run(feeds, &result.outputs)), "");
  for (const auto& [name, variable] : state) {
    absl::StatusOr<Tensor> value = Unpack(variable, /*check_replicas=*/true);
    if (!value.ok()) ADD_FAILURE() << MessageOf(value.status());
    else result.variables[name] = *value;
  }
  result.memory = (*executor)->memory();
  return result;
}

inline bool BitwiseEqual(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

inline void ExpectBitwiseEqual(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(BitwiseEqual(value, b.at(name))) << name;
}

// Distinct small whole numbers, 1, 2, 3, …, times `scale`.
inline Tensor Ramp(const Type& type, double scale = 1) {
  Tensor tensor(type);
  DispatchAny(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, bool>) {
      double next = 0;
      for (T& x : tensor.mutable_values<T>()) x = static_cast<T>(scale * ++next);
    } else {
      bool next = false;
      for (T& x : tensor.mutable_values<T>()) x = next = !next;
    }
  });
  return tensor;
}

// Numbers whose sums depend on the order of the terms.
inline Tensor Rough(const Type& type) {
  Tensor tensor = Ramp(type);
  DispatchAny(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      for (T& x : tensor.mutable_values<T>()) x = static_cast<T>(std::sin(static_cast<double>(x) * 1.7) / 3);
    }
  });
  return tensor;
}

}  // namespace meshwork
