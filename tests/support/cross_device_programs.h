// Local programs whose all_reduces cross-device ops make, for tests of all backends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "runtime/plan/programs.h"
#include "support/cross_device_ops.h"

namespace meshwork {

struct CrossDeviceRun {
  std::string error;
  Tensors outputs, variables;
};

inline CrossDeviceRun RunCrossDevice(const Program& program, const Tensors& feeds,
                                     const ExecutorOptions& options, Backend& backend, int steps = 2) {
  CrossDeviceRun ran;
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(program, backend, options, &state);
  if (!executor.ok()) return {std::string(MessageOf(executor.status()))};
  for (int step = 0; step < steps && ran.error.empty(); ++step)
    ran.error = MessageOf((*executor)->Run(feeds, &ran.outputs));
  for (const auto& [name, variable] : state) ran.variables[name] = Unpack(variable).value();
  return ran;
}

// One program for each: several axes, of which one takes no part, and other reductions than sums; several
// values of several dtypes in one op; a loop.
inline constexpr std::string_view kCrossDevicePrograms[] = {
    R"(mesh [x=2, y=3]
func step(%a: f32[2,5] of f32[4,5] {x,_}, %b: i32[1,2] of i32[3,2] {y,_}, var %w: f32[5] {_}) {
  %p = reduce_sum %a dims=[0] : f32[5] {_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[5] {_}
  %m = reduce_max %b dims=[0] : i32[2] {_ | max:y}
  %t = all_reduce %m axes=(y) op=max : i32[2] {_}
  %n = add %w, %s : f32[5] {_}
  update %w = %n
  return s=%s, t=%t
})",
    R"(mesh [x=3]
func step(%a: f32[2,5] of f32[5,5] {x,_}, %b: f32[2,2] of f32[5,2] {x,_}, %c: i64[2,3] of i64[5,3] {x,_},
          var %w: f32[5] {_}) {
  %am = mask_padding %a dims=[0] op=sum : f32[2,5] of f32[5,5] {x,_}
  %bm = mask_padding %b dims=[0] op=sum : f32[2,2] of f32[5,2] {x,_}
  %cm = mask_padding %c dims=[0] op=sum : i64[2,3] of i64[5,3] {x,_}
  %p = reduce_sum %am dims=[0] : f32[5] {_ | sum:x}
  %q = reduce_sum %bm dims=[0] : f32[2] {_ | sum:x}
  %r = reduce_sum %cm dims=[0] : i64[3] {_ | sum:x}
  %s, %t, %u = all_reduce %p, %q, %r axes=(x) op=sum : f32[5] {_}, f32[2] {_}, i64[3] {_}
  %n = add %w, %s : f32[5] {_}
  update %w = %n
  return s=%s, t=%t, u=%u
})",
    R"(mesh [x=2, y=2]
func step(%a: f32[2,3] of f32[4,6] {x,y}, var %w: f32[3] of f32[6] {y}) {
  %l = scan %w, %a length=3 (var %c: f32[3] of f32[6] {y}, %b: f32[2,3] of f32[4,6] {x,y}) {
    %p = reduce_sum %b dims=[0] : f32[3] of f32[6] {y | sum:x}
    %s = all_reduce %p axes=(x) op=sum : f32[3] of f32[6] {y}
    %d = add %c, %s : f32[3] of f32[6] {y}
    update %c = %d
  } : f32[3] of f32[6] {y}
  update %w = %l
  return l=%l
})"};

inline Tensors CrossDeviceFeeds(const Program& program) {
  Tensors feeds;
  const Graph& body = program.body;
  for (const Argument& argument : body.arguments())
    if (!argument.is_variable)
      feeds[body.value(argument.value).name] = Ramp(body.value(argument.value).global);
  return feeds;
}

inline void ExpectSameRun(const CrossDeviceRun& actual, const CrossDeviceRun& expected) {
  ASSERT_EQ(actual.error, "");
  ASSERT_EQ(expected.error, "");
  ExpectBitwiseEqual(actual.outputs, expected.outputs);
  ExpectBitwiseEqual(actual.variables, expected.variables);
}

// The cross-device ops that run on all backends.
inline std::vector<std::shared_ptr<CrossDeviceOps>> AlgorithmsToTry() {
  return {ReductionToOneDevice(), HierarchicalCopyAllReduce().value(), HierarchicalCopyAllReduce(3).value(),
          RingAllReduce(), MakeCrossDeviceOps(std::make_shared<BackwardsAlgorithm>())};
}

// A reduction over five devices, of terms whose sum depends on their order.
struct RoughReduction {
  std::string_view dtype, op;
  int64_t elements;
};

// The first has several full pieces and a short one; the large bf16 reduction has one full piece and a short one.
inline constexpr RoughReduction kRoughReductions[] = {{"f32", "sum", 3 * 65536 + 7},
                                                      {"f64", "sum", 1001},
                                                      {"bf16", "sum", 140001},
                                                      {"i32", "sum", 9},
                                                      {"i64", "sum", 9},
                                                      {"f32", "prod", 1001},
                                                      {"bf16", "max", 9},
                                                      {"f64", "min", 9},
                                                      {"i64", "max", 9},
                                                      {"i32", "prod", 9}};

// Expects every algorithm to give the same bits on `backend` as on the CPU.
inline void ExpectTheOrderOfTheCpu(const RoughReduction& reduction, Backend& backend) {
  const auto& [dtype, op, elements] = reduction;
  const Program program = ParseProgram(fmt::format(R"(mesh [x=5]
func step(%a: {0}[1,{2}] of {0}[5,{2}] {{x,_}}) {{
  %p = reduce_{1} %a dims=[0] : {0}[{2}] {{_ | {1}:x}}
  %s = all_reduce %p axes=(x) op={1} : {0}[{2}] {{_}}
  return s=%s
}})",
                                                   dtype, op, elements));
  const Type& type = program.body.value(program.body.arguments()[0].value).global;
  const Tensors feeds = {{"a", Rough({F32, type.shape}).Cast(type.dtype)}};
  CpuBackend cpu(1);
  std::vector<Tensor> sums;
  for (const auto& ops : AlgorithmsToTry()) {
    SCOPED_TRACE(fmt::format("{} {} {}", ops->name(), op, dtype));
    const ExecutorOptions options{.cross_device_ops = ops};
    const CrossDeviceRun run = RunCrossDevice(program, feeds, options, backend, 1);
    ExpectSameRun(run, RunCrossDevice(program, feeds, options, cpu, 1));
    if (run.error.empty()) sums.push_back(run.outputs.at("s"));
  }
  // The algorithms differ in the order of terms and in their sums, so the test would notice another order.
  if (op != "sum" || dtype != "f32") return;
  ASSERT_EQ(sums.size(), 5u);
  for (const size_t other : {1, 3, 4}) EXPECT_FALSE(AllEqual(sums[0], sums[other]).ok());
}

}  // namespace meshwork
