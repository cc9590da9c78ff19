// Chains of reshapes and transposes on meshes whose axes lie across the ends of dims, so that the compiler
// cuts them (spmd/cut_mesh.h), beside the same programs on one device; padding is full of NaN.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/interpreter.h"
#include "support/long_tests.h"
#include "support/tensors.h"

namespace meshwork::random_reshapes_test {
namespace {

using Numbers = std::map<std::string, std::vector<double>>;

class ReshapeDrawer {
 public:
  explicit ReshapeDrawer(uint64_t seed) : engine_(seed), graph_(DrawMesh()) {
    const Shape shape = DrawShape();
    Value x = graph_.Input("x", F64, shape, SpecOf(DrawLayout(shape)));
    for (uint64_t step = 2 + Below(4); step > 0; --step) x = Draw(x);
    // Fed values are sharded along every axis, results sometimes are.
    if (Below(2) == 0) graph_.Pin(x, SpecOf(DrawLayout(x.type().shape)));
    graph_.Output("y", x);
  }

  const Graph& graph() const { return graph_; }

  Numbers Feeds() {
    std::vector<double> x;
    for (int64_t i = 0; i < kElements; ++i) x.push_back(static_cast<double>(engine_() % 33) / 16 - 1);
    return {{"x", std::move(x)}};
  }

 private:
  static constexpr int64_t kElements = 96;

  uint64_t Below(uint64_t n) { return engine_() % n; }

  Mesh DrawMesh() {
    constexpr const char* kMeshes[] = {"x=4", "x=6", "x=8", "y=2,x=4", "x=4,y=3", "x=12", "x=6,y=4", "x=2*4"};
    return Mesh::Parse(kMeshes[Below(std::size(kMeshes))]).value();
  }

  Shape DrawShape() {
    Shape shape;
    int64_t left = kElements;
    for (uint64_t dims = 1 + Below(3); dims > 0 && left > 1; --dims) {
      int64_t size = 1;
      for (int64_t prime : {2, 2, 3, 2})
        if (left % (size * prime) == 0 && Below(2) == 0) size *= prime;
      shape.push_back(size);
      left /= size;
    }
    shape.push_back(left);
    return shape;
  }

  Layout DrawLayout(const Shape& shape) {
    std::vector<AxisList> dims(shape.size());
    for (int axis = 0; axis < graph_.mesh().num_axes(); ++axis) dims[Below(dims.size())].push_back(axis);
    return Layout(graph_.mesh(), std::move(dims));
  }

  Value Draw(const Value& x) {
    switch (Below(4)) {
      case 0: {
        std::vector<int64_t> order(static_cast<size_t>(x.type().rank()));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), engine_);
        return Transpose(x, order);
      }
      case 1: return Tanh(x);
      default: return Reshape(x, DrawShape());
    }
  }

  std::mt19937_64 engine_;
  Graph graph_;
};

absl::StatusOr<Tensor> RunStep(const Program& program, const Numbers& feeds) {
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  MESHWORK_ASSIGN_OR_RETURN(auto executor,
                            Executor::Create(program, backend, {.poison_padding = true}, &state));
  const Type type = program.body.value(program.body.arguments()[0].value).global;
  std::map<std::string, Tensor> outputs;
  MESHWORK_RETURN_IF_ERROR(executor->Run({{"x", ToTensor(HostTensor(type, feeds.at("x")))}}, &outputs));
  return outputs.at("y");
}

int64_t Wire(const Graph& local) { return CostOf(local, {}).bytes; }

TEST(RandomReshapesTest, GiveTheOneDeviceResultAndACutSendsLess) {
  int cut = 0;
  for (uint64_t seed = 0; seed < (LongTests() ? 3000 : 300); ++seed) {
    ReshapeDrawer drawer(seed);
    const Graph& graph = drawer.graph();
    ASSERT_EQ(MessageOf(graph.status()), "") << seed;
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, PrintGraph(graph)));
    const absl::StatusOr<Program> program = Compile(graph);
    ASSERT_TRUE(program.ok()) << program.status();
    const Program without = Compile(graph, {.cut_mesh = false}).value();
    if (program->body.mesh() == graph.mesh()) {
      EXPECT_EQ(PrintGraph(program->body), PrintGraph(without.body));
    } else {
      // Fewer bytes before layouts are chosen: choose_layouts may find equally good ones on the uncut mesh.
      EXPECT_LE(Wire(program->body), Wire(without.body));
      ++cut;
    }
    const Numbers feeds = drawer.Feeds();
    const absl::StatusOr<Tensor> found = RunStep(*program, feeds);
    ASSERT_TRUE(found.ok()) << found.status();
    const std::vector<double> expected = Interpret(graph, feeds).outputs.at("y").Numbers();
    const std::vector<double> numbers = NumbersOf(*found);
    ASSERT_EQ(numbers.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(numbers[i], expected[i], 1e-12) << i;
  }
  EXPECT_GE(cut, 20);
}

}  // namespace
}  // namespace meshwork::random_reshapes_test
