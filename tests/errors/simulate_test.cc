#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/simulate/machine.h"
#include "meshwork/tools/simulate/measure.h"
#include "meshwork/tools/simulate/process.h"
#include "meshwork/tools/simulate/scale.h"

namespace meshwork::simulate_test {
namespace {

TEST(SimulateErrors, Machines) {
  std::vector<Mistake> mistakes;
  for (const char* json :
       {"{", "[]", R"({"product_flop": 1})", R"({"product_flops": "fast"})", R"({"product_flops": -1})",
        R"({"op_seconds": -1e-6})", R"({"kernels": {"neg": -1}})", R"({"kernels": []})",
        R"({"workers": 1.5})", R"({"workers": 2000})"})
    mistakes.emplace_back(json, [json] { return ParseMachine(json); });
  ExpectErrors("simulate_machines", mistakes);
}

TEST(SimulateErrors, Measurements) {
  ExpectErrors("simulate_measure", {
                                       MISTAKE(MeasureMachine({.workers = 2000})),
                                       MISTAKE(MeasureMachine({.rounds = 0})),
                                   });
}

// The curve of a program of 3 examples on 2 positions, or the error of its last point.
absl::Status CurveOf(const Mesh& mesh, const ScaleOptions& options) {
  const auto point_on = [](const Mesh& on) -> absl::StatusOr<ScaleProgram> {
    Graph graph(on);
    const Value x = graph.Input("x", F32, {3, 4}, {UNSHARDED, UNSHARDED});
    graph.Output("y", x);
    return ScaleProgram{std::move(graph), {}};
  };
  const absl::StatusOr<std::vector<ScalePoint>> curve = Scale(mesh, options, point_on);
  return curve.ok() ? curve->front().status : curve.status();
}

TEST(SimulateErrors, Curves) {
  const Mesh mesh = Mesh::Parse("batch=2,model=4").value();
  ExpectErrors("simulate_scale", {
                                     MISTAKE(CurveOf(Mesh(), {})),
                                     MISTAKE(CurveOf(mesh, {.axis = "bacth"})),
                                     MISTAKE(CurveOf(mesh, {.axis = "seq"})),
                                     MISTAKE(CurveOf(mesh, {.axis = "batch", .max_devices = 2})),
                                     MISTAKE(CurveOf(mesh, {.axis = "batch"})),
                                 });
}

// The curve of a program whose first two inputs are sharded along the axis.
absl::Status CurveOfTwo() {
  const auto point_on = [](const Mesh& on) -> absl::StatusOr<ScaleProgram> {
    Graph graph(on);
    graph.Output("y", graph.Input("x", F32, {4, 4}, {"batch", UNSHARDED}));
    graph.Output("z", graph.Input("w", F32, {8}, {"batch"}));
    return ScaleProgram{std::move(graph), {}};
  };
  return Scale(Mesh::Parse("batch=2").value(), {}, point_on)->front().status;
}

// A batch of 16 sequences of 2^33 numbers.
absl::Status CurveOfMuch() {
  const auto point_on = [](const Mesh& on) -> absl::StatusOr<ScaleProgram> {
    Graph graph(on);
    graph.Output("y", Exp(graph.Input("x", F32, {16, int64_t{1} << 33}, {"batch", UNSHARDED})));
    return ScaleProgram{std::move(graph), {}};
  };
  return Scale(Mesh::Parse("batch=2").value(), {}, point_on)->back().status;
}

TEST(SimulateErrors, Batches) {
  ExpectErrors("simulate_batch", {MISTAKE(CurveOfTwo()), MISTAKE(CurveOfMuch())});
}

// A product of 4·4·4 elements and its sum.
absl::Status StepOn(const Machine& machine) {
  const Graph graph =
      ParseGraph(
          "mesh [x=2]\nfunc step(%h: f32[4,4] {_,x}, %w: f32[4,4] {x,_}) {\n  %y = matmul %h, %w\n"
          "  return y=%y\n}")
          .value();
  return SimulateOn(Compile(graph).value(), machine).status();
}

TEST(SimulateErrors, Times) {
  ExpectErrors("simulate_times", {
                                     MISTAKE(StepOn({.product_flops = 5e-324})),
                                     MISTAKE(StepOn({.op_seconds = 1e308})),
                                     MISTAKE(StepOn({.product_flops = 5e-324, .workers = 2})),
                                 });
}

}  // namespace
}  // namespace meshwork::simulate_test
