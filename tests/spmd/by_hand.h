// Training steps with the layouts of a hand-written plan, or with none, to compare with layouts that are found.
//
//   ExpectCostsNoMoreThanByHand({"data_parallel", "x=8", [](bool is_pinned) { return …; }});
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/auto/auto_layouts.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// A training step in the making, with the layouts of a plan or with none.
class StepByHand {
 public:
  StepByHand(const std::string& mesh, bool is_pinned)
      : graph(Mesh::Parse(mesh).value()), is_pinned_(is_pinned) {}

  Value Input(const std::string& name, DType dtype, const Shape& shape, const LayoutSpec& layout) {
    return graph.Input(name, dtype, shape, is_pinned_ ? layout : OpenLayout(shape));
  }
  Value Weight(const std::string& name, const Shape& shape, const LayoutSpec& layout,
               Gathering gather = Gathering::kWithinBudget) {
    weights_.push_back({NewVariable(name, shape, layout, gather), layout});
    return weights_.back().first;
  }
  // A value between arguments and outputs that the plan pins.
  Value Pinned(const Value& value, const LayoutSpec& layout) {
    return is_pinned_ ? WithLayout(value, layout) : value;
  }

  // The step with plain gradient descent.
  Graph Finish(const Value& loss) {
    const std::vector<Value> gradients = GradientsOf(loss);
    for (size_t i = 0; i < weights_.size(); ++i)
      graph.Update(weights_[i].first, weights_[i].first - gradients[i] * 0.01);
    return Finished(loss);
  }
  // The step with Adam (Kingma and Ba, arXiv 1412.6980), without its correction of the first steps. Its state
  // of a weight has the weight's layout.
  Graph FinishWithAdam(const Value& loss) {
    const std::vector<Value> gradients = GradientsOf(loss);
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Variable& weight = weights_[i].first;
      const LayoutSpec& layout = weights_[i].second;
      const auto state = [&](const char* name) {
        return NewVariable(fmt::format("{}/{}", graph.value(weight.id()).name, name), weight.shape(), layout);
      };
      const Variable mean = state("mean"), square = state("square");
      const Value new_mean = mean * 0.9 + gradients[i] * 0.1;
      const Value new_square = square * 0.999 + Square(gradients[i]) * 0.001;
      graph.Update(mean, new_mean);
      graph.Update(square, new_square);
      graph.Update(weight, weight - new_mean * 0.01 / (Sqrt(new_square) + 1e-8));
    }
    return Finished(loss);
  }

  Graph graph;

 private:
  static LayoutSpec OpenLayout(const Shape& shape) { return LayoutSpec(shape.size(), OPEN); }

  Variable NewVariable(const std::string& name, const Shape& shape, const LayoutSpec& layout,
                       Gathering gather = Gathering::kWithinBudget) {
    const Initializer initializer{.type = {F32, shape}};
    return is_pinned_ ? graph.Var(name, initializer, layout, {.gather = gather})
                      : graph.Var(name, initializer, OpenLayout(shape));
  }

  std::vector<Value> GradientsOf(const Value& loss) const {
    std::vector<Variable> weights;
    for (const auto& [weight, layout] : weights_) weights.push_back(weight);
    return Gradients(loss, weights);
  }

  Graph Finished(const Value& loss) {
    graph.Output("loss", loss);
    EXPECT_TRUE(graph.status().ok()) << graph.status();
    return std::move(graph);
  }

  const bool is_pinned_;
  std::vector<std::pair<Variable, LayoutSpec>> weights_;
};

struct ModelByHand {
  std::string name, mesh;
  std::function<Graph(bool is_pinned)> build;
  int64_t memory_budget = 0;
  std::string topology = {};  // JSON
  double gap = 1e-6;          // the plan's gap is smaller
};

inline void PrintTo(const ModelByHand& model, std::ostream* out) { *out << model.name; }

// The seconds of a plan's step, as FindLayouts counts them.
inline double SecondsOf(const Graph& graph, const CompileOptions& options) {
  const Program program = Compile(graph, options).value();
  const StepCost cost = CostOf(program.body, options.topology);
  const double links = options.topology.is_assumed()
                           ? static_cast<double>(cost.bytes) / Topology::kAssumedLink.bandwidth
                           : cost.seconds;
  return links + CountFlops(program.body) / options.topology.flops();
}

// Without pins, the step takes no longer than with the plan; it compiles to what FindLayouts says, and is proven.
inline void ExpectCostsNoMoreThanByHand(const ModelByHand& model) {
  CompileOptions options{.memory_budget = model.memory_budget};
  if (!model.topology.empty())
    options.topology = Topology::Parse(Mesh::Parse(model.mesh).value(), model.topology).value();
  const absl::StatusOr<std::vector<FoundLayouts>> found = FindLayouts(model.build(false), options);
  ASSERT_TRUE(found.ok()) << found.status();
  const double by_hand = SecondsOf(model.build(true), options);
  EXPECT_LE((*found)[0].seconds(), by_hand * 1.0001) << PrintGraph((*found)[0].graph);
  testing::Test::RecordProperty("by_hand", fmt::format("{:.4g} s", by_hand));
  testing::Test::RecordProperty("found",
                                fmt::format("{:.4g} s, gap {:.4f}", (*found)[0].seconds(), (*found)[0].gap));
  EXPECT_LT((*found)[0].gap, model.gap);
  options.verify = true;
  EXPECT_NEAR(SecondsOf((*found)[0].graph, options), (*found)[0].seconds(), 1e-9);
}

}  // namespace meshwork
