// Programs with loops and branches, as text, in corners: no iterations, weights that are gathered on use,
// pins in bodies, a memory budget, profiles.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "programs/expect_gives.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork::loop_programs_test {
namespace {

// A small program in text, run on its mesh and by the interpreter.
void ExpectRunsAsWritten(const std::string& text, const CompileOptions& options = {}) {
  const Graph graph = ParseGraph(text).value();
  const Numbers numbers = RandomNumbers(graph, /*seed=*/7);
  ExpectGives(graph, numbers, Interpret(graph, numbers).outputs, {}, 2, options);
}

TEST(LoopProgramTest, LoopsOfNoIterationGiveWhatTheyAreGiven) {
  ExpectRunsAsWritten(R"(mesh [x=2]
func f(%a: f64[5,3] {x,_}, %xs: f64[0,5,3]) {
  %c, %ys, %s = scan %a, %xs, %a length=0 slices=1 sums=1 (var %c: f64[5,3], %x: f64[5,3], %a: f64[5,3]) {
    %n = add %c, %x
    %t = reduce_sum %n dims=[0]
    update %c = %n
    return %n, %t
  }
  %w = while %c (var %c: f64[5,3]) {
    %no = constant value=0 dtype=bool shape=[]
    %n = neg %c
    update %c = %n
    return %no
  }
  return c=%c, ys=%ys, s=%s, w=%w
})");
}

// Weights that are kept in blocks, and gathered inside the loop or before it.
TEST(LoopProgramTest, CapturedWeightsMayBeGatheredOnUse) {
  const std::string text = R"(mesh [x=3]
func f(%a: f64[6,7] {x,_}, var %w: f64[7,7] {x,_} gather=on_use) {
  %c, %s = scan %a, %w length=4 sums=1 (var %c: f64[6,7], %w: f64[7,7]) {
    %p = matmul %c, %w
    %n = tanh %p
    %g = matmul %c, %n transpose_a=true
    update %c = %n
    return %g
  }
  %k = constant value=0.125 dtype=f64 shape=[]
  %u = mul %k, %s
  %v = sub %w, %u
  update %w = %v
  return c=%c
})";
  const Graph graph = ParseGraph(text).value();
  const Numbers numbers = RandomNumbers(graph, /*seed=*/7);
  const Program program = Compile(graph, {.replication_budget = 0}).value();
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(program, backend, {.poison_padding = true}, &state).value();
  std::map<std::string, Tensor> outputs;
  ASSERT_TRUE(Pack(ToTensor(HostTensor({F64, {7, 7}}, numbers.at("w"))), state.at("w")).ok());
  ASSERT_TRUE(executor->Run({{"a", ToTensor(HostTensor({F64, {6, 7}}, numbers.at("a")))}}, &outputs).ok());
  const InterpretedStep expected = Interpret(graph, numbers);
  ExpectClose("c", NumbersOf(outputs.at("c")), expected.outputs.at("c").Numbers());
  ExpectClose("w", NumbersOf(Unpack(state.at("w"), true).value()), expected.variables.at("w").Numbers());
}

// A carry is such a variable only before the first iteration; in the loop it may have another layout.
TEST(LoopProgramTest, CarriesMayBeginAsWeightsThatAreGatheredOnUse) {
  for (const std::string_view loop : {"scan %w, %a length=3", "scan %w, %a length=0"})
    ExpectRunsAsWritten(fmt::format(R"(mesh [x=2, y=2]
func f(%a: f64[5,7] {{_,y}}, var %w: f64[5,7] {{x,_}} gather=on_use) {{
  %c = {} (var %c: f64[5,7], %a: f64[5,7]) {{
    %n = add %c, %a : f64[5,7] {{x,y}}
    %m = tanh %n
    update %c = %m
  }}
  %d = scan %w, %a length=2 (var %c: f64[5,7], %a: f64[5,7]) {{
    %n = sin %a : f64[5,7] {{y,x}}
    update %c = %n
  }}
  return c=%c, d=%d
}})",
                                    loop));
}

TEST(LoopProgramTest, PinsInBodiesAndOfResultsHold) {
  ExpectRunsAsWritten(R"(mesh [x=2, y=2]
func f(%a: f64[6,4] {x,_}, %p: bool[]) {
  %c = scan %a length=2 (var %c: f64[6,4] {_,y}) {
    %n = tanh %c : f64[6,4] {x,y}
    update %c = %n
  } : f64[6,4] {y,x}
  %d = if %p, %a, %c (%a: f64[6,4] {y,_}, %c: f64[6,4]) {
    return %a
  } else (%a: f64[6,4] {_,x}, %c: f64[6,4] {_,_}) {
    %s = add %a, %c
    return %s
  } : f64[6,4] {_,(x,y)}
  return c=%c, d=%d
})");
}

// With a budget of its peak the program computes the same; a budget that no plan meets is refused.
TEST(LoopProgramTest, AMemoryBudgetIsKept) {
  const std::string text = R"(mesh [x=2]
func f(%a: f64[64,8] {x,_}, %w: f64[8,8]) {
  %c = scan %a, %w length=3 (var %c: f64[64,8], %w: f64[8,8]) {
    %p = matmul %c, %w
    %q = tanh %p
    %r = exp %p
    %n = add %q, %r
    update %c = %n
  }
  %d = tanh %c
  return d=%d
})";
  const Graph graph = ParseGraph(text).value();
  const int64_t peak = LogicalPeakBytes(Compile(graph).value().body);
  ExpectRunsAsWritten(text, {.memory_budget = peak});
  EXPECT_EQ(Compile(graph, {.memory_budget = 64}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(LoopProgramTest, AProfileAndATraceShowALoopAsOneRow) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func f(%a: f64[6,4] {x,_}) {
  %c = scan %a length=5 (var %c: f64[6,4]) {
    %n = tanh %c
    update %c = %n
  }
  return c=%c
})")
                          .value();
  const Program program = Compile(graph).value();
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  const auto executor =
      Executor::Create(program, backend, {.profile = true, .trace_steps = 2}, &state).value();
  const Numbers numbers = RandomNumbers(graph, /*seed=*/7);
  std::map<std::string, Tensor> outputs;
  ASSERT_TRUE(executor->Run({{"a", ToTensor(HostTensor({F64, {6, 4}}, numbers.at("a")))}}, &outputs).ok());
  int rows = 0;
  const Profile profile = executor->Profile();
  for (const ProfileRow& row : profile.rows) rows += row.op == "scan";
  EXPECT_EQ(rows, 1);
  EXPECT_FALSE(executor->Trace().events.empty());
}

}  // namespace
}  // namespace meshwork::loop_programs_test
