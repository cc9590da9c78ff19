// What the compiler and the executor make of one op: arguments and results pinned to every placement of
// every letter, and to random ones, compared with the row's kernel on one device. Sizes are even and uneven,
// and some leave devices without any element; padding is full of NaN.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contract/direct.h"
#include "contract/host_tensor.h"
#include "support/sample.h"
#include "contract/tally.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "spmd/compile.h"
#include "support/read_back.h"

namespace meshwork {
namespace {

using testing::IsEmpty;

constexpr std::string_view kMeshes[] = {"x=2", "x=3", "x=2,y=2"};
constexpr int kRandomPlacements = 12;  // per sample and mesh

Tensor ToTensor(const HostTensor& host) {
  Tensor tensor(host.type);
  std::memcpy(tensor.raw(), ToBytes(host).data(), static_cast<size_t>(tensor.bytes()));
  return tensor;
}

// One op with its data and its one-device results.
class CompiledTrial {
 public:
  CompiledTrial(const Sample& sample, WorkerPool& pool) : sample_(sample), pool_(pool) {
    Random random(11);
    for (const Type& type : sample.operands) operands_.push_back(random.Draw(type, *sample.row));
    for (size_t i = 0; i < operands_.size(); ++i) feeds_[fmt::format("a{}", i)] = ToTensor(operands_[i]);
    expected_ = RunKernel(WholeCall(sample, operands_));
  }

  // Counts into the tally; adds a line to `findings` if the program fails or its results are others.
  void Try(const Placement& placement, const Mesh& mesh, std::vector<std::string>& findings) {
    ++TheTally().placements;
    const std::string error = Run(BuildGraph(sample_, placement.operands, placement.results, mesh));
    if (error.empty()) return;
    ++TheTally().wrong;
    findings.push_back(
        fmt::format("{} on {}: {}: {}", sample_.ToString(), mesh.ToString(), placement.ToString(), error));
  }

 private:
  // What is wrong, or "".
  std::string Run(const Graph& global) {
    const absl::StatusOr<Program> program = Compile(global);
    if (!program.ok()) return std::string(MessageOf(program.status()));
    if (std::string error = ReadBackError(program->body); !error.empty())
      return "the local program does not read back: " + error;
    std::map<std::string, DTensor> variables;
    auto executor = Executor::Create(*program, pool_, {.poison_padding = true}, &variables);
    if (!executor.ok()) return fmt::format("{}\n{}", MessageOf(executor.status()), PrintGraph(program->body));
    std::map<std::string, Tensor> outputs;
    if (absl::Status status = (*executor)->Run(feeds_, &outputs); !status.ok())
      return std::string(MessageOf(status));
    return Differs(outputs) ? "other values:\n" + PrintGraph(program->body) : "";
  }

  bool Differs(const std::map<std::string, Tensor>& outputs) const {
    for (size_t i = 0; i < expected_.size(); ++i) {
      const Tensor& tensor = outputs.at(fmt::format("r{}", i));
      const HostTensor found = FromBytes(tensor.type(), tensor.raw());
      if (tensor.type() != expected_[i].type || !Agree(tensor.dtype(), found.values, expected_[i].values))
        return true;
    }
    return false;
  }

  const Sample& sample_;
  WorkerPool& pool_;
  std::vector<HostTensor> operands_, expected_;
  std::map<std::string, Tensor> feeds_;
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
  for (std::string_view text : GetParam()->samples) {
    for (const Sample& sample : Sizes(ParseSample(*GetParam(), text).value())) {
      CompiledTrial trial(sample, *pool_);
      const Rule rule = sample.rule();
      for (std::string_view name : kMeshes) {
        const Mesh mesh = Mesh::Parse(name).value();
        for (const LetterAxes& axes : AllLetterAxes(mesh, rule.letters.size()))
          trial.Try(PlacementOf(rule, axes, mesh), mesh, findings);
        for (int i = 0; i < kRandomPlacements; ++i)
          trial.Try(RandomPlacement(sample, mesh, engine), mesh, findings);
      }
    }
  }
  EXPECT_THAT(findings, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Rows, CompiledContractTest, testing::ValuesIn(RowsUnderContract()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace meshwork
