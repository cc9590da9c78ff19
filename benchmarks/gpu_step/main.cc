// gpu_step: training steps on a GPU, and how near they come to what the GPU can. See --help.
//
// Exit code 2: the input is wrong, or there is no GPU; 1: a step failed.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/gpu_step/works.h"
#include "benchmarks/lists.h"
#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/file.h"

namespace meshwork {
namespace {

constexpr int64_t kWarmUp = 8;  // more than there are bindings
constexpr int64_t kMost = int64_t{1} << 40;

absl::StatusOr<GpuOptions> ParseOptions(int argc, const char* const* argv) {
  GpuOptions o;
  std::string works = "matmul chain mlp gpt", meshes = "batch=1 batch=8 batch=4,model=2",
              batches = "128 8192";
  FlagTable flags(
      "gpu_step",
      "Times on a GPU: a product of matrices in bf16 beside cuBLASLt's; a chain of elementwise ops beside the\n"
      "driver's copy; a training step of the MNIST MLP (784-700-500-10, Adam) on meshes of logical devices, and of a\n"
      "transformer of the size of GPT-2 (bf16, Adam). A training step is fed from the host's memory, and ends when its\n"
      "loss is there. All take turns, a round of steps each. A name that ends in /prefetch is the MLP in a training loop\n"
      "whose next batch is copied while a step runs (train/prefetch_to_device.h).");
  flags.Text("works", "a list with spaces", &works);
  flags.Text("devices", "cuda, or cuda:N", &o.devices);
  flags.Text("meshes", "of the MLP, a list with spaces; the first is what the others are compared with",
             &meshes);
  flags.Text("batches", "of the MLP, a list with spaces", &batches);
  flags.Choice("precision", "of the MLP's products", &o.precision, {"f32", "tf32"});
  flags.Choice("prefetch", "times the MLP with prefetched batches, too", &o.prefetch, {"on", "off"});
  flags.Int("size", "of the matrices", &o.size, 1, kMost);
  flags.Int("elements", "of the chain", &o.elements, 1024, kMost);
  flags.Int("gpt-batch", "sequences per step", &o.gpt_batch, 1, kMost);
  flags.Int("layers", "of the transformer", &o.gpt.layers, 0, kMost);
  flags.Int("dim", "units of a token", &o.gpt.dim, 1, kMost);
  flags.Int("heads", "of attention; they divide the units", &o.gpt.heads, 1, kMost);
  flags.Int("sequence", "tokens of a sequence", &o.gpt.sequence, 1, kMost);
  flags.Int("vocabulary", "tokens that there are", &o.gpt.vocabulary, 1, kMost);
  flags.Int("repeats", "rounds of each", &o.repeats, 1, kMost);
  flags.Real("seconds", "of a round", &o.seconds, 0);
  flags.Choice("profile", "prints where the time of the steps went, which are launched one by one then",
               &o.profile, {"on", "off"});
  flags.Text("json", "writes what was measured as JSON into this file", &o.json);
  flags.Switch("turns", "says what it can time, and times what standard input names, for benchmarks/peers",
               &o.takes_turns);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  o.works = Split(works, ' ');
  if (o.works.empty()) return InvalidArgument("--works: the list is empty; write for example \"mlp gpt\".");
  o.meshes = Split(meshes, ' ');
  if (o.meshes.empty())
    return InvalidArgument("--meshes: the list is empty; write for example \"batch=1 batch=8\".");
  MESHWORK_ASSIGN_OR_RETURN(o.batches, ParseBatches("--batches", batches, ' '));
  return o;
}

// Seconds of a step, in a round of about `seconds`.
absl::StatusOr<double> Round(GpuWork& work, double seconds, double& loss) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  int64_t steps = 0;
  double elapsed = 0;
  while (elapsed < seconds || steps == 0) {
    MESHWORK_ASSIGN_OR_RETURN(loss, work.step());
    ++steps;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return elapsed / static_cast<double>(steps);
}

absl::Status WarmUp(GpuWork& work, double& loss) {
  for (int64_t step = 0; step < kWarmUp; ++step) {
    MESHWORK_ASSIGN_OR_RETURN(loss, work.step());
  }
  return absl::OkStatus();
}

// Lines of JSON, one for all that can be timed, and one for each name that comes in.
absl::Status TakeTurns(const GpuOptions& o, std::vector<GpuWork>& works) {
  std::map<std::string, GpuWork*> by_name;
  nlohmann::ordered_json ready = {{"version", "meshwork"}, {"works", nlohmann::json::object()}};
  for (GpuWork& work : works) {
    double loss = 0;
    MESHWORK_RETURN_IF_ERROR(WarmUp(work, loss));
    by_name[work.name] = &work;
    ready["works"][work.name] = {{"loss", loss}, {"flops", work.flops}, {"bytes", work.bytes}};
  }
  std::cout << ready.dump() << std::endl;
  for (std::string name; std::getline(std::cin, name);) {
    if (!by_name.contains(name)) return InvalidArgument("standard input: there is no work \"{}\".", name);
    double loss = 0;
    MESHWORK_ASSIGN_OR_RETURN(const double seconds, Round(*by_name[name], o.seconds, loss));
    std::cout << nlohmann::json{{"ms", 1e3 * seconds}, {"loss", loss}}.dump() << std::endl;
  }
  return absl::OkStatus();
}

struct Timed {
  double loss = 0;
  std::vector<double> rounds = {};  // seconds of a step
};

// What a work is compared with.
std::string BesideOf(const GpuWork& work, const std::vector<GpuWork>& works) {
  if (!work.beside.empty()) return work.beside;
  const std::string model = work.name.substr(0, work.name.rfind('/'));
  for (const GpuWork& other : works)
    if (other.name.substr(0, other.name.rfind('/')) == model) return other.name;
  return work.name;
}

absl::Status Main(const GpuOptions& o) {
  if (!o.json.empty()) MESHWORK_RETURN_IF_ERROR(CheckWritable(o.json));
  MESHWORK_ASSIGN_OR_RETURN(std::vector<GpuWork> works, MakeWorks(o));
  if (o.takes_turns) return TakeTurns(o, works);
  std::map<std::string, Timed> timed;
  for (GpuWork& work : works) MESHWORK_RETURN_IF_ERROR(WarmUp(work, timed[work.name].loss));
  for (int64_t repeat = 0; repeat < o.repeats; ++repeat)
    for (GpuWork& work : works) {
      double loss = 0;
      MESHWORK_ASSIGN_OR_RETURN(timed[work.name].rounds.emplace_back(), Round(work, o.seconds, loss));
    }
  nlohmann::ordered_json json = {{"devices", o.devices}, {"works", nlohmann::json::array()}};
  fmt::print("{:<34} {:>10} {:>10} {:>10} {:>9}  {}\n", "", "ms", "TFLOP/s", "GB/s", "ratio", "to");
  for (const GpuWork& work : works) {
    const std::string beside = BesideOf(work, works);
    std::vector<double> ratios;
    const Timed& own = timed[work.name];
    for (size_t r = 0; r < own.rounds.size(); ++r) ratios.push_back(own.rounds[r] / timed[beside].rounds[r]);
    const double seconds = Median(own.rounds), ratio = Median(ratios);
    fmt::print("{:<28} {:>10.4f} {:>10.1f} {:>10.1f} {:>9.3f}  {}\n", work.name, 1e3 * seconds,
               1e-12 * work.flops / seconds, 1e-9 * work.bytes / seconds, ratio, beside);
    json["works"].push_back({{"name", work.name},
                             {"ms", 1e3 * seconds},
                             {"tflops", 1e-12 * work.flops / seconds},
                             {"gb_per_s", 1e-9 * work.bytes / seconds},
                             {"ratio", ratio},
                             {"to", beside},
                             {"loss", own.loss}});
  }
  if (!o.json.empty()) MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(o.json, json.dump(2) + "\n"));
  for (const GpuWork& work : works)
    if (o.profile == "on" && work.profile != nullptr)
      fmt::print("\n{}\n{}\n{}", work.name, work.profile().ToString(), work.profile().ByOp().ToString());
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("gpu_step", meshwork::ParseOptions(argc, argv), meshwork::Main,
                          meshwork::IsNotInternal);
}
