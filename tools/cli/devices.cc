// meshwork devices.
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/runtime/cuda/gpus.h"
#include "tools/cli/commands.h"

namespace meshwork::tools {
namespace {

int64_t MemoryOfMachine() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE); }

std::string GiB(int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 30)); }

void PrintMachineAsJson(int64_t cores, const absl::StatusOr<Gpus>& found) {
  nlohmann::ordered_json json = {{"cpu", {{"cores", cores}, {"memory_bytes", MemoryOfMachine()}}}};
  json["gpus"] = nlohmann::ordered_json::array();
  if (!found.ok()) json["no_gpus"] = MessageOf(found.status());
  else json["driver"] = found->driver_version;
  const auto add_library = [&](const std::string& name, const absl::StatusOr<std::string>& version) {
    if (version.ok()) json[name] = *version;
    else json["no_" + name] = MessageOf(version.status());
  };
  if (found.ok()) {
    add_library("cublas", found->cublas_version);
    add_library("cudnn", found->cudnn_version);
    add_library("nccl", found->nccl_version);
  }
  for (const GpuInfo& gpu : found.ok() ? found->gpus : std::vector<GpuInfo>())
    json["gpus"].push_back({{"ordinal", gpu.ordinal},
                            {"name", gpu.name},
                            {"architecture", fmt::format("sm_{}", gpu.architecture)},
                            {"memory_bytes", gpu.total_bytes},
                            {"free_bytes", gpu.free_bytes}});
  fmt::print("{}\n", json.dump(2));
}

void PrintMachine(int64_t cores, const absl::StatusOr<Gpus>& found) {
  fmt::print("CPU: {}, {} GiB of memory\n", Count(cores, "core"), GiB(MemoryOfMachine()));
  if (!found.ok()) {
    fmt::print("no GPUs: {}\n", MessageOf(found.status()));
    return;
  }
  fmt::print("driver of CUDA {}\n", found->driver_version);
  const auto print_library = [](std::string_view name, const absl::StatusOr<std::string>& version) {
    if (version.ok()) fmt::print("{} {}\n", name, *version);
    else fmt::print("no {}: {}\n", name, MessageOf(version.status()));
  };
  print_library("cuBLASLt", found->cublas_version);
  print_library("cuDNN", found->cudnn_version);
  print_library("NCCL", found->nccl_version);
  fmt::print("\n{:>3}  {:28}  {:12}  {:>10}  {:>9}\n", "GPU", "name", "architecture", "memory GiB",
             "free GiB");
  for (const GpuInfo& gpu : found->gpus)
    fmt::print("{:>3}  {:28}  {:12}  {:>10}  {:>9}\n", gpu.ordinal, gpu.name,
               fmt::format("sm_{}", gpu.architecture), GiB(gpu.total_bytes), GiB(gpu.free_bytes));
}

}  // namespace

absl::Status Devices(Arguments args) {
  bool is_json = false;
  FlagTable flags(
      "meshwork devices",
      "Lists the CPU and the GPUs of this machine: cores and memory; of each GPU its number, name,\n"
      "architecture, memory in all and free, and the driver's version; or why there are no GPUs.\n\n"
      "A program runs on a GPU by --devices cuda: docs/gpu.md.");
  flags.Switch("json", "prints one JSON object instead of a table", &is_json);
  if (const auto done = Parse(flags, args)) return *done;
  const absl::StatusOr<Gpus> found = ListGpus();
  (is_json ? PrintMachineAsJson : PrintMachine)(WorkerPool::DefaultWorkers(), found);
  return absl::OkStatus();
}

}  // namespace meshwork::tools
