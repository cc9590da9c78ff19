#include "meshwork/runtime/executor.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "runtime/programs.h"
#include "runtime/random_program.h"
#include "runtime/schedules.h"
#include "support/long_tests.h"

namespace meshwork {
namespace {

using ::testing::ElementsAre;

// y = x w, loss = sum (y - t)^2, Adam on w; 10 rows on 4 devices: blocks of 3, 3, 3 and 1.
constexpr std::string_view kTraining = R"(mesh [batch=4]
func step(%x: f32[3,5] of f32[10,5] {batch,_}, %t: f32[3,6] of f32[10,6] {batch,_},
          var %w: f32[5,6] {_,_}, var %m: f32[5,6] {_,_}, var %v: f32[5,6] {_,_}, var %n: i64[] {}) {
  %xm = mask_padding %x dims=[0] op=sum : f32[3,5] of f32[10,5] {batch,_}
  %y = matmul %xm, %w : f32[3,6] of f32[10,6] {batch,_}
  %e = sub %y, %t : f32[3,6] of f32[10,6] {batch,_}
  %em = mask_padding %e dims=[0] op=sum : f32[3,6] of f32[10,6] {batch,_}
  %sq = mul %em, %em : f32[3,6] of f32[10,6] {batch,_}
  %l = reduce_sum %sq dims=[0,1] : f32[] of f32[] {| sum:batch}
  %g = matmul %xm, %em transpose_a=true : f32[5,6] of f32[5,6] {_,_ | sum:batch}
  %loss, %G = all_reduce %l, %g axes=(batch) op=sum : f32[] of f32[] {}, f32[5,6] of f32[5,6] {_,_}
  %one = constant value=1 dtype=i64 shape=[] : i64[] of i64[] {}
  %n1 = add %n, %one : i64[] of i64[] {}
  %w1, %m1, %v1 = adam_update %w, %G, %m, %v, %n1 learning_rate=0.01
      : f32[5,6] of f32[5,6] {_,_}, f32[5,6] of f32[5,6] {_,_}, f32[5,6] of f32[5,6] {_,_}
  update %w = %w1
  update %m = %m1
  update %v = %v1
  update %n = %n1
  return loss=%loss
})";

struct Reference {
  std::vector<double> w, m, v;
  double loss = 0;
};

// The same training in double precision on one device; the gradient without its factor of 2.
Reference TrainInDouble(const Tensor& x, const Tensor& t, const Tensor& w0, int steps) {
  const int64_t rows = x.shape()[0], k = x.shape()[1], n = t.shape()[1];
  Reference r;
  r.w.assign(w0.values<float>().begin(), w0.values<float>().end());
  r.m.assign(r.w.size(), 0);
  r.v.assign(r.w.size(), 0);
  for (int step = 1; step <= steps; ++step) {
    std::vector<double> gradient(r.w.size(), 0);
    r.loss = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double e = -t.values<float>()[i * n + j];
        for (int64_t c = 0; c < k; ++c) e += x.values<float>()[i * k + c] * r.w[c * n + j];
        r.loss += e * e;
        for (int64_t c = 0; c < k; ++c) gradient[c * n + j] += x.values<float>()[i * k + c] * e;
      }
    }
    for (size_t i = 0; i < r.w.size(); ++i) {
      r.m[i] = 0.9 * r.m[i] + 0.1 * gradient[i];
      r.v[i] = 0.999 * r.v[i] + 0.001 * gradient[i] * gradient[i];
      const double m_hat = r.m[i] / (1 - std::pow(0.9, step)), v_hat = r.v[i] / (1 - std::pow(0.999, step));
      r.w[i] -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
  }
  return r;
}

TEST(ExecutorTest, TrainingAgreesWithOneDeviceInDouble) {
  const Tensor x = Rough({F32, {10, 5}}), t = Rough({F32, {10, 6}}), w = Rough({F32, {5, 6}});
  const RunResult run =
      RunProgram(ParseProgram(kTraining), {{"x", x}, {"t", t}}, {{"w", w}}, {2, true, true}, 5);
  const Reference expected = TrainInDouble(x, t, w, 5);
  EXPECT_NEAR(run.outputs.at("loss").Scalar().value(), expected.loss, 1e-5 * expected.loss);
  EXPECT_EQ(run.variables.at("n").Scalar().value(), 5);
  for (size_t i = 0; i < expected.w.size(); ++i) {
    EXPECT_NEAR(run.variables.at("w").values<float>()[i], expected.w[i], 1e-5);
    EXPECT_NEAR(run.variables.at("m").values<float>()[i], expected.m[i], 1e-5);
    EXPECT_NEAR(run.variables.at("v").values<float>()[i], expected.v[i], 1e-5);
  }
}

// Coalescing alone decides in which order sums are taken.
void ExpectBitwiseTheSameHoweverItRuns(const Program& program, const Tensors& feeds, const Tensors& initial) {
  const RunResult first[] = {RunProgram(program, feeds, initial, {1, true, false, false, false}, 3),
                             RunProgram(program, feeds, initial, {1, true, false, true, false}, 3)};
  for (const RunMode& mode : AllRunModes()) {
    SCOPED_TRACE(mode.ToString());
    const RunResult run = RunProgram(program, feeds, initial, mode, 3);
    ExpectBitwiseEqual(run.outputs, first[mode.coalesce && mode.share].outputs);
    ExpectBitwiseEqual(run.variables, first[mode.coalesce && mode.share].variables);
  }
}

TEST(ExecutorTest, TrainingIsBitwiseTheSameHoweverItRuns) {
  ExpectBitwiseTheSameHoweverItRuns(ParseProgram(kTraining),
                                    {{"x", Rough({F32, {10, 5}})}, {"t", Rough({F32, {10, 6}})}},
                                    {{"w", Rough({F32, {5, 6}})}});
}

// The same with sizes that are worth cutting between workers, on a mesh of two axes: rows over
// batch (uneven), the hidden dim over model, the second product partial over model.
constexpr std::string_view kLarge = R"(mesh [batch=2, model=3]
func step(%x: f32[51,40] of f32[101,40] {batch,_}, var %w: f32[40,100] of f32[40,300] {_,model},
          var %u: f32[100,64] of f32[300,64] {model,_}, var %m: f32[40,100] of f32[40,300] {_,model},
          var %v: f32[40,100] of f32[40,300] {_,model}, var %n: i64[] {}) {
  %xm = mask_padding %x dims=[0] op=sum : f32[51,40] of f32[101,40] {batch,_}
  %a = matmul %xm, %w : f32[51,100] of f32[101,300] {batch,model}
  %h = tanh %a : f32[51,100] of f32[101,300] {batch,model}
  %p = matmul %h, %u : f32[51,64] of f32[101,64] {batch,_ | sum:model}
  %y = all_reduce %p axes=(model) op=sum : f32[51,64] of f32[101,64] {batch,_}
  %d = matmul %y, %u transpose_b=true : f32[51,100] of f32[101,300] {batch,model}
  %dm = mask_padding %d dims=[0] op=sum : f32[51,100] of f32[101,300] {batch,model}
  %g = matmul %xm, %dm transpose_a=true : f32[40,100] of f32[40,300] {_,model | sum:batch}
  %G = all_reduce %g axes=(batch) op=sum : f32[40,100] of f32[40,300] {_,model}
  %one = constant value=1 dtype=i64 shape=[] : i64[] of i64[] {}
  %n1 = add %n, %one : i64[] of i64[] {}
  %w1, %m1, %v1 = adam_update %w, %G, %m, %v, %n1 learning_rate=0.01
      : f32[40,100] of f32[40,300] {_,model}, f32[40,100] of f32[40,300] {_,model},
        f32[40,100] of f32[40,300] {_,model}
  %s = reduce_scatter %p axes=(model) dim=0 op=sum : f32[17,64] of f32[101,64] {(batch,model),_}
  %z = all_gather %s axes=(model) dim=0 : f32[51,64] of f32[101,64] {batch,_}
  %q = all_to_all %s axes=(model) from=0 to=1 : f32[51,22] of f32[101,64] {batch,model}
  update %w = %w1
  update %m = %m1
  update %v = %v1
  update %n = %n1
  return y=%y, z=%z, q=%q, h=%h
})";

TEST(ExecutorTest, LargeStepsAreCutWithoutChangingABit) {
  const Program program = ParseProgram(kLarge);
  const Tensors feeds = {{"x", Rough({F32, {101, 40}})}};
  const Tensors initial = {{"w", Rough({F32, {40, 300}})}, {"u", Rough({F32, {300, 64}})}};
  const RunResult run = RunProgram(program, feeds, initial, {1, true, false, false}, 3);
  ASSERT_EQ(run.outputs.size(), 4u);
  // Two ways to the same sums.
  EXPECT_TRUE(BitwiseEqual(run.outputs.at("y"), run.outputs.at("z")));
  EXPECT_TRUE(BitwiseEqual(run.outputs.at("y"), run.outputs.at("q")));
  ExpectBitwiseTheSameHoweverItRuns(program, feeds, initial);
}

TEST(ExecutorTest, SharingComputesOnceWhatIsTheSame) {
  const Program program = ParseProgram(kTraining);
  CpuBackend backend(1);
  for (bool share : {true, false}) {
    std::map<std::string, DTensor> state;
    auto executor =
        Executor::Create(program, backend, {.share = share, .coalesce = false, .fuse = false}, &state)
            .value();
    const int64_t copies = share ? 1 : 4;
    // w, m, v are 120 bytes, n is 8.
    EXPECT_EQ(executor->memory().variable_bytes, copies * (3 * 120 + 8));
    EXPECT_EQ(executor->memory().num_barriers, 0);  // a single worker waits for nobody
    EXPECT_EQ(executor->memory().shared_bytes, 0);
    for (const Instruction& instruction : ScheduleOf(*executor).instructions) {
      if (instruction.node < 0) continue;
      const std::string_view op = program.body.nodes()[instruction.node].row->name;
      if (op == "adam_update") {
        EXPECT_EQ(instruction.slices[0].size(), static_cast<size_t>(copies));
      }
      if (op == "matmul") {
        EXPECT_EQ(instruction.slices[0].size(), 4u);
      }
    }
  }
}

// ---- Variables.

RunResult RunUpdates(std::string_view updates, const RunMode& mode) {
  const Program program = ParseProgram(fmt::format(R"(mesh [x=2, y=2]
func step(%i: f32[2] of f32[3] {{x}}, var %a: f32[2] of f32[3] {{x}}, var %b: f32[2] of f32[3] {{x}},
          var %c: f32[2] of f32[3] {{x}}) {{
  {}
}})",
                                                   updates));
  return RunProgram(program, {{"i", Tensor::From<float>({3}, {7, 8, 9})}},
                    {{"a", Tensor::From<float>({3}, {1, 2, 3})},
                     {"b", Tensor::From<float>({3}, {10, 20, 30})},
                     {"c", Tensor::From<float>({3}, {100, 200, 300})}},
                    mode);
}

struct UpdateCase {
  std::string_view text;
  std::vector<float> a, b, c;  // after the step
  std::vector<float> output = {};
};

TEST(ExecutorTest, ReadsSeeTheOldValueUnlessTheyReadTheNewOne) {
  const UpdateCase cases[] = {
      {"update %a = %b\n update %b = %a", {10, 20, 30}, {1, 2, 3}, {100, 200, 300}},
      {"update %a = %b\n update %b = %c\n update %c = %a", {10, 20, 30}, {100, 200, 300}, {1, 2, 3}},
      {"update %a = %a\n update %b = %a", {1, 2, 3}, {1, 2, 3}, {100, 200, 300}},
      {"update %a = %b\n update %c = %b", {10, 20, 30}, {10, 20, 30}, {10, 20, 30}},
      {"update %a = %i\n update %c = %a", {7, 8, 9}, {10, 20, 30}, {1, 2, 3}},
      // In place.
      {"%n = add %a, %b : f32[2] of f32[3] {x}\n update %a = %n\n return y=%n",
       {11, 22, 33},
       {10, 20, 30},
       {100, 200, 300},
       {11, 22, 33}},
      // The old value is read after the new one is known.
      {"%n = neg %a : f32[2] of f32[3] {x}\n %m = add %a, %n : f32[2] of f32[3] {x}\n update %a = %n\n "
       "return y=%m",
       {-1, -2, -3},
       {10, 20, 30},
       {100, 200, 300},
       {0, 0, 0}},
      // The old value is an output, and another variable's new value.
      {"%n = neg %a : f32[2] of f32[3] {x}\n update %a = %n\n return y=%a",
       {-1, -2, -3},
       {10, 20, 30},
       {100, 200, 300},
       {1, 2, 3}},
      {"%n = neg %a : f32[2] of f32[3] {x}\n update %a = %n\n update %b = %a",
       {-1, -2, -3},
       {1, 2, 3},
       {100, 200, 300}},
      // One new value for two variables, and a second one made of it.
      {"%n = add %a, %i : f32[2] of f32[3] {x}\n %m = add %n, %c : f32[2] of f32[3] {x}\n"
       "update %a = %n\n update %b = %n\n update %c = %m",
       {8, 10, 12},
       {8, 10, 12},
       {108, 210, 312}},
      // A chain whose links could each be written over the last.
      {"%n = neg %a : f32[2] of f32[3] {x}\n %m = neg %n : f32[2] of f32[3] {x}\n"
       "%o = add %m, %b : f32[2] of f32[3] {x}\n update %a = %o\n update %b = %m",
       {11, 22, 33},
       {1, 2, 3},
       {100, 200, 300}},
      // The new value does not depend on the old one.
      {"%n = neg %i : f32[2] of f32[3] {x}\n update %a = %n", {-7, -8, -9}, {10, 20, 30}, {100, 200, 300}},
      // An input is never written over, though nobody needs it any more.
      {"%n = neg %i : f32[2] of f32[3] {x}\n return y=%n",
       {1, 2, 3},
       {10, 20, 30},
       {100, 200, 300},
       {-7, -8, -9}},
  };
  for (const UpdateCase& c : cases) {
    for (const RunMode& mode : AllRunModes()) {
      SCOPED_TRACE(fmt::format("{}\n{}", c.text, mode.ToString()));
      const RunResult run = RunUpdates(c.text, mode);
      EXPECT_TRUE(BitwiseEqual(run.variables.at("a"), Tensor::From<float>({3}, c.a)));
      EXPECT_TRUE(BitwiseEqual(run.variables.at("b"), Tensor::From<float>({3}, c.b)));
      EXPECT_TRUE(BitwiseEqual(run.variables.at("c"), Tensor::From<float>({3}, c.c)));
      if (!c.output.empty()) {
        EXPECT_TRUE(BitwiseEqual(run.outputs.at("y"), Tensor::From<float>({3}, c.output)));
      }
    }
  }
}

// Ops that read other elements than the one they write cannot work in the variable's own buffer.
TEST(ExecutorTest, NewValuesThatMixElementsAreWrittenAside) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(var %a: f32[2,2] {_,_}, var %b: i32[2,4] of i32[4,4] {x,_}, var %c: i32[4] of i32[4] {_}) {
  %a1 = transpose %a permutation=[1,0] : f32[2,2] of f32[2,2] {_,_}
  %t = transpose %b permutation=[1,0] : i32[4,2] of i32[4,4] {_,x}
  %b1 = all_to_all %t axes=(x) from=1 to=0 : i32[2,4] of i32[4,4] {x,_}
  %p = shard_slice %c axes=(x) dim=0 : i32[2] of i32[4] {x}
  %c1 = all_gather %p axes=(x) dim=0 : i32[4] of i32[4] {_}
  update %a = %a1
  update %b = %b1
  update %c = %c1
})");
  const Tensors initial = {
      {"a", Tensor::From<float>({2, 2}, {1, 2, 3, 4})}, {"b", Ramp({I32, {4, 4}})}, {"c", Ramp({I32, {4}})}};
  for (const RunMode& mode : AllRunModes()) {
    SCOPED_TRACE(mode.ToString());
    const RunResult run = RunProgram(program, {}, initial, mode);
    EXPECT_THAT(run.variables.at("a").values<float>(), ElementsAre(1, 3, 2, 4));
    EXPECT_THAT(run.variables.at("b").values<int32_t>(),
                ElementsAre(1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 4, 8, 12, 16));
    EXPECT_TRUE(BitwiseEqual(run.variables.at("c"), initial.at("c")));
  }
}

// Random elementwise programs against a direct evaluation: what is written over what must never show.
TEST(ExecutorTest, RandomProgramsAgreeWithDirectEvaluation) {
  std::mt19937 random(1);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 150; ++round) {
    constexpr int kVariables = 4;
    const std::string type = "f32[2] of f32[3] {x}";
    std::string text = fmt::format("mesh [x=2, y=2]\nfunc step(%v0: {}", type);
    std::vector<std::vector<float>> values = {{1, 2, 3}};  // v0 is an input
    Tensors initial;
    for (int v = 1; v <= kVariables; ++v) {
      text += fmt::format(", var %v{}: {}", v, type);
      values.push_back({10.0f * v, 20.0f * v, 30.0f * v});
      initial[fmt::format("v{}", v)] = Tensor::From<float>({3}, values.back());
    }
    text += ") {\n";
    for (size_t n = 0; n < 1 + pick(8); ++n) {
      const size_t a = pick(values.size()), b = pick(values.size());
      const bool negate = pick(3) == 0;
      text += negate ? fmt::format("  %v{} = neg %v{} : {}\n", values.size(), a, type)
                     : fmt::format("  %v{} = sub %v{}, %v{} : {}\n", values.size(), a, b, type);
      std::vector<float> result(3);
      for (int i = 0; i < 3; ++i) result[i] = negate ? -values[a][i] : values[a][i] - values[b][i];
      values.push_back(std::move(result));
    }
    Tensors expected = initial;
    for (int v = 1; v <= kVariables; ++v) {
      if (pick(4) == 0) continue;
      const size_t value = pick(values.size());
      text += fmt::format("  update %v{} = %v{}\n", v, value);
      expected[fmt::format("v{}", v)] = Tensor::From<float>({3}, values[value]);
    }
    const size_t output = pick(values.size());
    text += fmt::format("  return y=%v{}\n}}", output);
    for (const RunMode& mode : {RunMode{1, true}, RunMode{2, true}, RunMode{3, false}}) {
      SCOPED_TRACE(text + "\n" + mode.ToString());
      const RunResult run =
          RunProgram(ParseProgram(text), {{"v0", Tensor::From<float>({3}, {1, 2, 3})}}, initial, mode);
      ExpectBitwiseEqual(run.variables, expected);
      ASSERT_TRUE(BitwiseEqual(run.outputs.at("y"), Tensor::From<float>({3}, values[output])));
    }
  }
}

// Of every kind of group: rows, columns, products, sums over devices.
TEST(ExecutorTest, RandomProgramsAgreeWithDirectEvaluationHoweverTheyRun) {
  std::mt19937 random(2);
  for (int round = 0; round < (LongTests() ? 60 : 12); ++round) {
    const RandomProgram drawn = ProgramDraw(random).Make();
    SCOPED_TRACE(drawn.text);
    for (const RunMode& mode : AllRunModes()) {
      SCOPED_TRACE(mode.ToString());
      const RunResult run = RunProgram(ParseProgram(drawn.text), drawn.feeds, drawn.initial, mode);
      ExpectEqualValues(run.outputs, drawn.outputs);
      ExpectEqualValues(run.variables, drawn.variables);
    }
  }
}

// Their numbers rough, so that sums show the order of their terms.
TEST(ExecutorTest, RandomProgramsAreBitwiseTheSameOnAnyNumberOfWorkers) {
  std::mt19937 random(3);
  const auto rough = [](const Tensors& tensors) {
    Tensors rough;
    for (const auto& [name, tensor] : tensors) rough[name] = Rough(tensor.type());
    return rough;
  };
  for (int round = 0; round < (LongTests() ? 20 : 6); ++round) {
    const RandomProgram drawn = ProgramDraw(random).Make();
    SCOPED_TRACE(drawn.text);
    ExpectBitwiseTheSameHoweverItRuns(ParseProgram(drawn.text), rough(drawn.feeds), rough(drawn.initial));
  }
}

TEST(ExecutorTest, ProgramsShareVariablesByName) {
  const Program init = ParseProgram(R"(mesh [x=2]
func init(var %w: f32[2] of f32[4] {x}) {
  %n = iota dim=0 shape=[2] : f32[2] of f32[4] {x}
  update %w = %n
})");
  const Program step = ParseProgram(R"(mesh [x=2]
func step(var %w: f32[2] of f32[4] {x}, var %k: f32[2] of f32[4] {x}) {
  %n = add %w, %w : f32[2] of f32[4] {x}
  update %w = %n
  return %n, k=%k
})");
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  auto first = Executor::Create(init, backend, {}, &state).value();
  auto second = Executor::Create(step, backend, {}, &state).value();
  EXPECT_EQ(state.size(), 2u);
  Tensors outputs;
  ASSERT_TRUE(first->Run({}, nullptr).ok());
  ASSERT_TRUE(second->Run({}, nullptr).ok());
  ASSERT_TRUE(second->Run({}, &outputs).ok());
  EXPECT_THAT(outputs.at("0").values<float>(),
              ElementsAre(0, 4, 8, 12));  // outputs without a name have a number
  EXPECT_THAT(outputs.at("k").values<float>(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Unpack(state.at("w")).value().values<float>(), ElementsAre(0, 4, 8, 12));
}

TEST(ExecutorTest, SharedAndPerDeviceStateMix) {
  const Program program = ParseProgram(R"(mesh [x=2, y=2]
func step(var %w: f32[2] of f32[3] {x}) {
  %n = add %w, %w : f32[2] of f32[3] {x}
  update %w = %n
  return y=%n
})");
  for (bool state_shares : {true, false}) {
    for (bool share : {true, false}) {
      CpuBackend backend(2);
      std::map<std::string, DTensor> state;
      state["w"] = DTensor(CpuMemory(), {F32, {3}}, *program.body.value(0).layout, state_shares);
      ASSERT_TRUE(Pack(Tensor::From<float>({3}, {1, 2, 3}), state["w"]).ok());
      auto executor = Executor::Create(program, backend, {.share = share}, &state).value();
      ASSERT_TRUE(executor->Run({}, nullptr).ok());
      EXPECT_THAT(Unpack(state.at("w"), /*check_replicas=*/true).value().values<float>(),
                  ElementsAre(2, 4, 6));
    }
  }
}

TEST(ExecutorTest, VariablesMustBeDeclaredAlike) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(var %fresh: f32[] {}, var %w: f32[2] of f32[4] {x}) {
  return w=%w, f=%fresh
})");
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  state["w"] = DTensor(CpuMemory(), {F32, {4}}, Layout::Replicated(program.body.mesh(), 1));
  EXPECT_EQ(
      MessageOf(Executor::Create(program, backend, {}, &state).status()),
      "Executor: variable \"w\" is f32[4] {x} on [x=2] in the program and f32[4] {_} on [x=2] in the state; "
      "programs that share a variable must declare it alike.");
  EXPECT_EQ(state.count("fresh"), 0u);
}

// ---- Feeds.

constexpr std::string_view kFeeds = R"(mesh [x=2]
func step(%image: f32[3,2] of f32[6,2] {x,_}, %label: i32[3] of i32[6] {x}, var %count: f32[] {}) {
  %one = constant value=1 shape=[] : f32[] of f32[] {}
  %n = add %count, %one : f32[] of f32[] {}
  update %count = %n
  return image=%image, label=%label
})";

TEST(ExecutorTest, WrongFeedsAreFoundBeforeAnythingRuns) {
  const Tensor image = Ramp({F32, {6, 2}}), label = Ramp({I32, {6}});
  const std::pair<Tensors, std::string> cases[] = {
      {{{"image", image}},
       "Run: feed \"label\" is missing; step(image: f32[6,2], label: i32[6]) takes every input at every "
       "step."},
      {{{"imgae", image}, {"label", label}},
       "Run: feed \"imgae\" is no input of step(image: f32[6,2], label: i32[6]); did you mean \"image\"?"},
      {{{"image", image}, {"label", label}, {"weights", image}},
       "Run: feed \"weights\" is no input of step(image: f32[6,2], label: i32[6])."},
      {{{"image", image}, {"label", label}, {"count", image}},
       "Run: feed \"count\" is a variable; the program keeps its value; set it between steps (Session::Set, "
       "or Pack)."},
      {{{"image", Ramp({F32, {5, 2}})}, {"label", label}},
       "Run: feed \"image\" is f32[5,2]; the program takes f32[6,2], compile it for this shape or feed that "
       "one."},
      {{{"image", Ramp({F64, {6, 2}})}, {"label", label}},
       "Run: feed \"image\" is f64[6,2]; the program takes f32[6,2], convert it or cast inside the program."},
      {{{"image", Tensor()}, {"label", label}},
       "Run: feed \"image\": Tensor: it has no elements yet; a default-constructed Tensor is empty."},
  };
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(ParseProgram(kFeeds), backend, {}, &state).value();
  for (const auto& [feeds, message] : cases) {
    Tensors outputs = {{"before", image}};
    EXPECT_EQ(MessageOf(executor->Run(feeds, &outputs)), message);
    EXPECT_EQ(outputs.size(), 1u);
  }
  EXPECT_EQ(Unpack(state.at("count")).value().Scalar().value(), 0);
  Tensors outputs;
  EXPECT_EQ(MessageOf(executor->Run({{"image", image}, {"label", label}}, &outputs)), "");
  EXPECT_TRUE(BitwiseEqual(outputs.at("image"), image));
  EXPECT_EQ(Unpack(state.at("count")).value().Scalar().value(), 1);
}

TEST(ExecutorTest, FeedsMayBeViewsAndChangeBetweenSteps) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(%a: i32[3,2] of i32[5,2] {x,_}, %b: i32[5,1] of i32[5,2] {_,x}) {
  %c = neg %a : i32[3,2] of i32[5,2] {x,_}
  return c=%c, b=%b
})");
  for (const RunMode& mode : AllRunModes()) {
    CpuBackend backend(mode.workers);
    std::map<std::string, DTensor> state;
    auto executor = Executor::Create(program, backend,
                                     {.share = mode.share,
                                      .coalesce = mode.coalesce,
                                      .fuse = mode.fuse,
                                      .poison_padding = mode.poison},
                                     &state)
                        .value();
    const Tensor data = Ramp({I32, {20, 2}});
    const Tensor before = Ramp({I32, {20, 2}});
    Tensors outputs;
    for (int64_t batch = 0; batch < 4; ++batch) {
      const Tensor rows = data.Rows(5 * batch, 5 * batch + 5);
      ASSERT_EQ(MessageOf(executor->Run({{"a", rows}, {"b", rows}}, &outputs)), "");
      for (int64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(outputs.at("c").values<int32_t>()[i], -(10 * batch + i + 1));
        EXPECT_EQ(outputs.at("b").values<int32_t>()[i], 10 * batch + i + 1);
      }
    }
    EXPECT_TRUE(BitwiseEqual(data, before)) << "feeds are only read";
  }
}

// The block of the second device begins behind two rows of factors, not behind two elements.
TEST(ExecutorTest, FeedsOfStridedDimsAreViewedWhereTheirBlocksLie) {
  const Program program = ParseProgram(R"(mesh [x=2]
func f(%a: f32[4] of f32[8] {4@x*2}) {
  %0 = neg %a : f32[4] of f32[8] {4@x*2}
  return y=%0
})");
  for (const RunMode& mode : AllRunModes()) {
    const Tensor y = RunProgram(program, {{"a", Ramp({F32, {8}})}}, {}, mode).outputs.at("y");
    EXPECT_THAT(y.values<float>(), ElementsAre(-1, -2, -3, -4, -5, -6, -7, -8)) << mode.ToString();
  }
}

TEST(ExecutorTest, EmptyAndScalarTensorsPass) {
  const Program program = ParseProgram(R"(mesh [x=4]
func step(%e: f32[0,2] of f32[0,2] {x,_}, %s: f64[] {}, %o: f32[1] of f32[2] {x}) {
  %n = neg %e : f32[0,2] of f32[0,2] {x,_}
  %t = neg %s : f64[] of f64[] {}
  %g = all_gather %o axes=(x) dim=0 : f32[2] of f32[2] {_}
  return n=%n, t=%t, g=%g
})");
  const Tensors feeds = {{"e", Tensor({F32, {0, 2}})},
                         {"s", Tensor::From<double>({}, {2.5})},
                         {"o", Tensor::From<float>({2}, {1, 2})}};
  for (const RunMode& mode : AllRunModes()) {
    const RunResult run = RunProgram(program, feeds, {}, mode);
    EXPECT_EQ(run.outputs.at("n").shape(), (Shape{0, 2}));
    EXPECT_EQ(run.outputs.at("t").Scalar().value(), -2.5);
    EXPECT_TRUE(BitwiseEqual(run.outputs.at("g"), feeds.at("o")));
  }
}

// ---- Poison.

TEST(ExecutorTest, PoisonAndComparisonsAreOnInDebugBuildsOnly) {
  EXPECT_EQ(ExecutorOptions().poison_padding, kDebugBuild);
  EXPECT_EQ(ExecutorOptions().check_replicas, kDebugBuild);
  EXPECT_FALSE(ExecutorOptions().profile);
}

// Sums over a padded dim without a mask: of an input, and of a variable that was never packed.
TEST(ExecutorTest, PoisonShowsThatPaddingIsRead) {
  const Program program = ParseProgram(R"(mesh [x=4]
func step(%a: f32[3] of f32[10] {x}, var %w: f32[3] of f32[10] {x}) {
  %p = reduce_sum %a dims=[0] : f32[] of f32[] {| sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[] of f32[] {}
  %q = reduce_sum %w dims=[0] : f32[] of f32[] {| sum:x}
  %t = all_reduce %q axes=(x) op=sum : f32[] of f32[] {}
  return s=%s, t=%t
})");
  for (bool share : {true, false}) {
    const RunResult poisoned = RunProgram(program, {{"a", Ramp({F32, {10}})}}, {}, {2, share, true});
    EXPECT_TRUE(std::isnan(poisoned.outputs.at("s").Scalar().value()));
    EXPECT_TRUE(std::isnan(poisoned.outputs.at("t").Scalar().value()));
  }
}

TEST(ExecutorTest, PoisonFillsThePaddingOfVariablesBeforeEachStep) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(var %w: i32[2] of i32[3] {x}, var %v: i32[2] of i32[3] {x}) {
  %c = constant value=5 dtype=i32 shape=[2] : i32[2] of i32[3] {x}
  update %v = %c
})");
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(program, backend, {.poison_padding = true}, &state).value();
  const auto padding = [&](const char* name) {
    return reinterpret_cast<const int32_t*>(state.at(name).instance(1))[1];
  };
  ASSERT_TRUE(executor->Run({}, nullptr).ok());
  EXPECT_EQ(padding("w"), -1);
  reinterpret_cast<int32_t*>(state.at("w").instance(1))[1] = 7;
  ASSERT_TRUE(executor->Run({}, nullptr).ok());
  EXPECT_EQ(padding("w"), -1);
  EXPECT_THAT(Unpack(state.at("w")).value().values<int32_t>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(Unpack(state.at("v")).value().values<int32_t>(), ElementsAre(5, 5, 5));
}

TEST(ExecutorTest, ManyVirtualDevicesRun) {
  const Program program = ParseProgram(R"(mesh [x=512]
func step(%i: i64[2] of i64[1000] {x}) {
  %m = mask_padding %i dims=[0] op=sum : i64[2] of i64[1000] {x}
  %p = reduce_sum %m dims=[0] : i64[] of i64[] {| sum:x}
  %s = all_reduce %p axes=(x) op=sum : i64[] of i64[] {}
  return s=%s
})");
  for (int workers : {1, 3}) {
    const RunResult run = RunProgram(program, {{"i", Ramp({I64, {1000}})}}, {}, {workers});
    EXPECT_EQ(run.outputs.at("s").Scalar().value(), 500500);
  }
}

}  // namespace
}  // namespace meshwork
