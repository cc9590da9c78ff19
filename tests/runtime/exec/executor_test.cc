// The executor gives the numbers of one device, and the same bits for any number of workers, with and without
// sharing and fusion.
#include "meshwork/runtime/exec/executor.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/random_program.h"
#include "runtime/plan/schedules.h"
#include "support/long_tests.h"

namespace meshwork::executor_test {
namespace {

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

// The same training in double precision on one device, with the gradient without its factor of 2.
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

// Only coalescing decides the order in which sums are taken.
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

// The same with sizes that are large enough to be cut between workers, on a mesh of two axes: rows over
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
  // Two ways to compute the same sums.
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

// Random elementwise programs against a direct evaluation: reusing memory in place must not change results.
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
    for (const RunMode& mode :
         {RunMode{1, true}, RunMode{2, true}, RunMode{3, false}, RunMode{.workers = 2, .atomic = true}}) {
      SCOPED_TRACE(text + "\n" + mode.ToString());
      const RunResult run =
          RunProgram(ParseProgram(text), {{"v0", Tensor::From<float>({3}, {1, 2, 3})}}, initial, mode);
      ExpectBitwiseEqual(run.variables, expected);
      ASSERT_TRUE(BitwiseEqual(run.outputs.at("y"), Tensor::From<float>({3}, values[output])));
    }
  }
}

// Programs with every kind of group: rows, columns, products, sums over devices.
TEST(ExecutorTest, RandomProgramsAgreeWithDirectEvaluationHoweverTheyRun) {
  std::mt19937 random(2);
  for (int round = 0; round < (LongTests() ? 60 : 12); ++round) {
    const DrawnProgram drawn = ProgramDraw(random).Make();
    SCOPED_TRACE(drawn.text);
    for (const RunMode& mode : AllRunModes()) {
      SCOPED_TRACE(mode.ToString());
      const RunResult run = RunProgram(ParseProgram(drawn.text), drawn.feeds, drawn.initial, mode);
      ExpectEqualValues(run.outputs, drawn.outputs);
      ExpectEqualValues(run.variables, drawn.variables);
    }
  }
}

// Rough numbers, whose sums depend on the order of the terms.
TEST(ExecutorTest, RandomProgramsAreBitwiseTheSameOnAnyNumberOfWorkers) {
  std::mt19937 random(3);
  const auto rough = [](const Tensors& tensors) {
    Tensors rough;
    for (const auto& [name, tensor] : tensors) rough[name] = Rough(tensor.type());
    return rough;
  };
  for (int round = 0; round < (LongTests() ? 20 : 6); ++round) {
    const DrawnProgram drawn = ProgramDraw(random).Make();
    SCOPED_TRACE(drawn.text);
    ExpectBitwiseTheSameHoweverItRuns(ParseProgram(drawn.text), rough(drawn.feeds), rough(drawn.initial));
  }
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
}  // namespace meshwork::executor_test
