// What the compiler and the executor make of one op: arguments and results pinned to every placement of
// every letter, and to random ones, strided among them, compared with the row's kernel on one device. Sizes
// are even and uneven, and some leave devices without any element; padding is full of NaN. Where an axis is
// free, some operands owe a reduction over it: the compiler may pass it on, or has to pay it before the op.
// MESHWORK_LONG_TESTS=1 takes all placements; without it, every so many-th.
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/direct.h"
#include "contract/host_tensor.h"
#include "contract/owed.h"
#include "contract/tally.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "spmd/compile.h"
#include "support/long_tests.h"
#include "support/read_back.h"
#include "support/sample.h"

namespace meshwork {
namespace {

using testing::IsEmpty;

constexpr std::string_view kMeshes[] = {"x=2", "x=3", "x=4", "x=2,y=2", "x=2,y=3"};
constexpr int kRandomPlacements = 12;  // per sample and mesh

Tensor ToTensor(const HostTensor& host) {
  Tensor tensor(host.type);
  std::memcpy(tensor.raw(), ToBytes(host).data(), static_cast<size_t>(tensor.bytes()));
  return tensor;
}

// What some operands owe over one axis.
struct Debt {
  int axis;
  ReduceOp op;
  std::vector<bool> operands;
};

// The row that leaves a value owing `op` where it reduces a sharded dim.
std::string_view ReductionRow(ReduceOp op) {
  constexpr std::string_view kRows[] = {"reduce_sum",  "reduce_max", "reduce_min",
                                        "reduce_prod", "reduce_all", "reduce_any"};
  return kRows[static_cast<int>(op)];
}

// The tensors one behind the other along a new first dim.
Tensor Stacked(const std::vector<HostTensor>& parts) {
  HostTensor stack = parts[0];
  stack.type.shape.insert(stack.type.shape.begin(), static_cast<int64_t>(parts.size()));
  for (size_t i = 1; i < parts.size(); ++i)
    stack.values.insert(stack.values.end(), parts[i].values.begin(), parts[i].values.end());
  return ToTensor(stack);
}

// Compiles and runs a program of one op, and compares what it returns as r0, r1, ….
class CompiledTrial {
 public:
  using Feeds = std::map<std::string, Tensor>;

  CompiledTrial(const Sample& sample, WorkerPool& pool) : sample_(sample), pool_(pool) {
    Random random(11);
    for (const Type& type : sample.operands) operands_.push_back(random.Draw(type, *sample.row));
    for (size_t i = 0; i < operands_.size(); ++i) feeds_[fmt::format("a{}", i)] = ToTensor(operands_[i]);
    expected_ = RunKernel(WholeCall(sample, operands_));
  }

  // Counts into the tally; adds a line to `findings` if the program fails or its results are others.
  void Try(const Placement& placement, const Mesh& mesh, std::vector<std::string>& findings) {
    Note(Run(BuildGraph(sample_, placement.operands, placement.results, mesh), feeds_, expected_), placement,
         mesh, "", findings);
  }

  // The same with operands that owe: an argument of their parts, stacked along the axis, is reduced first.
  void TryOwing(const Placement& placement, const Debt& debt, const Mesh& mesh,
                std::vector<std::string>& findings) {
    const int64_t devices = mesh.axis(debt.axis).size;
    Random random(12);
    Feeds feeds;
    std::vector<HostTensor> operands = operands_;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string name = fmt::format("a{}", i);
      if (!debt.operands[i]) {
        feeds[name] = feeds_.at(name);
        continue;
      }
      Owed owed = OwedDraw(random, *sample_.row, sample_.operands[i], debt.op, devices, /*draw=*/0).Make();
      feeds[name] = Stacked(owed.parts);
      operands[i] = std::move(owed.whole);
    }
    const std::vector<HostTensor> expected = RunKernel(WholeCall(sample_, operands));
    Note(Run(OwingGraph(placement, debt, mesh), feeds, expected), placement, mesh,
         fmt::format(" owing {} over {}", ReduceOpName(debt.op), mesh.axis(debt.axis).name), findings);
  }

 private:
  Graph OwingGraph(const Placement& placement, const Debt& debt, const Mesh& mesh) const {
    Graph graph(mesh);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < placement.operands.size(); ++i) {
      Type type = sample_.operands[i];
      std::vector<AxisList> dims = placement.operands[i].dims();
      if (debt.operands[i]) {
        type.shape.insert(type.shape.begin(), mesh.axis(debt.axis).size);
        dims.insert(dims.begin(), AxisList{debt.axis});
      }
      operands.push_back(graph.AddArgument(
          {.name = fmt::format("a{}", i), .type = type, .global = type, .layout = Layout(mesh, dims)},
          false));
      if (!debt.operands[i]) continue;
      const int sum = graph
                          .TryAdd(GetOp(ReductionRow(debt.op)), {{operands.back()}},
                                  {{"dims", std::vector<int64_t>{0}}}, {"sample", 1})
                          .value();
      operands.back() = graph.nodes()[sum].results[0];
    }
    AddSample(graph, sample_, operands, placement.results);
    return graph;
  }

  void Note(const std::string& error, const Placement& placement, const Mesh& mesh, std::string_view owing,
            std::vector<std::string>& findings) {
    ++TheTally().placements;
    if (error.empty()) return;
    ++TheTally().wrong;
    findings.push_back(fmt::format("{} on {}: {}{}: {}", sample_.ToString(), mesh.ToString(),
                                   placement.ToString(), owing, error));
  }

  // What is wrong, or "".
  std::string Run(const Graph& global, const Feeds& feeds, const std::vector<HostTensor>& expected) {
    const absl::StatusOr<Program> program = Compile(global);
    if (!program.ok()) return std::string(MessageOf(program.status()));
    if (std::string error = ReadBackError(program->body); !error.empty())
      return "the local program does not read back: " + error;
    std::map<std::string, DTensor> variables;
    auto executor = Executor::Create(*program, pool_, {.poison_padding = true}, &variables);
    if (!executor.ok()) return fmt::format("{}\n{}", MessageOf(executor.status()), PrintGraph(program->body));
    std::map<std::string, Tensor> outputs;
    if (absl::Status status = (*executor)->Run(feeds, &outputs); !status.ok())
      return std::string(MessageOf(status));
    return Differs(outputs, expected) ? "other values:\n" + PrintGraph(program->body) : "";
  }

  static bool Differs(const std::map<std::string, Tensor>& outputs, const std::vector<HostTensor>& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const Tensor& tensor = outputs.at(fmt::format("r{}", i));
      const HostTensor found = FromBytes(tensor.type(), tensor.raw());
      if (tensor.type() != expected[i].type || !AgreeOrNaN(tensor.dtype(), found.values, expected[i].values))
        return true;
    }
    return false;
  }

  const Sample& sample_;
  WorkerPool& pool_;
  std::vector<HostTensor> operands_, expected_;
  Feeds feeds_;
};

// ---- Placements.

using LetterAxes = std::vector<AxisList>;

// Every way to put each axis of the mesh on a letter or on none; two axes on one letter in both orders.
std::vector<LetterAxes> AllLetterAxes(const Mesh& mesh, size_t letters) {
  std::vector<LetterAxes> all = {LetterAxes(letters)};
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    std::vector<LetterAxes> next = all;
    for (const LetterAxes& axes : all) {
      for (size_t l = 0; l < letters; ++l) {
        for (size_t at = 0; at <= axes[l].size(); ++at) {
          next.push_back(axes);
          next.back()[l].insert(next.back()[l].begin() + static_cast<int64_t>(at), axis);
        }
      }
    }
    all = std::move(next);
  }
  return all;
}

Placement PlacementOf(const Rule& rule, const LetterAxes& axes, const Mesh& mesh) {
  auto layout = [&](const LetterList& letters) {
    std::vector<AxisList> dims;
    for (int8_t letter : letters) dims.push_back(letter == kNoLetter ? AxisList() : axes[letter]);
    return Layout(mesh, std::move(dims));
  };
  Placement placement;
  for (const LetterList& letters : rule.operands) placement.operands.push_back(layout(letters));
  for (const LetterList& letters : rule.results) placement.results.push_back(layout(letters));
  return placement;
}

// Letters cut in two factors where they can be, of which each axis cuts one, or none.
Placement StridedPlacement(const Sample& sample, const Rule& rule, const Mesh& mesh,
                           std::mt19937_64& engine) {
  std::vector<FactorList> cuts;
  for (const Letter& letter : rule.letters) {
    const int64_t inner = 2 + static_cast<int64_t>(engine() % 2);
    if (letter.size % inner == 0) cuts.push_back({{letter.size / inner, {}}, {inner, {}}});
    else cuts.push_back({{letter.size, {}}});
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const size_t l = engine() % (cuts.size() + 1);
    if (l < cuts.size()) cuts[l][engine() % cuts[l].size()].axes.push_back(axis);
  }
  auto layout = [&](const LetterList& letters, const Type& type) {
    std::vector<FactorList> dims;
    for (size_t d = 0; d < letters.size(); ++d) {
      const bool fits = letters[d] != kNoLetter && rule.letters[letters[d]].size == type.shape[d];
      dims.push_back(fits ? cuts[letters[d]] : FactorList{{type.shape[d], {}}});
    }
    return Layout::Strided(mesh, dims);
  };
  Placement placement;
  for (size_t i = 0; i < rule.operands.size(); ++i)
    placement.operands.push_back(layout(rule.operands[i], sample.operands[i]));
  for (size_t i = 0; i < rule.results.size(); ++i)
    placement.results.push_back(layout(rule.results[i], sample.results[i]));
  return placement;
}

// Each axis on any dim or none, whatever the rule says.
Placement RandomPlacement(const Sample& sample, const Mesh& mesh, std::mt19937_64& engine) {
  auto layout = [&](const Type& type) {
    std::vector<AxisList> dims(type.shape.size());
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      const size_t d = engine() % (dims.size() + 1);
      if (d == dims.size()) continue;
      dims[d].insert(engine() % 2 == 0 ? dims[d].begin() : dims[d].end(), axis);
    }
    return Layout(mesh, std::move(dims));
  };
  Placement placement;
  for (const Type& type : sample.operands) placement.operands.push_back(layout(type));
  for (const Type& type : sample.results) placement.results.push_back(layout(type));
  return placement;
}

// A reduction over an axis that no letter lies on, owed by some operands: as a pass of the rule has it, or
// any.
std::optional<Debt> RandomDebt(const Sample& sample, const Rule& rule, const LetterAxes& axes,
                               const Mesh& mesh, std::mt19937_64& engine) {
  std::vector<int> free;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (std::none_of(axes.begin(), axes.end(),
                     [&](const AxisList& list) { return AxisSet(list).Contains(axis); }))
      free.push_back(axis);
  }
  if (free.empty() || sample.operands.empty()) return std::nullopt;
  Debt debt{free[engine() % free.size()], kAllReduceOps[engine() % std::size(kAllReduceOps)], {}};
  if (!rule.passes.empty() && engine() % 4 != 0) debt.op = rule.passes[engine() % rule.passes.size()].in;
  // Parts in bf16 do not add up to the whole.
  const bool rounds = debt.op == ReduceOp::kSum || debt.op == ReduceOp::kProd;
  auto may_owe = [&](DType dtype) { return MayOwe(dtype, debt.op) && !(rounds && dtype == BF16); };
  const uint64_t chosen = engine();
  for (size_t i = 0; i < sample.operands.size(); ++i)
    debt.operands.push_back(may_owe(sample.operands[i].dtype) && (chosen % 3 == 0 || chosen >> (i + 2) & 1));
  if (std::none_of(debt.operands.begin(), debt.operands.end(), [](bool owes) { return owes; }))
    return std::nullopt;
  return debt;
}

// The sample as it stands, and with all its letters of a few sizes: 12 is even on all meshes, 5 and 7 are
// uneven, and of 1, 3 and 5 some devices get nothing.
std::vector<Sample> Sizes(const Sample& sample) {
  std::vector<Sample> sizes = {sample};
  for (int64_t size : {1, 3, 5, 7, 12}) {
    const size_t letters = sample.rule().letters.size();
    if (letters == 0) break;
    if (auto resized = Resize(sample, std::vector<int64_t>(letters, size)))
      sizes.push_back(*std::move(resized));
  }
  return sizes;
}

class CompiledContractTest : public testing::TestWithParam<const OpRow*> {
 protected:
  static void SetUpTestSuite() { pool_ = std::make_unique<WorkerPool>(1); }
  static void TearDownTestSuite() { pool_.reset(); }

  static inline std::unique_ptr<WorkerPool> pool_;
};

TEST_P(CompiledContractTest, EveryPlacementGivesTheOneDeviceResult) {
  std::vector<std::string> findings;
  std::mt19937_64 engine(5);
  int64_t count = 0;
  for (std::string_view text : GetParam()->samples) {
    for (const Sample& sample : Sizes(ParseSample(*GetParam(), text).value())) {
      CompiledTrial trial(sample, *pool_);
      const Rule rule = sample.rule();
      for (std::string_view name : kMeshes) {
        const Mesh mesh = Mesh::Parse(name).value();
        for (const LetterAxes& axes : AllLetterAxes(mesh, rule.letters.size())) {
          if (count++ % EverySo(4) != 0) continue;
          const Placement placement = PlacementOf(rule, axes, mesh);
          trial.Try(placement, mesh, findings);
          if (const std::optional<Debt> debt = RandomDebt(sample, rule, axes, mesh, engine))
            trial.TryOwing(placement, *debt, mesh, findings);
        }
        for (int64_t i = 0; i < kRandomPlacements; i += EverySo(4)) {
          trial.Try(RandomPlacement(sample, mesh, engine), mesh, findings);
          trial.Try(StridedPlacement(sample, rule, mesh, engine), mesh, findings);
        }
      }
    }
  }
  EXPECT_THAT(findings, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Rows, CompiledContractTest, testing::ValuesIn(RowsUnderContract()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace meshwork
