#include "meshwork/tools/simulate/process.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/runtime/plan/step_clock.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/tools/simulate/measure.h"
#include "meshwork/tools/simulate/pieces.h"
#include "tools/simulate/programs.h"

namespace meshwork::process_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// If only ops take time, the step takes the sum of its pieces.
TEST(ProcessTest, AStepTakesItsPieces) {
  const Program program = Compiled(kProcessStep);
  Machine machine{.product_flops = 1e300, .step_seconds = 1000, .workers = 2};
  const Schedule schedule = ScheduleOfProcess(program, machine).value();
  const Pieces pieces = CutPieces(schedule);
  ASSERT_GT(pieces.all.size(), 3u);
  double sum = 1000, next = 1;
  for (const Piece& piece : pieces.all)
    if (machine.kernels.emplace(piece.key, next).second) next *= 2;
  for (const Piece& piece : pieces.all) sum += machine.kernels.at(piece.key);
  const Simulation step = SimulateProcess(program, machine).value();
  EXPECT_DOUBLE_EQ(step.seconds, sum);
  EXPECT_EQ(step.link_seconds, 0);
  EXPECT_EQ(SimulateOn(program, machine)->seconds, step.seconds);
  machine.workers = 0;
  EXPECT_EQ(SimulateOn(program, machine)->link_seconds, Simulate(program.body, machine).link_seconds);
}

// Every kernel and every collective within the process lies in a piece, which is a program that can run.
TEST(ProcessTest, PiecesCoverTheStep) {
  for (int64_t domains : {1, 2, 4}) {
    const Program program = Compiled(kProcessStep, domains);
    const Schedule schedule = ScheduleOfProcess(program, {.workers = 1}).value();
    const Pieces pieces = CutPieces(schedule);
    ASSERT_EQ(pieces.of.size(), schedule.instructions.size());
    for (size_t i = 0; i < pieces.of.size(); ++i)
      if (schedule.instructions[i].kind == Instruction::Kind::kKernel && domains == 1) {
        EXPECT_GE(pieces.of[i], 0) << i;
      }
    for (const Piece& piece : pieces.all) {
      EXPECT_TRUE(CheckLocalProgram(piece.program).ok()) << PrintGraph(piece.program);
      EXPECT_FALSE(piece.outputs.empty());
      EXPECT_EQ(piece.program.arguments().size(), piece.inputs.size());
      EXPECT_EQ(piece.program.outputs().size(), piece.outputs.size());
      EXPECT_EQ(piece.program.mesh().num_devices(), program.body.mesh().num_devices() / domains);
    }
  }
}

// Layers of one size have the same pieces; a new weight is written over the old one.
TEST(ProcessTest, EqualPiecesHaveOneKey) {
  const Program program = Compiled(R"(mesh [x=2]
func step(%h: f32[64,96] {x,_}, %e: f32[64,96] {x,_}, var %w: f32[96,96], var %u: f32[96,96]) {
  %f = matmul %h, %e transpose_a=true
  %w1 = sub %w, %f
  %a = matmul %h, %u
  %b = exp %a
  %g = matmul %h, %b transpose_a=true
  %u1 = sub %u, %g
  update %w = %w1
  update %u = %u1
})");
  const Pieces pieces = CutPieces(ScheduleOfProcess(program, {.workers = 2}).value());
  ASSERT_EQ(pieces.all.size(), 3u);
  EXPECT_EQ(pieces.all[0].key, pieces.all[2].key);
  EXPECT_NE(pieces.all[0].key, pieces.all[1].key);
  EXPECT_EQ(pieces.all[0].in_place.size(), 1u);
  EXPECT_THAT(pieces.all[1].in_place, IsEmpty());
}

// One process is simulated, but all wait for the one that has most to carry, also in a loop.
TEST(ProcessTest, WhatCrossesTakesAsLongAsWhereThereIsMost) {
  const Program program = Compiled(R"(mesh [batch=2, model=4]
func step(%w: f32[96,64] {batch,_}) {
  %a = relayout %w {model,_} : f32[96,64] {model,_}
  %y = scan %w length=3 (var %c: f32[96,64] {batch,_}) {
    %g = relayout %c {model,_} : f32[96,64] {model,_}
    %e = exp %g
    %n = relayout %e {batch,_} : f32[96,64] {batch,_}
    update %c = %n
  } : f32[96,64] {batch,_}
  return a=%a, y=%y
})",
                                   4);
  const Link link{.bandwidth = 1e6, .latency = 1e-3};
  const Machine machine{
      .topology = Topology::Create(program.body.mesh(), {{"batch", link}, {"model", link}}).value(),
      .workers = 1};
  // Processes 0 and 3 already hold part of the rows that they need.
  std::vector<double> bytes;
  for (int64_t domain = 0; domain < 4; ++domain) {
    const Schedule schedule = ScheduleOfProcess(program, machine, {}, domain).value();
    for (const Instruction& instruction : schedule.instructions)
      if (instruction.is_remote() && instruction.kind != Instruction::Kind::kWait)
        bytes.push_back(BytesCrossing(schedule.buffers, instruction.sends, instruction.receives));
  }
  EXPECT_THAT(bytes, ElementsAre(6144, 12288, 12288, 6144));
  EXPECT_NEAR(SimulateProcess(program, machine)->link_seconds, 7 * (12288 / link.bandwidth + link.latency),
              1e-9);
}

// A crossing between processes takes the time that Session::PredictTime says, with and without overlap.
TEST(ProcessTest, CrossesAsPredictSays) {
  constexpr std::string_view kShared = R"(mesh [x=2]
func step(%h: f32[64,96] {x,_}, %d: f32[64,32] {x,_}, %e: f32[64,64] {x,_}, var %w: f32[96,32], var %u: f32[96,64]) {
  %g = matmul %h, %d transpose_a=true
  %f = matmul %h, %e transpose_a=true
  %w1 = sub %w, %g
  %u1 = sub %u, %f
  update %w = %w1
  update %u = %u1
})";
  const Program program = Compiled(kShared, 2);
  const Link link{.bandwidth = 1e6, .latency = 1e-3};
  const Machine machine{
      .topology = Topology::Create(program.body.mesh(), {{"x", link}}, /*flops=*/1e6).value(), .workers = 1};
  std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);
  ends[0]->set_speed(link);
  const CpuBackend backend(1);
  for (const bool overlap : {true, false}) {
    const StepPrediction predicted = Executor::PredictTime(program, backend,
                                                           {.overlap = overlap,
                                                            .poison_padding = false,
                                                            .check_replicas = false,
                                                            .transport = ends[0].get()},
                                                           machine.topology)
                                         .value();
    const Simulation step = SimulateProcess(program, machine, {.overlap = overlap}).value();
    EXPECT_DOUBLE_EQ(step.seconds, predicted.seconds) << overlap;
    EXPECT_DOUBLE_EQ(step.link_seconds, predicted.remote_seconds) << overlap;
    EXPECT_DOUBLE_EQ(step.waited_seconds, predicted.waited_seconds) << overlap;
    EXPECT_GT(step.link_seconds, 0);
  }
}

TEST(ProcessTest, ALoopTakesItsTurns) {
  const Program program = Compiled(R"(mesh [x=2]
func step(%s: f32[64] {x}) {
  %y = scan %s length=5 (var %c: f32[64]) {
    %e = exp %c
    update %c = %e
  } : f32[64]
  return y=%y
})");
  Machine machine{.product_flops = 1, .workers = 1};
  const Simulation step = SimulateProcess(program, machine).value();
  double inside = 0;
  bool has_loop = false;
  for (const SimulatedSpan& span : step.spans) {
    if (span.depth == 0) {
      has_loop |= span.has_body;
      continue;
    }
    EXPECT_EQ(span.times, 5);
    inside += span.seconds;
  }
  EXPECT_TRUE(has_loop);
  EXPECT_GE(inside, 64);
  EXPECT_GE(step.seconds, 5 * inside);
}

// Whatever this machine measures, each piece can run alone, and has a time.
TEST(MeasureTest, EveryPieceIsTimed) {
  const Program program = Compiled(kProcessStep);
  Machine machine = MeasureMachine({.workers = 1, .rounds = 1}).value();
  EXPECT_EQ(machine.workers, 1);
  for (double rate : {machine.product_flops, machine.memory_bandwidth, machine.copy_bandwidth})
    EXPECT_GT(rate, 0);
  for (double seconds : {machine.op_seconds, machine.step_seconds, machine.barrier_seconds})
    EXPECT_GE(seconds, 0);
  ASSERT_TRUE(MeasureKernels(program, machine, {.rounds = 1}).ok());
  for (const Piece& piece : CutPieces(ScheduleOfProcess(program, machine).value()).all) {
    EXPECT_TRUE(machine.kernels.contains(piece.key)) << PrintGraph(piece.program);
  }
  const auto known = machine.kernels;
  ASSERT_TRUE(MeasureKernels(program, machine, {.rounds = 1}).ok());
  EXPECT_EQ(machine.kernels, known);  // known times stay
}

}  // namespace
}  // namespace meshwork::process_test
