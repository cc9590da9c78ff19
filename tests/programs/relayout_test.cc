// Relayouts as the compiler plans them and the runtime runs them: from every layout of a tensor to every
// other, on padding full of NaN; the source also as a pending sum over an axis that it leaves free. Each is
// planned for the fewest bytes, and for the least time with a slow first axis. MESHWORK_LONG_TESTS=1 takes
// every pair; without it, every nth.
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "layout/all_layouts.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/long_tests.h"

namespace meshwork::relayout_test {
namespace {

constexpr std::string_view kRelayoutMeshes[] = {"a=2",     "a=3",         "a=4",   "a=2,b=2",
                                                "a=2,b=3", "a=2,b=2,c=2", "a=2*2", "a=2*3"};

// 1, 2, 3, …
Tensor Ramp(const Shape& shape) {
  Tensor tensor({F32, shape});
  float next = 0;
  for (float& x : tensor.mutable_values<float>()) x = ++next;
  return tensor;
}

// n tensors whose sum is exactly the ramp: small integers, and in the last one the ramp minus these.
Tensor Terms(const Shape& shape, int64_t n) {
  const int64_t size = NumElements(shape);
  Shape stacked = shape;
  stacked.insert(stacked.begin(), n);
  Tensor tensor({F32, stacked});
  std::span<float> terms = tensor.mutable_values<float>();
  for (int64_t e = 0; e < size; ++e) {
    float last = static_cast<float>(e + 1);
    for (int64_t k = 0; k + 1 < n; ++k)
      last -= terms[k * size + e] = static_cast<float>((e * 7 + k * 3) % 11);
    terms[(n - 1) * size + e] = last;
  }
  return tensor;
}

class Runner {
 public:
  // The result of a program x -> y for x, or an error.
  absl::StatusOr<std::vector<float>> Run(const Graph& graph, const Topology& topology, const Tensor& x) {
    absl::StatusOr<Program> program = Compile(graph, {.topology = topology});
    if (!program.ok()) return program.status();
    std::map<std::string, DTensor> variables;
    auto executor =
        Executor::Create(*program, backend_, {.poison_padding = true, .check_replicas = true}, &variables);
    if (!executor.ok()) return executor.status();
    std::map<std::string, Tensor> outputs;
    if (absl::Status status = (*executor)->Run({{"x", x}}, &outputs); !status.ok()) return status;
    const auto values = outputs.at("y").values<float>();
    return std::vector<float>(values.begin(), values.end());
  }

 private:
  CpuBackend backend_{1};
};

// x, laid out as `from`, relaid to `to`. With an `owed` axis, x has its terms along a first dim that the axis shards.
Graph RelayoutProgram(const Layout& from, const Layout& to, const Shape& shape, int owed) {
  Graph graph(from.mesh());
  LayoutSpec spec = SpecOf(from);
  Shape fed = shape;
  if (owed >= 0) {
    spec.insert(spec.begin(), DimSpec(from.mesh().NamesOf({owed})));
    fed.insert(fed.begin(), from.mesh().axis(owed).size);
  }
  Value x = graph.Input("x", F32, fed, spec);
  if (owed >= 0) x = ReduceSum(x, {0});
  graph.Output("y", Relayout(x, SpecOf(to)));
  return graph;
}

class RelayoutTest : public testing::TestWithParam<Shape> {};

TEST_P(RelayoutTest, EveryLayoutBecomesEveryOtherExactly) {
  const Shape& shape = GetParam();
  Runner runner;
  int64_t pair = 0;
  for (std::string_view text : kRelayoutMeshes) {
    const Mesh mesh = Mesh::Parse(text).value();
    const std::vector<Layout> layouts = AllWholeLayouts(mesh, static_cast<int>(shape.size()));
    const Tensor ramp = Ramp(shape);
    std::vector<Topology::AxisLink> links;
    for (const std::string& name : mesh.NamesOf({0})) links.push_back({name, {1e6, 1e-5}});
    for (int i = 1; i < mesh.num_axes(); ++i) links.push_back({mesh.axis(i).name, {2e7, 2e-6}});
    const Topology topologies[] = {Topology(), Topology::Create(mesh, links).value()};
    const std::vector<float> expected(ramp.values<float>().begin(), ramp.values<float>().end());
    for (const Layout& from : layouts) {
      for (const Layout& to : layouts) {
        for (int owed = -1; owed < mesh.num_axes(); ++owed) {
          if (owed >= 0 && from.ShardedAxes().Contains(owed)) continue;
          if (pair++ % EverySo(23) != 0) continue;
          const Tensor x = owed < 0 ? ramp : Terms(shape, mesh.axis(owed).size);
          for (const Topology& topology : topologies) {
            const auto found = runner.Run(RelayoutProgram(from, to, shape, owed), topology, x);
            ASSERT_TRUE(found.ok()) << found.status();
            ASSERT_EQ(*found, expected) << from.ToString() << " -> " << to.ToString() << " on "
                                        << mesh.ToString() << ", owed over axis " << owed;
          }
        }
      }
    }
  }
  RecordProperty("pairs", std::to_string(pair));
}

INSTANTIATE_TEST_SUITE_P(Shapes, RelayoutTest, testing::Values(Shape{12}, Shape{10, 7}, Shape{4, 6, 5}),
                         [](const auto& info) { return "Rank" + std::to_string(info.param.size()); });

}  // namespace
}  // namespace meshwork::relayout_test
