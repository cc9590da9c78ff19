// Weights that are kept in blocks and gathered for each use give the numbers of one device, in f64, on meshes
// and layouts of every kind; padding is full of NaN.
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/arguments.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork::gather_on_use_test {
namespace {

struct Variation {
  std::string name, mesh;
  std::string x, w1, w2;  // layouts of the batch and of the weights
  std::string b = "{_}";  // of the bias
  int64_t batch = 24;
  std::string moments = "";  // of the optimizer; "": as the weight
};

// Two layers with a bias, a penalty of the first weight, forward, backward and Adam.
std::string TextOf(const Variation& v) {
  auto moments = [&](const std::string& w) { return v.moments.empty() ? w : v.moments; };
  return fmt::format(R"(mesh [{mesh}]
func step(%x: f64[{batch},10] {x}, %y: f64[{batch},6] {x},
          var %w1: f64[10,14] {w1} gather=on_use, var %b: f64[14] {b} gather=on_use,
          var %w2: f64[14,6] {w2} gather=on_use,
          var %m1: f64[10,14] {m1}, var %v1: f64[10,14] {m1}, var %t: i64[] {{}}) {{
  %z1 = matmul %x, %w1
  %h1 = add %z1, %b
  %a1 = tanh %h1
  %h2 = matmul %a1, %w2
  %d2 = sub %h2, %y
  %e = square %d2
  %sum = reduce_sum %e dims=[0,1]
  %q = square %w1
  %penalty = reduce_sum %q dims=[0,1]
  %loss = add %sum, %penalty
  %g2 = matmul %a1, %d2 transpose_a=true
  %da = matmul %d2, %w2 transpose_b=true
  %one = constant value=1 dtype=f64 shape=[]
  %sq = square %a1
  %s = sub %one, %sq
  %d1 = mul %da, %s
  %gb = reduce_sum %d1 dims=[0]
  %gw = matmul %x, %d1 transpose_a=true
  %g1 = add %gw, %w1
  %dx = matmul %d1, %w1 transpose_b=true
  %tick = constant value=1 dtype=i64 shape=[]
  %now = add %t, %tick
  %new_w1, %new_m1, %new_v1 = adam_update %w1, %g1, %m1, %v1, %now learning_rate=0.01
  %lr = constant value=0.01 dtype=f64 shape=[]
  %u2 = mul %lr, %g2
  %new_w2 = sub %w2, %u2
  %ub = mul %lr, %gb
  %new_b = sub %b, %ub
  update %w1 = %new_w1
  update %m1 = %new_m1
  update %v1 = %new_v1
  update %w2 = %new_w2
  update %b = %new_b
  update %t = %now
  return loss=%loss, dx=%dx
}}
)",
                     fmt::arg("mesh", v.mesh), fmt::arg("batch", v.batch), fmt::arg("x", v.x),
                     fmt::arg("w1", v.w1), fmt::arg("w2", v.w2), fmt::arg("b", v.b),
                     fmt::arg("m1", moments(v.w1)));
}

const Variation kVariations[] = {
    {.name = "rows", .mesh = "x=2", .x = "{x,_}", .w1 = "{x,_}", .w2 = "{x,_}", .b = "{x}"},
    {.name = "columns", .mesh = "x=2", .x = "{x,_}", .w1 = "{_,x}", .w2 = "{_,x}", .b = "{x}"},
    {.name = "uneven", .mesh = "x=4", .x = "{x,_}", .w1 = "{x,_}", .w2 = "{x,_}", .b = "{x}", .batch = 23},
    {.name = "empty_shards", .mesh = "x=13", .x = "{x,_}", .w1 = "{x,_}", .w2 = "{x,_}", .b = "{x}"},
    {.name = "two_axes",
     .mesh = "host=2, device=3",
     .x = "{(host,device),_}",
     .w1 = "{(host,device),_}",
     .w2 = "{(host,device),_}",
     .b = "{(host,device)}"},
    {.name = "two_dims",
     .mesh = "host=2, device=3",
     .x = "{(host,device),_}",
     .w1 = "{host,device}",
     .w2 = "{device,host}",
     .b = "{device}"},
    {.name = "hybrid",
     .mesh = "host=2, device=4",
     .x = "{(host,device),_}",
     .w1 = "{device,_}",
     .w2 = "{device,_}"},
    {.name = "tensor_parallel",
     .mesh = "data=3, model=2",
     .x = "{data,_}",
     .w1 = "{data,model}",
     .w2 = "{(model,data),_}",
     .b = "{model}"},
    {.name = "kept_elsewhere",
     .mesh = "data=2, model=2",
     .x = "{data,_}",
     .w1 = "{_,(data,model)}",
     .w2 = "{model,data}",
     .b = "{(model,data)}",
     .moments = "{data,model}"},
    {.name = "sub_axes",
     .mesh = "x=4",
     .x = "{x,_}",
     .w1 = "{x:(1)2,_}",
     .w2 = "{x:(2)2,x:(1)2}",
     .b = "{x}"},
    {.name = "no_batch", .mesh = "x=2", .x = "{_,_}", .w1 = "{x,_}", .w2 = "{_,x}"},
};

double Largest(const std::vector<double>& numbers) {
  double largest = 1;
  for (double x : numbers) largest = std::max(largest, std::abs(x));
  return largest;
}

void ExpectClose(const std::string& name, const Tensor& found, const HostTensor& expected) {
  const std::vector<double> a = NumbersOf(found), b = expected.Numbers();
  ASSERT_EQ(a.size(), b.size()) << name;
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-12 * Largest(b)) << name << "[" << i << "]";
}

class GatherOnUseProgramTest : public testing::TestWithParam<Variation> {};

TEST_P(GatherOnUseProgramTest, GivesTheOneDeviceResult) {
  const Graph graph = ParseGraph(TextOf(GetParam())).value();
  const Program program = Compile(graph, {.replication_budget = 0}).value();
  const NumbersByName numbers = DrawNumbers(graph, /*seed=*/5, [](Random& random, DType dtype, int64_t) {
    return dtype == I64 ? 3 : random.Uniform(0.1, 1);
  });
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  const auto executor =
      Executor::Create(program, backend, {.poison_padding = true, .check_replicas = true}, &state).value();
  std::map<std::string, Tensor> outputs;
  ASSERT_TRUE(executor->Run(PackArguments(graph, numbers, state).value(), &outputs).ok());
  const InterpretedStep expected = Interpret(graph, numbers);
  for (const auto& [name, value] : expected.outputs) ExpectClose(name, outputs.at(name), value);
  for (const auto& [name, value] : expected.variables)
    ExpectClose(name, Unpack(state.at(name), /*check_replicas=*/true).value(), value);
}

INSTANTIATE_TEST_SUITE_P(Layouts, GatherOnUseProgramTest, testing::ValuesIn(kVariations),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::gather_on_use_test
