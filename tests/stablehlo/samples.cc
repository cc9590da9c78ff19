// Writes, for each sample of each row that has a form in StableHLO, a module and what it must compute, for tests/stablehlo/check:
//
//   stablehlo_samples DIR [OP...]             DIR/matmul.0.mlir, DIR/matmul.0.json
//   stablehlo_samples --random COUNT DIR      random programs, compiled for their meshes: DIR/random.7.mlir, …; those with loops
//                                             are DIR/loops.7.mlir
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/sample.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/stablehlo/forms.h"
#include "meshwork/stablehlo/write.h"
#include "ops/apply.h"
#include "support/program_trial.h"
#include "support/random_program.h"

namespace meshwork {
namespace {

std::string NumberText(double x) {
  return std::isnan(x)   ? "NaN"
         : std::isinf(x) ? (x > 0 ? "Infinity" : "-Infinity")
                         : fmt::format("{:.17e}", x);
}

std::string NumbersText(const Type& type, const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (const double x : numbers) texts.push_back(NumberText(x));
  return fmt::format("{{\"dtype\": \"{}\", \"shape\": [{}], \"numbers\": [{}]}}", DTypeName(type.dtype),
                     fmt::join(type.shape, ", "), fmt::join(texts, ", "));
}

class Drawer {
 public:
  std::vector<double> Draw(const OpRow& row, const Type& type) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < type.num_elements(); ++i) {
      const auto k = static_cast<double>(Next() % 64);
      if (IsReal(type.dtype))
        numbers.push_back(row.sample_low + (row.sample_high - row.sample_low) * (k + 0.5) / 64);
      else if (type.dtype == BOOL) numbers.push_back(static_cast<double>(Next() % 2));
      else
        numbers.push_back(static_cast<double>(
            row.sample_int_low +
            static_cast<int64_t>(Next() % static_cast<uint64_t>(row.sample_int_high - row.sample_int_low))));
    }
    return HostTensor(type, numbers).Numbers();  // rounded to the dtype
  }

 private:
  uint64_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  uint64_t state_ = 1;
};

void Write(const std::string& stem, const OpRow& row, std::string_view text, Drawer& drawer) {
  const Sample sample = ParseSample(row, text).value();
  std::vector<Layout> operands, results;
  const Mesh mesh;
  for (const Type& type : sample.operands) operands.push_back(Layout::Replicated(mesh, type.rank()));
  for (const Type& type : sample.results) results.push_back(Layout::Replicated(mesh, type.rank()));
  const Graph graph = BuildGraph(sample, operands, results, mesh);
  const absl::StatusOr<std::string> module = WriteStableHlo(graph);
  if (!module.ok()) {
    fmt::print("{}: {}\n", sample.ToString(), std::string(module.status().message()));
    return;
  }
  std::ofstream(stem + ".mlir") << *module;
  NumbersByName feeds;
  std::vector<std::string> inputs, outputs;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    const std::vector<double> numbers = drawer.Draw(row, sample.operands[i]);
    feeds[fmt::format("a{}", i)] = numbers;
    inputs.push_back(NumbersText(sample.operands[i], numbers));
  }
  const InterpretedStep step = Interpret(graph, feeds);
  for (size_t r = 0; r < sample.results.size(); ++r)
    outputs.push_back(NumbersText(sample.results[r], step.outputs.at(fmt::format("r{}", r)).Numbers()));
  std::ofstream(stem + ".json") << fmt::format(
      "{{\"sample\": \"{}\", \"inputs\": [{}], \"outputs\": [{}]}}\n", text, fmt::join(inputs, ", "),
      fmt::join(outputs, ", "));
}

// ---- Random programs. Of each value, the numbers of every device's block; null where it is padding.

std::string BlocksText(const ValueInfo& value, const Mesh& mesh, const std::vector<double>& numbers) {
  std::vector<std::string> devices;
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    std::vector<std::string> texts;
    for (int64_t i = 0; i < value.type.num_elements(); ++i) {
      const Shape local = IndexAt(value.type.shape, i);
      if (!value.layout->IsHeld(value.global.shape, device, local)) {
        texts.emplace_back("null");
        continue;
      }
      const Shape at = value.layout->GlobalIndex(value.global.shape, device, local);
      texts.push_back(NumberText(numbers[static_cast<size_t>(Position(value.global.shape, at))]));
    }
    devices.push_back(fmt::format("[{}]", fmt::join(texts, ", ")));
  }
  return fmt::format("{{\"dtype\": \"{}\", \"shape\": [{}], \"devices\": [{}]}}", DTypeName(value.type.dtype),
                     fmt::join(value.type.shape, ", "), fmt::join(devices, ", "));
}

// Whether a module was written; what has no form is counted by its message.
bool WriteRandom(const std::string& stem, const RandomProgram& random, std::map<std::string, int>& missing) {
  const absl::StatusOr<Program> program = Compile(random.graph);
  if (!program.ok()) return false;  // its layouts do not go together
  const Graph& local = program->body;
  const absl::StatusOr<std::string> module = WriteStableHlo(local);
  if (!module.ok()) {
    ++missing[std::string(module.status().message())];
    return false;
  }
  const Expected expected = ExpectedOf(random);
  if (!std::isfinite(expected.scale)) return false;
  std::vector<std::string> inputs, outputs;
  for (const Argument& argument : local.arguments()) {
    const ValueInfo& value = local.value(argument.value);
    inputs.push_back(
        BlocksText(value, local.mesh(), HostTensor(value.global, random.feeds.at(value.name)).Numbers()));
  }
  for (const OutputInfo& output : local.outputs())
    outputs.push_back(
        BlocksText(local.value(output.value), local.mesh(), expected.step.outputs.at(output.name).Numbers()));
  for (const VariableUpdate& update : local.updates())
    outputs.push_back(BlocksText(local.value(update.value), local.mesh(),
                                 expected.step.variables.at(local.argument_name(update.argument)).Numbers()));
  std::ofstream(stem + ".mlir") << *module;
  std::ofstream(stem + ".json") << fmt::format(
      "{{\"sample\": \"{}\", \"num_devices\": {}, \"scale\": {}, \"inputs\": [{}], \"outputs\": [{}]}}\n",
      local.mesh().ToString(), local.mesh().num_devices(), expected.scale, fmt::join(inputs, ", "),
      fmt::join(outputs, ", "));
  return true;
}

int RunRandom(int count, const std::string& dir) {
  std::filesystem::create_directories(dir);
  const RandomPrograms programs;
  std::map<std::string, int> missing;
  int written = 0;
  for (int seed = 0; seed < count; ++seed) {
    written += WriteRandom(fmt::format("{}/random.{}", dir, seed), programs.Draw(static_cast<uint64_t>(seed)),
                           missing)
                   ? 1
                   : 0;
    if (seed % 3 == 0)
      written += WriteRandom(fmt::format("{}/loops.{}", dir, seed),
                             programs.DrawLoops(static_cast<uint64_t>(seed)), missing)
                     ? 1
                     : 0;
  }
  for (const auto& [message, times] : missing) fmt::print("{} x {}\n", times, message);
  fmt::print("{} programs written\n", written);
  return 0;
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "--random")
    return RunRandom(std::stoi(arguments[1]), arguments[2]);
  std::filesystem::create_directories(arguments[0]);
  for (const OpRow* row : AllOps()) {
    const bool chosen = arguments.size() == 1 ||
                        std::find(arguments.begin() + 1, arguments.end(), row->name) != arguments.end();
    if (!chosen || row->kind != OpKind::kCompute || stablehlo::FindForm(row->name) == nullptr) continue;
    Drawer drawer;
    int i = 0;
    for (const std::string_view text : row->samples)
      Write(fmt::format("{}/{}.{}", arguments[0], row->name, i++), *row, text, drawer);
  }
  return 0;
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) { return meshwork::Run({argv + 1, argv + argc}); }
