// gpu_step: training steps on a GPU, and how near they come to what the GPU can. See --help.
//
// Exit code 2: the input is wrong, there is no GPU, or a work could not be made; 1: a step failed.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "benchmarks/gpu_step/options.h"
#include "benchmarks/gpu_step/training.h"
#include "benchmarks/gpu_step/works.h"
#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kWarmUp = 8;  // more than there are bindings

// A work that is ready.
struct Ready {
  GpuWorkPlan plan;
  GpuWork work;
  double loss = 0;                  // after the warm-up
  double first_seconds = 0;         // from nothing, its data aside, until the first step has ended
  std::vector<double> rounds = {};  // seconds of a step

  const std::string& name() const { return plan.name; }
};

absl::StatusOr<Ready> MakeReady(GpuWorkPlan plan) {
  absl::StatusOr<GpuWork> work = plan.make();
  if (!work.ok()) return Annotate(work.status(), plan.name + ": ");
  Ready ready{.plan = std::move(plan), .work = *std::move(work)};
  for (int64_t step = 0; step < kWarmUp; ++step) {
    absl::StatusOr<double> loss = 0.0;
    const double seconds = Seconds([&] { loss = ready.work.step(); });
    if (!loss.ok()) return Annotate(loss.status(), ready.name() + ": ");
    if (step == 0) ready.first_seconds = ready.work.setup_seconds + seconds;
    ready.loss = *loss;
  }
  return ready;
}

struct AllReady {
  std::vector<Ready> works;
  std::map<std::string, absl::Status> failed;  // by name
};

// A failing work does not affect the others.
AllReady MakeAllReady(std::vector<GpuWorkPlan> plans) {
  AllReady all;
  for (GpuWorkPlan& plan : plans) {
    const std::string name = plan.name;
    absl::StatusOr<Ready> ready = MakeReady(std::move(plan));
    if (ready.ok()) all.works.push_back(*std::move(ready));
    else all.failed.emplace(name, ready.status());
  }
  return all;
}

// The messages of all failures, with the code of the first.
absl::Status Failures(const AllReady& all) {
  if (all.failed.empty()) return absl::OkStatus();
  const auto message = [](std::string* out, const auto& failed) { out->append(MessageOf(failed.second)); };
  return absl::Status(all.failed.begin()->second.code(), absl::StrJoin(all.failed, "\n", message));
}

// Seconds of a step, in a round of about `seconds`.
absl::StatusOr<double> Round(GpuWork& work, double seconds, double& loss) {
  const Clock::time_point start = Clock::now();
  int64_t steps = 0;
  double elapsed = 0;
  while (elapsed < seconds || steps == 0) {
    MESHWORK_ASSIGN_OR_RETURN(loss, work.step());
    ++steps;
    elapsed = SecondsSince(start);
  }
  return elapsed / static_cast<double>(steps);
}

// Writes lines of JSON: one names the works, before any is made; one follows when all are ready; and one answers each
// name that is read.
absl::Status TakeTurns(const GpuOptions& o, std::vector<GpuWorkPlan> plans) {
  nlohmann::ordered_json planned = {{"version", "meshwork"}, {"works", nlohmann::json::object()}};
  for (const GpuWorkPlan& plan : plans) planned["works"][plan.name] = plan.about;
  std::cout << planned.dump() << std::endl;
  AllReady all = MakeAllReady(std::move(plans));
  std::map<std::string, Ready*> by_name;
  nlohmann::ordered_json ready = {{"version", "meshwork"}, {"works", nlohmann::json::object()}};
  for (const auto& [name, status] : all.failed) ready["works"][name] = {{"error", MessageOf(status)}};
  for (Ready& one : all.works) {
    by_name[one.name()] = &one;
    ready["works"][one.name()] = {{"loss", one.loss},
                                  {"flops", one.work.flops},
                                  {"bytes", one.work.bytes},
                                  {"first_step_s", one.first_seconds}};
  }
  std::cout << ready.dump() << std::endl;
  for (std::string name; std::getline(std::cin, name);) {
    if (!by_name.contains(name)) return InvalidArgument("standard input: there is no work \"{}\".", name);
    double loss = 0;
    MESHWORK_ASSIGN_OR_RETURN(const double seconds, Round(by_name[name]->work, o.seconds, loss));
    std::cout << nlohmann::json{{"ms", 1e3 * seconds}, {"loss", loss}}.dump() << std::endl;
  }
  return absl::OkStatus();
}

// The work that `one` is compared with; `one` itself if there is no other.
const Ready& BesideOf(const Ready& one, const std::vector<Ready>& works) {
  const auto model = [](const std::string& name) { return name.substr(0, name.rfind('/')); };
  for (const Ready& other : works)
    if (one.plan.beside.empty() ? model(other.name()) == model(one.name()) : other.name() == one.plan.beside)
      return other;
  return one;
}

absl::Status Report(const GpuOptions& o, const std::vector<Ready>& works) {
  nlohmann::ordered_json json = {{"devices", o.devices}, {"works", nlohmann::json::array()}};
  fmt::print("{:<28} {:>10} {:>10} {:>10} {:>12} {:>10} {:>9}  {}\n", "", "ms", "TFLOP/s", "GB/s",
             "first step s", "loss", "ratio", "to");
  for (const Ready& one : works) {
    const Ready& beside = BesideOf(one, works);
    std::vector<double> ratios;
    for (size_t r = 0; r < one.rounds.size(); ++r) ratios.push_back(one.rounds[r] / beside.rounds[r]);
    const double seconds = Median(one.rounds), ratio = Median(ratios);
    const double tflops = 1e-12 * one.work.flops / seconds, gb_per_s = 1e-9 * one.work.bytes / seconds;
    fmt::print("{:<28} {:>10.4f} {:>10.1f} {:>10.1f} {:>12.2f} {:>10.4f} {:>9.3f}  {}\n", one.name(),
               1e3 * seconds, tflops, gb_per_s, one.first_seconds, one.loss, ratio, beside.name());
    json["works"].push_back({{"name", one.name()},
                             {"ms", 1e3 * seconds},
                             {"tflops", tflops},
                             {"gb_per_s", gb_per_s},
                             {"first_step_s", one.first_seconds},
                             {"ratio", ratio},
                             {"to", beside.name()},
                             {"loss", one.loss}});
  }
  if (!o.json.empty()) MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(o.json, json.dump(2) + "\n"));
  for (const Ready& one : works)
    if (o.profile == "on" && one.work.profile != nullptr)
      fmt::print("\n{}\n{}\n{}", one.name(), one.work.profile().ToString(),
                 one.work.profile().ByOp().ToString());
  return absl::OkStatus();
}

absl::Status Main(const GpuOptions& o) {
  if (!o.json.empty()) MESHWORK_RETURN_IF_ERROR(CheckWritable(o.json));
  MESHWORK_ASSIGN_OR_RETURN(std::vector<GpuWorkPlan> plans, PlanWorks(o));
  if (o.takes_turns) return TakeTurns(o, std::move(plans));
  AllReady all = MakeAllReady(std::move(plans));
  if (all.works.empty()) return Failures(all);
  for (int64_t repeat = 0; repeat < o.repeats; ++repeat)
    for (Ready& one : all.works) {
      double loss = 0;
      MESHWORK_ASSIGN_OR_RETURN(one.rounds.emplace_back(), Round(one.work, o.seconds, loss));
    }
  MESHWORK_RETURN_IF_ERROR(Report(o, all.works));
  return Failures(all);
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("gpu_step", meshwork::ParseGpuOptions(argc, argv), meshwork::Main,
                          meshwork::IsNotInternal);
}
