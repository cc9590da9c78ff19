// Compiles and runs random programs, and compares them with the same programs on one device, node by node;
// padding is full of NaN. Every program reads back from its text, before and after each pass
// (support/read_back_compile.cc). MESHWORK_LONG_TESTS=1 tries many more.
#include "support/random_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/optim/optimizers.h"
#include "support/for_each_node.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_training.h"
#include "support/read_back.h"

namespace meshwork::random_program_test {
namespace {

uint64_t NumPrograms() { return LongTests() ? 10000 : 600; }
uint64_t NumEmptyPrograms() { return LongTests() ? 10000 : 600; }
uint64_t NumTrainingPrograms() { return LongTests() ? 2200 : 240; }
uint64_t NumLoopPrograms() { return LongTests() ? 4000 : 120; }
uint64_t NumLoopTrainingPrograms() { return LongTests() ? 1000 : 48; }
uint64_t NumShardedPrograms() { return LongTests() ? 300 : 60; }

int64_t WireOf(const Graph& local) {
  int64_t bytes = 0;
  for (const CollectiveSummary& summary : SummarizeCollectives(local)) bytes += summary.bytes;
  return bytes;
}

uint64_t CountNodes(const Graph& graph) {
  uint64_t nodes = 0;
  ForEachNode(graph, [&](const Node&) { ++nodes; });
  return nodes;
}

// Programs that were tried, the ops of the global ones, and those that failed.
class Tally {
 public:
  void Add(const RandomProgram& random, const Trial& trial, uint64_t seed) {
    ++programs_;
    ops_ += CountNodes(random.graph);
    rejected_ += !trial.rejected.empty();
    wrong_ += !trial.wrong.empty();
    EXPECT_EQ(trial.error(), "") << "seed " << seed << "\n" << PrintGraph(random.graph);
  }
  bool IsEnough() const { return rejected_ + wrong_ >= 10; }
  void Print() const {
    fmt::print("{} programs, {} ops, rejected {}, wrong {}\n", programs_, ops_, rejected_, wrong_);
  }

 private:
  uint64_t programs_ = 0, ops_ = 0, rejected_ = 0, wrong_ = 0;
};

// Tries draw(seed) for seeds below `count`. Fewer than one in `wild_one_in` programs may have numbers that are infinite
// or NaN.
void TryPrograms(uint64_t count, uint64_t wild_one_in,
                 const std::function<RandomProgram(uint64_t seed)>& draw) {
  CpuBackend backend(2);
  uint64_t wild = 0;
  Tally tally;
  for (uint64_t seed = 0; seed < count && !tally.IsEnough(); ++seed) {
    const RandomProgram random = draw(seed);
    const Expected expected = ExpectedOf(random);
    if (std::isfinite(expected.scale)) tally.Add(random, TryProgram(random, expected, backend), seed);
    else ++wild;
  }
  tally.Print();
  EXPECT_LT(wild, count / wild_one_in) << "too many programs are left out for numbers that are none";
}

TEST(RandomProgramTest, GivesTheOneDeviceResult) {
  const RandomPrograms programs;
  std::set<std::string_view> ops;
  TryPrograms(NumPrograms(), 10, [&](uint64_t seed) {
    RandomProgram random = programs.Draw(seed);
    for (const Node& node : random.graph.nodes()) ops.insert(node.row->name);
    return random;
  });
  EXPECT_EQ(ops.size(), DrawnRows().size()) << "some op is in no program";
}

// A tensor without elements is cut, gathered, moved, reduced and carried like any other.
TEST(RandomProgramTest, GivesTheOneDeviceResultOfEmptyTensors) {
  const RandomPrograms programs;
  uint64_t empty = 0, values = 0;
  TryPrograms(NumEmptyPrograms(), 4, [&](uint64_t seed) {
    RandomProgram random = programs.DrawEmpty(seed);
    values += random.graph.values().size();
    for (const ValueInfo& info : random.graph.values()) empty += info.type.num_elements() == 0;
    return random;
  });
  EXPECT_GT(empty, values / 4);
}

// Moves with empty results: a checker must accept an empty tensor for any other of its type, whatever op made it.
TEST(RandomProgramTest, EmptyTensorsOfSeveralOpsAreOneTensor) {
  constexpr std::string_view kPrograms[] = {
      R"(mesh [x=1, y=2, z=2]
func f(%a: f64[5,0], %b: f64[]) {
  %m = cummax %a dim=0
  %c = concat %m, %a, %a dim=1
  %r = reverse %c dims=[1]
  %flat = reshape %r shape=[0]
  %p = pad %flat low=[0] high=[2] value=0.5
  %s = add %p, %b
  %again = reshape %c shape=[5,0]
  %l = linear_recurrence %r, %m dim=1
  %t = sin %again : f64[5,0] {y,z}
  %u = sin %l
  return s=%s, t=%t, u=%u
}
)",
      R"(mesh [x=2, y=2]
func f(%a: f64[1,6]) {
  %p = pad %a low=[0,-1] high=[-1,5] interior=[2,0] value=1
  %m = cummin %p dim=1 reverse=true : f64[0,10] {_,(y,x)}
  %q = cummax %p dim=1 : f64[0,10] {_,(y,x)}
  return m=%m, q=%q
}
)"};
  CpuBackend backend(2);
  for (const std::string_view text : kPrograms) {
    const RandomProgram random = WithFeeds(ParseGraph(text).value());
    std::vector<Topology::AxisLink> links;
    for (const Axis& axis : random.graph.mesh().axes())
      links.push_back({axis.name, {.bandwidth = axis.name == "y" ? 1e10 : 1.5e11, .latency = 0}});
    const Topology topology = Topology::Create(random.graph.mesh(), links).value();
    for (const CompileOptions& options : {CompileOptions(), CompileOptions{.topology = topology}})
      EXPECT_EQ(TryProgram(random, ExpectedOf(random), backend, options).error(), "") << text;
  }
}

// The smallest memory budget for which a program is found; 0 if no budget below the usual peak can be met.
int64_t LeastBudget(const Graph& graph) {
  const auto peak = [](const Program& program) { return LogicalPeakBytes(program.body); };
  int64_t least = 0;
  absl::StatusOr<Program> program = Compile(graph);
  while (program.ok() && peak(*program) > 1) {
    CompileOptions options{.memory_budget = peak(*program) - 1};
    program = Compile(graph, options);
    if (!program.ok()) break;
    EXPECT_LE(peak(*program), options.memory_budget);
    least = peak(*program);
  }
  EXPECT_TRUE(program.ok() || program.status().code() == absl::StatusCode::kResourceExhausted)
      << program.status();
  return least;
}

TEST(RandomProgramTest, GivesTheOneDeviceResultInAsLittleMemoryAsItCan) {
  const RandomPrograms programs;
  CpuBackend backend(2);
  int lowered = 0;
  for (uint64_t seed = 0; seed < NumPrograms(); ++seed) {
    const RandomProgram random = programs.Draw(seed);
    const Expected expected = ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    const int64_t budget = LeastBudget(random.graph);
    if (budget == 0) continue;
    ++lowered;
    const Trial trial = TryProgram(random, expected, backend, {.memory_budget = budget});
    EXPECT_EQ(trial.error(), "") << "seed " << seed << "\n" << PrintGraph(random.graph);
    if (HasFailure()) break;
  }
  EXPECT_GT(lowered, 10) << "hardly any program is planned again";
  RecordProperty("lowered", lowered);
}

// If no value may be gathered without permission, a program is either refused for that reason, or right.
TEST(RandomProgramTest, IsRefusedOrRightWithoutReplication) {
  const RandomPrograms programs;
  CpuBackend backend(2);
  const uint64_t programs_tried = NumPrograms() / 4;  // a refusal looks for a way out, and takes longer
  uint64_t refused = 0, made = 0;
  for (uint64_t seed = 0; seed < programs_tried; ++seed) {
    const RandomProgram random = programs.Draw(seed);
    const Expected expected = ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    const std::string error = TryProgram(random, expected, backend, {.replication_budget = 0}).error();
    const bool is_refusal = error.find("would be gathered whole on every device") != std::string::npos;
    EXPECT_TRUE(error.empty() || is_refusal) << error << "\nseed " << seed << "\n"
                                             << PrintGraph(random.graph);
    ++(is_refusal ? refused : made);
    if (HasFailure()) break;
  }
  EXPECT_GT(refused, programs_tried / 50);
  EXPECT_GT(made, programs_tried / 10);
}

TEST(RandomProgramTest, ReadsBackFromItsText) {
  const RandomPrograms programs;
  for (uint64_t seed = 0; seed < NumPrograms(); ++seed)
    ASSERT_EQ(ReadBackError(programs.Draw(seed).graph), "") << "seed " << seed;
}

TEST(RandomLoopsTest, GiveTheOneDeviceResult) {
  const RandomPrograms programs;
  std::set<std::string_view> ops;
  std::map<std::string_view, uint64_t> loops;
  // A matmul_q by whole numbers up to 127, in a body, lets what a loop carries grow fast.
  TryPrograms(NumLoopPrograms(), 5, [&](uint64_t seed) {
    RandomProgram random = programs.DrawLoops(seed);
    ForEachNode(random.graph, [&](const Node& node) {
      ops.insert(node.row->name);
      loops[node.row->name] += IsControl(node);
    });
    return random;
  });
  EXPECT_GE(ops.size(), DrawnRows().size() * 9 / 10) << "many ops are in no program";
  for (const std::string_view loop : {"scan", "if", "while"}) EXPECT_GE(loops[loop], NumLoopPrograms() / 6);
}

TEST(RandomLoopsTest, ReadBackFromTheirTexts) {
  const RandomPrograms programs;
  for (uint64_t seed = 0; seed < NumLoopPrograms(); ++seed)
    ASSERT_EQ(ReadBackError(programs.DrawLoops(seed).graph), "") << "seed " << seed;
}

TEST(RandomTrainingTest, GivesTheOneDeviceLossGradientsAndUpdates) {
  CpuBackend backend(2);
  Tally tally;
  for (uint64_t seed = 0; seed < NumTrainingPrograms() && !tally.IsEnough(); ++seed) {
    const RandomProgram random = DrawTraining(seed);
    tally.Add(random, TryProgram(random, ExpectedOf(random), backend), seed);
  }
  tally.Print();
}

// Layers of random sizes, trained in data parallelism, some of them cut by "model" as well: by any optimizer,
// clipped or not, now and then with an average of a weight.
class DataParallelDrawer {
 public:
  explicit DataParallelDrawer(uint64_t seed) : engine_(seed), graph_(Mesh::Parse(Pick(kMeshes)).value()) {}

  RandomProgram Draw() && {
    std::vector<std::string> axes = {"batch"};
    if (Has("host")) axes.insert(axes.begin() + static_cast<int64_t>(Below(2)), "host");
    const DimSpec batch(axes);
    const int64_t rows = 1 + static_cast<int64_t>(Below(30));
    int64_t size = Pick(kSizes);
    Value h = graph_.Input("x", F64, {rows, size}, {batch, UNSHARDED});
    Value loss = {};
    for (uint64_t layer = 1 + Below(3); layer > 0; --layer) {
      const int64_t in = std::exchange(size, Pick(kSizes));
      const Variable w = Weight({in, size}), b = Weight({size});
      h = Tanh(MatMul(h, w) + b);
      if (Chance(20)) loss = ReduceMean(Square(w), {0, 1});
    }
    const Value y = graph_.Input("y", F64, {rows, size}, {batch, UNSHARDED});
    const Value error = ReduceMean(Square(h - y), {0, 1});
    loss = loss.valid() ? loss + error : error;
    DrawOptimizer().Minimize(loss);
    graph_.Output("loss", loss);
    if (Chance(40)) Average();
    MESHWORK_CHECK(graph_.status().ok(), "{}", MessageOf(graph_.status()));
    RandomProgram random{std::move(graph_), {}};
    for (const Argument& argument : random.graph.arguments()) {
      const ValueInfo& info = random.graph.value(argument.value);
      // Sums of squares are positive, and larger than the square of a mean.
      const double low =
          info.name.find("/v/") != std::string::npos || info.name.starts_with("adagrad/") ? 1 : -1;
      for (int64_t i = info.type.num_elements(); i > 0; --i)
        random.feeds[info.name].push_back(
            info.type.dtype == I64 ? 3 : low + static_cast<double>(Below(1000)) / 1000);
    }
    return random;
  }

 private:
  static constexpr const char* kMeshes[] = {"batch=2",         "batch=4",         "batch=8",
                                            "batch=3",         "batch=2,model=2", "batch=4,model=2",
                                            "model=3,batch=2", "host=2,batch=2",  "host=2,batch=3,model=2",
                                            "batch=2*3",       "batch=12"};
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 18, 24};

  uint64_t Below(uint64_t n) { return engine_() % n; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }
  template <typename T, size_t n>
  T Pick(const T (&from)[n]) {
    return from[Below(n)];
  }
  bool Has(const char* axis) const { return graph_.mesh().FindAxes(axis).ok(); }

  Variable Weight(const Shape& shape) {
    LayoutSpec layout(shape.size(), UNSHARDED);
    if (Has("model") && Chance(60)) layout[Below(shape.size())] = "model";
    return graph_.Var(fmt::format("w{}", graph_.arguments().size()), Zeros(shape, F64), layout);
  }

  Optimizer DrawOptimizer() {
    std::optional<double> clip;
    if (Chance(30)) clip = 0.5;
    switch (Below(7)) {
      case 0: return Sgd({.clip_norm = clip});
      case 1: return Momentum({.clip_norm = clip});
      case 2: return Nesterov({.clip_norm = clip});
      case 3: return Adagrad({.clip_norm = clip});
      case 4: return RmsProp({.momentum = 0.5, .centered = Chance(50), .clip_norm = clip});
      case 5: return AdamW({.clip_norm = clip});
      default: return Adam({.clip_norm = clip});
    }
  }

  void Average() {
    const VariableUpdate update = graph_.updates().back();  // of state or, where there is none, of a weight
    const Value now(&graph_, update.value);
    if (now.dtype() != F64) return;
    const ValueInfo& info = graph_.value(graph_.arguments()[update.argument].value);
    const Variable average = graph_.Var("average", Zeros(info.type.shape, F64), SpecOf(*info.layout));
    graph_.Update(average, average * 0.9 + now * 0.1);
  }

  std::mt19937_64 engine_;
  Graph graph_;
};

// The bytes that a device sends, except for scalars: the norm for clipping may be a sum over blocks.
int64_t WireOfTensors(const Graph& local) {
  int64_t bytes = 0;
  for (const Node& node : local.nodes()) {
    if (node.row->kind != OpKind::kCollective) continue;
    bytes += WireBytes(local, node);
    for (ValueId id : node.operands)
      if (local.value(id).type.rank() == 0) bytes -= 2 * local.value(id).type.bytes();
  }
  return bytes;
}

int64_t NumCollectives(const Graph& local) {
  return std::count_if(local.nodes().begin(), local.nodes().end(),
                       [](const Node& node) { return node.row->kind == OpKind::kCollective; });
}

TEST(ShardedUpdateTest, GivesTheOneDeviceResultAndSendsNoMore) {
  CpuBackend backend(2);
  uint64_t sharded = 0, in_parts = 0;
  Tally tally;
  for (uint64_t seed = 0; seed < NumShardedPrograms() && !tally.IsEnough(); ++seed) {
    const RandomProgram random = DataParallelDrawer(seed).Draw();
    // If messages have no latency, no weight is too small to be sharded along parts of axes.
    const Mesh& mesh = random.graph.mesh();
    std::vector<Topology::AxisLink> links;
    for (const Axis& axis : mesh.axes()) links.push_back({axis.name, {.bandwidth = 1e10, .latency = 0}});
    CompileOptions options;
    if (seed % 2 == 0) options.topology = Topology::Create(mesh, links).value();
    const absl::StatusOr<Program> plain = Compile(random.graph, options);
    options.shard_weight_update = true;
    const absl::StatusOr<Program> program = Compile(random.graph, options);
    tally.Add(random, TryProgram(random, ExpectedOf(random), backend, options), seed);
    if (!plain.ok() || !program.ok()) continue;
    sharded += !program->sharded_state.empty();
    in_parts += program->body.mesh() != mesh;
    // Updates are sharded before layouts are chosen. A collective's bytes are rounded up.
    const PassControl before{.left_out = {"choose_layouts"}};
    const Graph sent = CompileWith(random.graph, options, before)->body;
    options.shard_weight_update = false;
    EXPECT_LE(WireOfTensors(sent),
              WireOf(CompileWith(random.graph, options, before)->body) + NumCollectives(sent))
        << "seed " << seed;
    options.shard_weight_update = true;
    EXPECT_EQ(PrintGraph(Compile(random.graph, options)->body), PrintGraph(program->body)) << "seed " << seed;
  }
  tally.Print();
  EXPECT_GE(sharded, NumShardedPrograms() / 4);
  EXPECT_GE(in_parts, NumShardedPrograms() / 25);
}

TEST(RandomTrainingTest, GivesTheOneDeviceResultWithShardedUpdates) {
  CpuBackend backend(2);
  Tally tally;
  for (uint64_t seed = 0; seed < NumTrainingPrograms() && !tally.IsEnough(); seed += 3) {
    const RandomProgram random = DrawTraining(seed);
    tally.Add(random, TryProgram(random, ExpectedOf(random), backend, {.shard_weight_update = true}), seed);
  }
  tally.Print();
}

TEST(RandomLoopTrainingTest, GivesTheOneDeviceLossGradientsAndUpdates) {
  CpuBackend backend(2);
  Tally tally;
  for (uint64_t seed = 0; seed < NumLoopTrainingPrograms() && !tally.IsEnough(); ++seed) {
    const RandomProgram random = DrawLoopTraining(seed);
    const CompileOptions options{.shard_weight_update = seed % 4 == 3};
    tally.Add(random, TryProgram(random, ExpectedOf(random), backend, options), seed);
  }
  tally.Print();
}

// The slope of output "loss" if the elements of an argument move along `direction`, by central differences on
// one device; `error` gets its tolerance.
double SlopeOf(const RandomProgram& random, const std::string& argument, const std::vector<double>& direction,
               double& error) {
  auto loss_at = [&](double distance) {
    std::map<std::string, std::vector<double>> feeds = random.feeds;
    for (size_t i = 0; i < direction.size(); ++i) feeds[argument][i] += distance * direction[i];
    return Interpret(random.graph, feeds).outputs.at("loss").Number();
  };
  auto difference = [&](double by) { return (loss_at(by) - loss_at(-by)) / (2 * by); };
  constexpr double kStep = 1e-6;
  const double slope = difference(kStep);
  error = std::abs(difference(2 * kStep) - slope) + 1e-6 * std::max(1.0, std::abs(slope));
  return slope;
}

// Expects gradients to be slopes of the loss, and returns their number. Programs with stop_gradient are left
// out: values inside a softmax may have other readers.
int CheckSlopes(const RandomProgram& random, uint64_t seed) {
  constexpr std::string_view kGradient = "gradient/";
  bool has_constant = false;
  ForEachNode(random.graph, [&](const Node& node) { has_constant |= node.row->name == "stop_gradient"; });
  if (has_constant) return 0;
  int slopes = 0;
  std::mt19937_64 engine(seed);
  for (const auto& [name, gradient] : Interpret(random.graph, random.feeds).outputs) {
    if (name.rfind(kGradient, 0) != 0) continue;
    const std::string argument = name.substr(kGradient.size());
    if (random.feeds.count(argument) == 0) continue;  // by a value that is no argument
    std::vector<double> direction;
    double slope = 0, error = 0;
    for (double x : gradient.Numbers()) {
      direction.push_back(static_cast<double>(engine() % 2001) / 1000 - 1);
      slope += x * direction.back();
    }
    const double expected = SlopeOf(random, argument, direction, error);
    EXPECT_NEAR(slope, expected, error) << "seed " << seed << ", " << name << "\n"
                                        << PrintGraph(random.graph);
    ++slopes;
  }
  return slopes;
}

// Tests the reference itself.
TEST(RandomTrainingTest, GradientsAreSlopes) {
  int slopes = 0;
  for (uint64_t seed = 0; seed < NumTrainingPrograms(); ++seed)
    slopes += CheckSlopes(DrawTraining(seed), seed);
  EXPECT_GE(slopes, static_cast<int>(NumTrainingPrograms() / 10));
}

TEST(RandomLoopTrainingTest, GradientsAreSlopes) {
  int slopes = 0;
  for (uint64_t seed = 0; seed < NumLoopTrainingPrograms(); ++seed)
    slopes += CheckSlopes(DrawLoopTraining(seed), seed);
  EXPECT_GE(slopes, static_cast<int>(NumLoopTrainingPrograms() / 10));
}

// The programs have carries, slices, captured values, stacks and sums; loops in loops; gradients, which
// reverse scans.
TEST(RandomLoopTrainingTest, DrawsWhatCompilersMeet) {
  std::map<std::string, uint64_t> seen;
  for (uint64_t seed = 0; seed < NumLoopTrainingPrograms(); ++seed) {
    ForEachNode(DrawLoopTraining(seed).graph, [&](const Node& node) {
      if (!IsControl(node)) return;
      const ControlShape shape = ShapeOfControl(node);
      ++seen[std::string(node.row->name)];
      for (const auto& region : node.regions) {
        const auto is_pinned = [](const ValueInfo& info) { return info.layout.has_value(); };
        seen["pin"] += std::any_of(region->values().begin(), region->values().end(), is_pinned);
        seen["loop in a loop"] += std::any_of(region->nodes().begin(), region->nodes().end(), IsControl);
      }
      if (node.row->name != "scan") return;
      seen["carry"] += shape.carries > 0;
      seen["slice"] += shape.slices > 0;
      seen["stacked"] += shape.stacked > 0;
      seen["sum"] += shape.sums > 0;
      seen["captured"] += static_cast<int>(node.operands.size()) > shape.carries + shape.slices;
      seen["reverse"] += node.attrs.Get<bool>("reverse");
      seen["recompute"] += node.attrs.Get<bool>("recompute");
    });
  }
  for (const char* what : {"scan", "if", "while", "pin", "loop in a loop", "carry", "slice", "stacked", "sum",
                           "captured", "reverse", "recompute"})
    EXPECT_GE(seen[what], NumLoopTrainingPrograms() / 20) << what;
}

// The programs are as random as they say: every kind of op, gradients and updates, meshes, empty shards.
TEST(RandomTrainingTest, DrawsWhatCompilersMeet) {
  std::set<std::string> ops, meshes;
  int updates = 0, gradients = 0, empty_shards = 0, open_dims = 0;
  for (uint64_t seed = 0; seed < NumTrainingPrograms(); ++seed) {
    const RandomProgram random = DrawTraining(seed);
    const Graph& graph = random.graph;
    meshes.insert(graph.mesh().ToString());
    for (const Node& node : graph.nodes()) ops.emplace(node.row->name);
    updates += !graph.updates().empty();
    bool has_gradient = false;
    for (const OutputInfo& output : graph.outputs()) has_gradient |= output.name.rfind("gradient/", 0) == 0;
    gradients += has_gradient;
    bool is_empty = false, is_open = false;
    for (const ValueInfo& info : graph.values()) {
      if (!info.layout.has_value()) continue;
      is_open |= !info.modes.empty();
      const Block last = info.layout->BlockOf(info.type.shape, graph.mesh().num_devices() - 1);
      is_empty |=
          std::any_of(last.begin(), last.end(), [](const Extent& extent) { return extent.size == 0; });
    }
    empty_shards += is_empty;
    open_dims += is_open;
  }
  const auto programs = static_cast<int>(NumTrainingPrograms());
  EXPECT_GE(updates, programs / 2);
  EXPECT_GE(gradients, programs / 5);
  EXPECT_GE(empty_shards, programs / 5);
  EXPECT_GE(open_dims, programs / 5);
  EXPECT_GE(meshes.size(), 14u);
  std::vector<std::string_view> missing;
  for (const OpRow* row : DrawnRows())
    if (ops.count(std::string(row->name)) == 0) missing.push_back(row->name);
  // Ops on bits, tests for infinities and NaN, given elements, gradients of gradients, and weights in blocks, which are
  // not trained.
  const std::set<std::string_view> others = {"elements", "popcount",    "count_leading_zeros",
                                             "bitcast",  "max_pool_at", "matmul_q"};
  for (const std::string_view op : missing)
    EXPECT_TRUE(op.rfind("is_", 0) == 0 || op.rfind("shift_", 0) == 0 || others.contains(op))
        << op << " is in no program";
}

}  // namespace
}  // namespace meshwork::random_program_test
