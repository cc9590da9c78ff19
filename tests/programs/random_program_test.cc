// What the compiler and the executor make of random programs, beside the same programs on one device, node by
// node; padding is full of NaN. MESHWORK_LONG_TESTS=1 tries many more.
#include "support/random_program.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "spmd/compile.h"
#include "support/long_tests.h"
#include "support/read_back.h"
#include "support/tensors.h"

namespace meshwork {
namespace {

uint64_t NumPrograms() { return LongTests() ? 20000 : 800; }

// The largest number of any value, infinity if one is no number: what rounding errors are measured by.
double ScaleOf(const std::vector<HostTensor>& values) {
  double scale = 1;
  for (const HostTensor& value : values)
    for (double x : value.Numbers()) scale = std::isfinite(x) ? std::max(scale, std::abs(x)) : INFINITY;
  return scale;
}

// What differs beyond rounding, or "".
std::string Differs(const std::string& name, const Tensor& found, const HostTensor& expected, double scale) {
  if (found.type() != expected.type())
    return fmt::format("{} is {}, not {}", name, found.type().ToString(), expected.type().ToString());
  const DType dtype = found.type().dtype;
  const double epsilon = dtype == F64 ? 1e-12 : dtype == F32 ? 1e-5 : dtype == BF16 ? 2e-2 : 0;
  const std::vector<double> a = NumbersOf(found), b = expected.Numbers();
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= epsilon * scale))
      return fmt::format("{}[{}] is {}, not {}", name, i, a[i], b[i]);
  return "";
}

class ProgramTrial {
 public:
  ProgramTrial(const RandomProgram& random, WorkerPool& pool) : random_(random), pool_(pool) {}

  // What is wrong with the compiled program, or "".
  std::string Run() {
    const absl::StatusOr<Program> program = Compile(random_.graph);
    if (!program.ok()) return std::string(MessageOf(program.status()));
    std::map<std::string, DTensor> state;
    auto executor = Executor::Create(*program, pool_, {.poison_padding = true}, &state);
    if (!executor.ok()) return std::string(MessageOf(executor.status()));
    std::map<std::string, Tensor> feeds, outputs;
    for (const Argument& argument : random_.graph.arguments()) {
      const ValueInfo& info = random_.graph.value(argument.value);
      const Tensor tensor = ToTensor(HostTensor(info.type, random_.feeds.at(info.name)));
      if (!argument.is_variable) feeds.emplace(info.name, tensor);
      else if (absl::Status status = Pack(tensor, state.at(info.name)); !status.ok())
        return std::string(MessageOf(status));
    }
    if (absl::Status status = (*executor)->Run(feeds, &outputs); !status.ok())
      return std::string(MessageOf(status));
    const std::string error = Compare(outputs, state);
    return error.empty() ? "" : error + "\n" + PrintGraph(program->body);
  }

 private:
  std::string Compare(const std::map<std::string, Tensor>& outputs,
                      const std::map<std::string, DTensor>& state) {
    const InterpretedStep expected = Interpret(random_.graph, random_.feeds);
    const double scale = ScaleOf(InterpretAll(random_.graph, random_.feeds));
    std::string error;
    for (const auto& [name, value] : expected.outputs)
      if (error.empty()) error = Differs(name, outputs.at(name), value, scale);
    for (const auto& [name, value] : expected.variables) {
      const absl::StatusOr<Tensor> found = Unpack(state.at(name), /*check_replicas=*/true);
      if (!found.ok()) return std::string(MessageOf(found.status()));
      if (error.empty()) error = Differs(name, *found, value, scale);
    }
    return error;
  }

  const RandomProgram& random_;
  WorkerPool& pool_;
};

TEST(RandomProgramTest, GivesTheOneDeviceResult) {
  const RandomPrograms programs;
  WorkerPool pool(2);
  uint64_t wild = 0;
  std::set<std::string_view> ops;
  for (uint64_t seed = 0; seed < NumPrograms(); ++seed) {
    const RandomProgram random = programs.Draw(seed);
    for (const Node& node : random.graph.nodes()) ops.insert(node.row->name);
    if (!std::isfinite(ScaleOf(InterpretAll(random.graph, random.feeds)))) {
      ++wild;
      continue;
    }
    EXPECT_EQ(ProgramTrial(random, pool).Run(), "") << "seed " << seed << "\n" << PrintGraph(random.graph);
    if (HasFailure()) break;
  }
  EXPECT_LT(wild, NumPrograms() / 10) << "too many programs are left out for numbers that are none";
  EXPECT_EQ(ops.size(), RowsUnderContract().size()) << "some op is in no program";
}

TEST(RandomProgramTest, ReadsBackFromItsText) {
  const RandomPrograms programs;
  for (uint64_t seed = 0; seed < NumPrograms(); ++seed)
    ASSERT_EQ(ReadBackError(programs.Draw(seed).graph), "") << "seed " << seed;
}

}  // namespace
}  // namespace meshwork
