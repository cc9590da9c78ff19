// Operands that owe sums over different axes: products of products of one tensor, with any pins.
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "support/small_drawer.h"

namespace meshwork::owing_products_test {
namespace {

class Drawer {
 public:
  explicit Drawer(uint64_t seed)
      : engine_(seed), graph_(Mesh::Parse(Below(2) == 0 ? "x=2,y=4" : "x=2,y=2,z=2").value()) {}

  Graph Draw() && {
    const int64_t n = Size(), k = Size(), m = Size();
    const Value a = graph_.Input("a", F32, {n, k, m});
    Pin(a);
    const Value b = Product(a, a, /*transpose=*/true), c = Product(a, a, /*transpose=*/true);
    const Value d = Below(2) == 0 ? Product(c, b) : c + b;
    const Value r = Below(2) == 0 ? ReduceMax(d, {0, 1}) : ReduceSum(Below(2) == 0 ? d * b : d, {2});
    graph_.AddOutput({"r", r.id()});
    return std::move(graph_);
  }

 private:
  uint64_t Below(uint64_t n) { return engine_() % n; }
  int64_t Size() { return std::array<int64_t, 6>{1, 2, 3, 4, 5, 8}[Below(6)]; }

  Value Product(const Value& x, const Value& y, bool transpose = false) {
    const Value product = MatMul(x, y, transpose);
    if (Below(3) > 0) Pin(product);
    return product;
  }

  // Each axis cuts a dim, or none; also unevenly.
  void Pin(const Value& value) {
    std::vector<AxisList> dims(value.shape().size());
    for (int axis = 0; axis < graph_.mesh().num_axes(); ++axis)
      if (const uint64_t d = Below(dims.size() + 1); d < dims.size()) dims[d].push_back(axis);
    ValueInfo& info = graph_.mutable_value(value.id());
    for (const AxisList& dim : dims)
      info.modes.push_back(dim.empty() && Below(3) == 0 ? DimMode::kOpen : DimMode::kLocked);
    info.layout = Layout(graph_.mesh(), std::move(dims));
  }

  std::mt19937_64 engine_;
  Graph graph_;
};

TEST(OwingProductsTest, CompileWithAnyPins) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Graph graph = Drawer(seed).Draw();
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const absl::StatusOr<Program> program = Compile(graph);
    EXPECT_TRUE(program.ok()) << "seed " << seed << ": " << program.status() << "\n" << PrintGraph(graph);
  }
}

}  // namespace
}  // namespace meshwork::owing_products_test
