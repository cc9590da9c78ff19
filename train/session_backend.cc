#include "meshwork/train/session_backend.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/transport.h"

namespace meshwork {
namespace {

constexpr std::string_view kCpu = "cpu", kCuda = "cuda", kCudaNumber = "cuda:";

// The whole text is a number that an int holds.
std::optional<int> GpuNumber(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// "0-3", "0,1", "0,cuda:1".
bool NamesSeveral(std::string_view numbers) {
  return !numbers.empty() && numbers[0] >= '0' && numbers[0] <= '9' &&
         numbers.find_first_of(",-") != std::string_view::npos;
}

// The number of the GPU; nothing: the CPU.
absl::StatusOr<std::optional<int>> GpuOf(std::string_view devices) {
  if (devices == kCpu) return std::nullopt;
  if (devices == kCuda) return 0;
  if (devices.starts_with(kCudaNumber)) {
    const std::string_view numbers = devices.substr(kCudaNumber.size());
    if (const std::optional<int> number = GpuNumber(numbers)) return number;
    if (NamesSeveral(numbers))
      return absl::UnimplementedError(fmt::format(
          "Devices: \"{}\" names several GPUs, and a session computes on one as yet; name one, as cuda:0, and the whole "
          "mesh lies on it.",
          devices));
  }
  return InvalidArgument(
      "Devices: \"{}\" is none of cpu, cuda and cuda:N, where N is the number of a GPU; \"meshwork devices\" lists those of "
      "this machine.",
      devices);
}

}  // namespace

absl::Status CheckDevices(std::string_view devices) { return GpuOf(devices).status(); }

absl::StatusOr<std::shared_ptr<Backend>> MakeBackend(const SessionOptions& options) {
  if (options.backend != nullptr) return options.backend;
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<int> gpu, GpuOf(options.devices));
  if (!gpu.has_value())
    return std::make_shared<CpuBackend>(options.workers > 0 ? options.workers : WorkerPool::DefaultWorkers(),
                                        options.own_cores);
  const Transport* const transport = options.executor.transport;
  if (transport != nullptr && transport->num_domains() > 1)
    return absl::UnimplementedError(fmt::format(
        "Session: devices={} puts the whole mesh on one GPU, and the mesh is shared by {}, one per process; GPUs do not "
        "work together as yet. Start one process, or compute on CPUs (devices=cpu).",
        options.devices, Count(transport->num_domains(), "domain")));
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<Backend> backend, CudaBackend::Create(*gpu));
  return backend;
}

}  // namespace meshwork
