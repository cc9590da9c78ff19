#include "meshwork/session/session_backend.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/exec/gather_values.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/pjrt/pjrt_backend.h"
#include "meshwork/runtime/pjrt/pjrt_spec.h"

namespace meshwork {
namespace {

constexpr std::string_view kCpu = "cpu", kCuda = "cuda", kCudaNumber = "cuda:";
constexpr int kMostGpus = 1024;  // of a machine

// The number, if the whole text is one that an int holds.
std::optional<int> GpuNumber(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// Adds the GPUs that "2", "0-3" or "cuda:1" names. False if the text is none of these.
bool AddGpus(std::string_view item, std::vector<int>& gpus) {
  if (item.starts_with(kCudaNumber)) item.remove_prefix(kCudaNumber.size());
  const size_t dash = item.find('-');
  const std::optional<int> first = GpuNumber(item.substr(0, dash));
  const std::optional<int> last = dash == std::string_view::npos ? first : GpuNumber(item.substr(dash + 1));
  if (!first.has_value() || !last.has_value() || *last < *first || *last - *first >= kMostGpus) return false;
  for (int gpu = *first; gpu <= *last; ++gpu) gpus.push_back(gpu);
  return true;
}

std::string HostOfSession() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// Nothing: the CPU.
absl::StatusOr<std::optional<int>> OneGpuOf(std::string_view devices) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices));
  if (gpus.empty()) return std::nullopt;
  if (gpus.size() == 1) return gpus[0];
  return InvalidArgument(
      "Session: devices={} names {}, each a domain with a session of its own; make them by OnEachGpu (train/cluster/on_gpus.h), as "
      "\"meshwork run\" does, or name one GPU, which then holds the whole mesh.",
      devices, Count(std::ssize(gpus), "GPU"));
}

// The error if one domain computes on GPUs and another one on CPUs: `mine` and `theirs` are texts of their devices.
absl::Status MixedError(const Transport& transport, std::string_view mine, size_t other,
                        std::string_view theirs) {
  return InvalidArgument(
      "Session: domain {} computes on {} and domain {} on {}; all domains of a mesh compute on CPUs, or all on GPUs.",
      transport.domain(), mine, other, theirs);
}

// The GPU of this domain. If `devices` is "cuda", it is the next GPU of the host that no earlier domain takes. `gpu`:
// the GPU that this domain's text names, or why it cannot continue; nothing: the CPU. All domains call it.
absl::StatusOr<std::optional<int>> GpuAmong(Transport& transport, std::string_view devices,
                                            const absl::StatusOr<std::optional<int>>& gpu) {
  absl::StatusOr<std::string> said = fmt::format("{}\n{}", devices, HostOfSession());
  if (!gpu.ok()) said = gpu.status();
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherValues(transport, "the devices", said));
  const std::string& mine = all[static_cast<size_t>(transport.domain())];
  for (size_t d = 0; d < all.size(); ++d)
    if (all[d].starts_with(kCuda) != gpu->has_value())
      return MixedError(transport, devices, d, all[d].substr(0, all[d].find('\n')));
  if (devices != kCuda) return gpu;
  return static_cast<int>(std::count(all.begin(), all.begin() + transport.domain(), mine));
}

}  // namespace

absl::StatusOr<std::vector<int>> GpusOf(std::string_view devices) {
  std::vector<int> gpus;
  if (devices == kCpu) return gpus;
  if (PjrtSpec::IsOne(devices)) {
    MESHWORK_RETURN_IF_ERROR(PjrtSpec::Parse(devices).status());
    return gpus;
  }
  if (devices == kCuda) return std::vector<int>{0};
  bool is_right = devices.starts_with(kCudaNumber);
  for (std::string_view rest = devices; is_right;) {
    const size_t comma = rest.find(',');
    is_right = AddGpus(rest.substr(0, comma), gpus);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (!is_right)
    return InvalidArgument(
        "Devices: \"{}\" is none of cpu, cuda, cuda:N, cuda:N-M, pjrt:PATH and tpu, where N and M are numbers of GPUs, \"meshwork "
        "devices\" lists those of this machine, and PATH is a PJRT plugin.",
        devices);
  for (size_t i = 0; i < gpus.size(); ++i)
    if (std::find(gpus.begin(), gpus.begin() + static_cast<ptrdiff_t>(i), gpus[i]) !=
        gpus.begin() + static_cast<ptrdiff_t>(i))
      return InvalidArgument("Devices: \"{}\" names GPU {} twice; each GPU is one domain.", devices, gpus[i]);
  return gpus;
}

absl::Status CheckDevices(std::string_view devices) { return GpusOf(devices).status(); }

absl::StatusOr<std::shared_ptr<Backend>> MakeBackend(const SessionOptions& options) {
  if (options.backend != nullptr) return options.backend;
  absl::StatusOr<std::optional<int>> gpu = OneGpuOf(options.devices);
  Transport* const transport = options.executor.transport;
  if (PjrtSpec::IsOne(options.devices)) {
    if (transport == nullptr || transport->num_domains() == 1) return PjrtBackend::Create(options.devices);
    gpu = absl::UnimplementedError(fmt::format(
        "Session: devices={} in {} processes; a PJRT plugin runs all devices of a mesh in one process here.",
        options.devices, transport->num_domains()));
  }
  if (transport != nullptr && transport->num_domains() > 1) gpu = GpuAmong(*transport, options.devices, gpu);
  MESHWORK_RETURN_IF_ERROR(gpu.status());
  if (!gpu->has_value()) return MakeCpuBackend(options);
  absl::StatusOr<std::unique_ptr<CudaBackend>> backend = CudaBackend::Create(**gpu);
  if (backend.ok()) return std::shared_ptr<Backend>(*std::move(backend));
  if (transport == nullptr || transport->num_domains() == 1) return backend.status();
  return Annotate(backend.status(), fmt::format("Session: domain {} of {} computes on GPU {}: ",
                                                transport->domain(), transport->num_domains(), **gpu));
}

std::shared_ptr<Backend> MakeCpuBackend(const SessionOptions& options) {
  return std::make_shared<CpuBackend>(options.workers > 0 ? options.workers : WorkerPool::DefaultWorkers(),
                                      options.own_cores);
}

}  // namespace meshwork
