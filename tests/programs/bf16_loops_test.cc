// Sums of bf16 over iterations of loops and devices of manual regions are made in f32 and rounded once, on
// every mesh. The reference is in double: values are rounded to bf16, sums only at their end. Programs are
// drawn; bf16 holds their terms and f32 their sums, so every bit counts. MESHWORK_LONG_TESTS=1 tries 5,000.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/control/manual.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/spmd/compile.h"
#include "support/interpreter.h"
#include "support/long_tests.h"
#include "support/program_trial.h"

namespace meshwork::bf16_loops_test {
namespace {

using Values = std::vector<Value>;

class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> list) {
    return list.begin()[Below(static_cast<int64_t>(list.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

// Each dim whole, or cut by an axis that no other dim has.
LayoutSpec DrawPins(Chance& chance, int64_t rank) {
  const int64_t x = chance.Below(rank + 1), y = chance.Below(rank + 1);  // the dims that they cut; rank: none
  LayoutSpec pins(static_cast<size_t>(rank), UNSHARDED);
  if (y < rank) pins[static_cast<size_t>(y)] = "y";
  if (x < rank) pins[static_cast<size_t>(x)] = "x";
  return pins;
}

// ---- Scans.

// A program with sums of a scan, and gradients of what its body reads.
class ScanDrawer {
 public:
  ScanDrawer(uint64_t seed, DType dtype, std::string_view mesh)
      : chance_(seed), dtype_(dtype), graph_(Mesh::Parse(mesh).value()) {}

  RandomProgram Draw() && {
    rows_ = 1 + chance_.Below(9), columns_ = 1 + chance_.Below(6);
    const int64_t length = chance_.Of<int64_t>({3, 290, 700});
    const Value xs = Input("xs", {length, rows_, columns_}, {0.5, 1, 1, 2, -1});
    v_ = Input("v", {rows_, columns_}, {0.5, 1, 2, -1});
    w_ = Input("w", {columns_, 1 + chance_.Below(5)}, {0, 1, 1, -1});
    const bool carries_weight = chance_.OneIn(3), carries_sum = chance_.OneIn(3);
    Values first;
    if (carries_weight) first.push_back(w_);
    if (carries_sum) first.push_back(Constant(graph_, 0.0, {dtype_, {rows_, columns_}}));
    const int64_t sums = 1 + chance_.Below(3);
    const ScanOptions options{.reverse = chance_.OneIn(2), .recompute = chance_.OneIn(2)};
    const ScanResult result = Scan(
        graph_, first, {xs},
        [&](Graph& body, const Values& carries, const Values& slices) {
          ScanStep step;
          const Value w = carries_weight ? carries[0] : w_;
          if (carries_weight) step.carries.push_back(w);
          if (carries_sum) step.carries.push_back(carries.back() + slices[0] * v_);
          for (int64_t s = 0; s < sums; ++s) step.sums.push_back(Term(body, slices[0], w));
          return step;
        },
        options);
    Value loss;
    for (size_t s = 0; s < result.sums.size(); ++s) {
      graph_.Output(fmt::format("sum{}", s), result.sums[s]);
      const Value total = ReduceSum(Cast(result.sums[s], dtype_ == F64 ? F64 : F32));
      loss = loss.valid() ? loss + total : total;
    }
    if (carries_sum) graph_.Output("carried", result.carries.back());
    const Values gradients = Gradients(loss, {v_, w_});
    if (gradients[0].valid()) graph_.Output("dv", gradients[0]);
    if (gradients[1].valid()) graph_.Output("dw", gradients[1]);
    return {std::move(graph_), std::move(feeds_)};
  }

 private:
  Value Input(const std::string& name, const Shape& shape, std::initializer_list<double> numbers) {
    for (int64_t i = 0; i < NumElements(shape); ++i) feeds_[name].push_back(chance_.Of(numbers));
    return graph_.Input(name, dtype_, shape, DrawPins(chance_, std::ssize(shape)));
  }

  // A term that bf16 holds exactly. Linear in v and w.
  Value Term(Graph& body, const Value& x, const Value& w) {
    switch (chance_.Below(7)) {
      case 0: return x;
      case 1: return x * v_;
      case 2: return MatMul(x, w);
      case 3: return ReduceSum(x * v_, {0});
      case 4: return MatMul(Transpose(x, {1, 0}), x);
      case 5:
        return If(
            Greater(ReduceSum(x), 0.0), [&](Graph&) { return Values{x * v_}; },
            [&](Graph&) { return Values{v_}; })[0];
      default:
        return Scan(body, {}, {x},
                    [&](Graph&, const Values&, const Values& row) {
                      return ScanStep{.sums = {row[0] * row[0]}};
                    })
            .sums[0];
    }
  }

  Chance chance_;
  const DType dtype_;
  Graph graph_;
  std::map<std::string, std::vector<double>> feeds_;
  int64_t rows_ = 0, columns_ = 0;
  Value v_, w_;
};

// The step in double. Each value is rounded to bf16 as soon as its op is done.
InterpretedStep RoundedStep(uint64_t seed) {
  const RandomProgram wide = ScanDrawer(seed, F64, "x=1,y=1").Draw();
  InterpretedStep step =
      Interpret(wide.graph, wide.feeds,
                [](const Node&, const std::vector<HostTensor>&, std::vector<HostTensor>& results) {
                  for (HostTensor& result : results)
                    if (result.type().dtype == F64) result = InDType(InDType(result, BF16), F64);
                });
  for (auto& [name, output] : step.outputs) output = InDType(output, BF16);
  return step;
}

// How many programs a test draws.
uint64_t Draws(uint64_t few) { return LongTests() ? 50 * few : few; }

constexpr std::string_view kLoopMeshes[] = {"x=1,y=1", "x=2,y=1", "x=4,y=2", "x=3,y=2"};

TEST(Bf16LoopsTest, SumsOverIterationsAreRoundedOnceOnEveryMesh) {
  int beyond_bf16 = 0;
  for (uint64_t seed = 0; seed < Draws(40); ++seed) {
    const Expected expected{.step = RoundedStep(seed), .is_exact = true};
    for (const auto& [name, output] : expected.step.outputs)
      for (double number : output.Numbers()) beyond_bf16 += std::abs(number) > 256;
    CpuBackend backend(2);
    for (std::string_view mesh : kLoopMeshes) {
      const RandomProgram random = ScanDrawer(seed, BF16, mesh).Draw();
      for (const bool share : {true, false}) {
        const Trial trial = TryProgram(random, expected, backend, {}, {.share = share});
        ASSERT_EQ(trial.error(), "") << "seed " << seed << " on " << mesh << "\n" << PrintGraph(random.graph);
      }
    }
  }
  EXPECT_GT(beyond_bf16, 300);  // sums of ones in bf16 would have stopped at 256
}

// With narrow_sums, terms of devices are rounded, those of iterations are not.
TEST(Bf16LoopsTest, SumsOverIterationsAreMadeInF32WhereTermsAreSentInBf16) {
  for (uint64_t seed = 0; seed < Draws(20); ++seed) {
    Expected expected{.step = RoundedStep(seed)};
    CpuBackend backend(2);
    for (std::string_view mesh : kLoopMeshes) {
      const RandomProgram random = ScanDrawer(seed, BF16, mesh).Draw();
      // Terms may be larger than their sum, but no term is larger than all numbers together.
      expected.scale = 1;
      for (const auto& [name, output] : expected.step.outputs)
        for (double number : output.Numbers()) expected.scale = std::max(expected.scale, std::abs(number));
      const Trial trial = TryProgram(random, expected, backend, {.narrow_sums = true});
      ASSERT_EQ(trial.error(), "") << "seed " << seed << " on " << mesh << "\n" << PrintGraph(random.graph);
    }
  }
}

// ---- Manual regions.

// Blocks [1,1,n] of [x,y,n] that are combined over `axes`; the result may be scattered along the last dim.
struct ManualSums {
  Mesh mesh;
  int64_t elements = 0;
  std::vector<std::string> axes;
  ReduceOp op = ReduceOp::kSum;
  bool scatters = false;

  bool Combines(const std::string& axis) const {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  }
};

ManualSums DrawManual(uint64_t seed) {
  Chance chance(seed);
  ManualSums sums;
  sums.mesh =
      Mesh::Parse(chance.Of<std::string_view>({"x=8,y=1", "x=4,y=2", "x=3,y=2", "x=12,y=1", "x=2,y=4"}))
          .value();
  sums.axes = chance.Of<std::vector<std::string>>({{"x"}, {"y"}, {"x", "y"}, {"y", "x"}});
  sums.op = chance.OneIn(4) ? ReduceOp::kProd : ReduceOp::kSum;
  sums.scatters = chance.OneIn(2);
  sums.elements = 24 * (1 + chance.Below(3));
  return sums;
}

RandomProgram ManualProgram(const ManualSums& sums, uint64_t seed) {
  RandomProgram random{Graph(sums.mesh), {}};
  Graph& graph = random.graph;
  Chance chance(seed);
  const Shape shape = {sums.mesh.axis(0).size, sums.mesh.axis(1).size, sums.elements};
  // Sums have a large term, at which bf16 would drop the small ones; products have values that bf16 does not hold.
  for (int64_t i = 0; i < NumElements(shape); ++i)
    random.feeds["in"].push_back(sums.op == ReduceOp::kProd ? chance.Of({1.125, 0.75, 1.0, 2.0})
                                 : i < shape[2] * shape[1]  ? 256
                                                            : chance.Of({1.0, 0.5, 3.0}));
  const Value in = graph.Input("in", BF16, shape, {"x", "y", UNSHARDED});
  LayoutSpec out = {sums.Combines("x") ? DimSpec(UNSHARDED) : DimSpec("x"),
                    sums.Combines("y") ? DimSpec(UNSHARDED) : DimSpec("y"), UNSHARDED};
  if (sums.scatters)
    out[2] = sums.axes.size() == 1 ? DimSpec(sums.axes[0]) : DimSpec({sums.axes[0], sums.axes[1]});
  graph.Output("out", manual::Region(graph, {in}, {{"x", "y", UNSHARDED}}, {out},
                                     [&](Graph&, const Values& block) -> Values {
                                       if (sums.scatters)
                                         return {manual::ReduceScatter(block[0], 2, sums.axes, sums.op)};
                                       return {manual::AllReduce(block[0], sums.axes, sums.op)};
                                     })[0]);
  return random;
}

// The result in double, rounded once.
Expected ExpectedManual(const ManualSums& sums, const RandomProgram& random) {
  const int64_t x = sums.mesh.axis(0).size, y = sums.mesh.axis(1).size, n = sums.elements;
  const int64_t rows = sums.Combines("x") ? 1 : x, columns = sums.Combines("y") ? 1 : y;
  std::vector<double> numbers(static_cast<size_t>(rows * columns * n), sums.op == ReduceOp::kSum ? 0 : 1);
  for (int64_t i = 0; i < x * y * n; ++i) {
    const int64_t row = i / n / y % rows, column = i / n % y % columns;
    double& number = numbers[static_cast<size_t>((row * columns + column) * n + i % n)];
    const double term = random.feeds.at("in")[static_cast<size_t>(i)];
    number = sums.op == ReduceOp::kSum ? number + term : number * term;
  }
  Expected expected;
  expected.is_exact = true;
  expected.step.outputs["out"] = HostTensor({BF16, {rows, columns, n}}, numbers);
  return expected;
}

TEST(Bf16LoopsTest, SumsOfManualRegionsAreRoundedOnce) {
  const std::shared_ptr<CrossDeviceOps> ops[] = {nullptr, ReductionToOneDevice(), RingAllReduce(),
                                                 HierarchicalCopyAllReduce(3).value()};
  int over_domains = 0;
  for (uint64_t seed = 0; seed < Draws(40); ++seed) {
    const ManualSums sums = DrawManual(seed);
    const RandomProgram random = ManualProgram(sums, seed);
    ASSERT_TRUE(random.graph.status().ok()) << random.graph.status();
    const Expected expected = ExpectedManual(sums, random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, PrintGraph(random.graph)));
    for (const auto& op : ops) {
      CpuBackend backend(2);
      ExecutorOptions options;
      options.cross_device_ops = op;
      ASSERT_EQ(TryProgram(random, expected, backend, {}, options).error(), "");
    }
    for (const int64_t domains : {2, 3, 4}) {
      if (!Placement::Create(sums.mesh, domains).ok()) continue;
      ++over_domains;
      ASSERT_EQ(TryOnDomains(random, expected, domains).error(), "") << domains << " domains";
    }
  }
  EXPECT_GT(over_domains, 40);
}

}  // namespace
}  // namespace meshwork::bf16_loops_test
