// kernels/<what>/<level>: one core in its L1 cache, for each level (base/cpu_dispatch.h) that this CPU has;
// elements per second, of the largest operand. <what> is a row of the table of ops, or several rows that run
// one after the other, like the nodes of a program.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/measure.h"
#include "meshwork.h"
#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/ops.h"

namespace meshwork::kernels_benchmark {
namespace {

constexpr int64_t kSize = 2048, kRows = 2, kColumns = 1000;

// Declares an operand.
using Declare = std::function<Value(const char* name, const Shape& shape)>;

struct Case {
  const char* name;
  Value (*build)(const Declare& operand);
};

Value Vector(const Declare& operand, const char* name = "x") { return operand(name, {kSize}); }
Value Matrix(const Declare& operand) { return operand("x", {kRows, kColumns}); }

const Case kCases[] = {
    {"add", [](const Declare& d) { return Add(Vector(d, "x"), Vector(d, "y")); }},
    {"mul_add", [](const Declare& d) { return Add(Mul(Vector(d, "x"), Vector(d, "y")), Vector(d, "z")); }},
    {"div", [](const Declare& d) { return Div(Vector(d, "x"), Vector(d, "y")); }},
    {"sqrt", [](const Declare& d) { return Sqrt(Vector(d)); }},
    {"relu", [](const Declare& d) { return Relu(Vector(d)); }},
    {"maximum", [](const Declare& d) { return Maximum(Vector(d, "x"), Vector(d, "y")); }},
    {"greater_select",
     [](const Declare& d) { return Select(Greater(Vector(d, "x"), 1.0), Vector(d, "y"), 0.0); }},
    {"exp", [](const Declare& d) { return Exp(Vector(d)); }},
    {"expm1", [](const Declare& d) { return Expm1(Vector(d)); }},
    {"log", [](const Declare& d) { return Log(Vector(d)); }},
    {"log1p", [](const Declare& d) { return Log1p(Vector(d)); }},
    {"tanh", [](const Declare& d) { return Tanh(Vector(d)); }},
    {"sigmoid", [](const Declare& d) { return Sigmoid(Vector(d)); }},
    {"softplus", [](const Declare& d) { return Softplus(Vector(d)); }},
    {"erf", [](const Declare& d) { return Erf(Vector(d)); }},
    {"gelu", [](const Declare& d) { return Gelu(Vector(d)); }},
    {"gelu_tanh", [](const Declare& d) { return Gelu(Vector(d), GeluForm::kTanh); }},
    {"sin", [](const Declare& d) { return Sin(Vector(d)); }},
    {"cast_to_bf16", [](const Declare& d) { return Cast(Vector(d), BF16); }},
    {"reduce_sum_of_rows", [](const Declare& d) { return ReduceSum(Matrix(d), {1}); }},
    {"reduce_max_of_rows", [](const Declare& d) { return ReduceMax(Matrix(d), {1}); }},
    {"reduce_sum_of_short_rows",
     [](const Declare& d) {
       return ReduceSum(d("x", {200, 10}), {1});
     }},
    {"reduce_sum_of_columns",
     [](const Declare& d) {
       return ReduceSum(d("x", {16, 128}), {0});
     }},
    {"argmax_of_rows", [](const Declare& d) { return Argmax(Matrix(d), 1); }},
    {"argmax_of_columns",
     [](const Declare& d) {
       return Argmax(d("x", {16, 128}), 0);
     }},
    {"add_to_rows", [](const Declare& d) { return Add(Matrix(d), d("y", {kColumns})); }},
    {"div_by_columns",
     [](const Declare& d) {
       return Div(Matrix(d), d("y", {kRows, 1}));
     }},
    {"add_to_short_rows",
     [](const Declare& d) {
       return Add(d("x", {200, 10}), d("y", {10}));
     }},
    {"sub_from_short_rows",
     [](const Declare& d) {
       return Sub(d("x", {200, 10}), d("y", {200, 1}));
     }},
    {"transpose",
     [](const Declare& d) {
       return Transpose(d("x", {32, 64}), {1, 0});
     }},
    {"softmax", [](const Declare& d) { return Softmax(Matrix(d), -1); }},
    {"layer_norm",
     [](const Declare& d) { return LayerNorm(Matrix(d), d("scale", {kColumns}), d("offset", {kColumns})); }},
    {"adam", [](const Declare& d) {
       const Value w = d("w", {1024}), g = d("g", {1024}), m = d("m", {1024}), v = d("v", {1024});
       return AdamUpdate(w, g, m, v, Cast(Add(d("t", {}), 1.0), I64), 1e-3, 0.9, 0.999, 1e-8).weight;
     }}};

// A kernel and its operands, which live as long as the kernel.
struct Step {
  Kernel kernel;
  std::vector<Tensor> operands, results;
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<Block> in_blocks, out_blocks;

  void Run() const {
    kernel.run({.in = in,
                .out = out,
                .in_blocks = in_blocks,
                .out_blocks = out_blocks,
                .begin = 0,
                .end = kernel.units});
  }
};

Step MakeStep(const Node& node, std::vector<Tensor> operands, std::vector<Tensor> results) {
  Step step;
  KernelSpec spec{.attrs = node.attrs};
  auto whole = [](const Type& type) {
    Block block;
    for (const int64_t size : type.shape) block.push_back({0, size});
    return block;
  };
  for (const Tensor& operand : operands) {
    spec.operands.push_back({operand.type(), operand.type()});
    step.in.push_back(operand.raw());
    step.in_blocks.push_back(whole(operand.type()));
  }
  for (Tensor& result : results) {
    spec.results.push_back({result.type(), result.type()});
    step.out.push_back(result.raw());
    step.out_blocks.push_back(whole(result.type()));
  }
  step.kernel = CpuKernelOf(*node.row)(spec);
  step.operands = std::move(operands), step.results = std::move(results);
  return step;
}

// Results reuse the memory of values of their type that are no longer read.
std::vector<Step> MakeSteps(const Graph& graph, std::map<ValueId, Tensor> values) {
  std::map<ValueId, size_t> last_read;  // of values that are results
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    for (const ValueId id : graph.nodes()[i].operands)
      if (!values.contains(id)) last_read[id] = i;
  std::vector<Tensor> unused;
  std::vector<Step> steps;
  for (const Node& node : graph.nodes()) {
    std::vector<Tensor> operands, results;
    for (const ValueId id : node.operands) operands.push_back(values.at(id));
    for (const ValueId id : node.results) {
      const Type& type = graph.value(id).type;
      const auto found = std::find_if(unused.begin(), unused.end(),
                                      [&](const Tensor& tensor) { return tensor.type() == type; });
      results.push_back(found == unused.end() ? Tensor::Zeros(type) : *found);
      if (found != unused.end()) unused.erase(found);
      values[id] = results.back();
    }
    for (const auto& [id, reader] : last_read)
      if (reader == steps.size()) unused.push_back(values.at(id));
    steps.push_back(MakeStep(node, std::move(operands), std::move(results)));
  }
  return steps;
}

absl::Status Measure(benchmark::State& state, const Case& c, CpuLevel level) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(""));
  Graph graph(mesh);
  const Value result = c.build([&](const char* name, const Shape& shape) {
    return graph.Input(name, F32, shape, std::vector<DimSpec>(shape.size(), UNSHARDED));
  });
  graph.Output("result", result);
  MESHWORK_RETURN_IF_ERROR(graph.status());

  std::map<ValueId, Tensor> values;
  int64_t elements = 0;
  for (const Argument& argument : graph.arguments()) {
    Tensor& tensor = values[argument.value] = Tensor::Zeros(graph.value(argument.value).type);
    const std::span<float> numbers = tensor.mutable_values<float>();
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.25f + static_cast<float>(i * 37 % 101) / 50;
    elements = std::max(elements, tensor.num_elements());
  }
  const std::vector<Step> steps = MakeSteps(graph, std::move(values));

  const CpuLevel before = UsedCpuLevel();
  UseCpuLevel(level);
  for (auto _ : state) {
    for (const Step& step : steps) step.Run();
    benchmark::ClobberMemory();
  }
  UseCpuLevel(before);
  state.SetItemsProcessed(state.iterations() * elements);
  return absl::OkStatus();
}

const bool kRegistered = [] {
  for (const Case& c : kCases) {
    for (int level = static_cast<int>(BestCpuLevel()); level >= 0; --level) {
      const auto used = static_cast<CpuLevel>(level);
      benchmark::RegisterBenchmark(fmt::format("kernels/{}/{}", c.name, CpuLevelName(used)).c_str(),
                                   [&c, used](benchmark::State& state) {
                                     const absl::Status status = Measure(state, c, used);
                                     if (!status.ok())
                                       state.SkipWithError(std::string(MessageOf(status)).c_str());
                                   });
    }
  }
  return true;
}();

}  // namespace
}  // namespace meshwork::kernels_benchmark
