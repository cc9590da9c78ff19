#include "meshwork/runtime/pjrt/pjrt_client.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/pjrt/pjrt_compiler.h"

namespace meshwork {
namespace {

pjrt::ElementType ElementTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return pjrt::ElementType::kF32;
    case DType::kF64: return pjrt::ElementType::kF64;
    case DType::kBF16: return pjrt::ElementType::kBf16;
    case DType::kI32: return pjrt::ElementType::kS32;
    case DType::kI64: return pjrt::ElementType::kS64;
    case DType::kBool: return pjrt::ElementType::kPred;
    case DType::kF16: return pjrt::ElementType::kF16;
    case DType::kU8: return pjrt::ElementType::kU8;
    case DType::kI8: return pjrt::ElementType::kS8;
  }
  return pjrt::ElementType::kF32;
}

}  // namespace

// ---- PjrtClient.

absl::StatusOr<std::shared_ptr<const PjrtClient>> PjrtClient::Create(const PjrtSpec& spec) {
  static std::mutex mutex;
  static auto* const made =
      new std::map<std::pair<const PjrtPlugin*, std::string>, std::weak_ptr<const PjrtClient>>;
  MESHWORK_ASSIGN_OR_RETURN(const PjrtPlugin* const plugin, PjrtPlugin::Load(spec.path));
  std::string options;
  for (const auto& [name, value] : spec.options) options += fmt::format("{}={},", name, value);
  const std::lock_guard lock(mutex);
  std::weak_ptr<const PjrtClient>& known = (*made)[{plugin, options}];
  if (std::shared_ptr<const PjrtClient> client = known.lock(); client != nullptr) return client;
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const PjrtClient> client, Make(*plugin, spec));
  known = client;
  return client;
}

absl::StatusOr<std::shared_ptr<const PjrtClient>> PjrtClient::Make(const PjrtPlugin& plugin,
                                                                   const PjrtSpec& spec) {
  const std::vector<pjrt::NamedValue> options = NamedValuesOf(spec);
  pjrt::ClientCreate create{.options = options.data(), .num_options = options.size()};
  MESHWORK_RETURN_IF_ERROR(plugin.Call(create, "making a client"));
  std::shared_ptr<PjrtClient> client(new PjrtClient(plugin, create.client));
  MESHWORK_RETURN_IF_ERROR(client->Describe());
  return client;
}

PjrtClient::~PjrtClient() {
  pjrt::ClientDestroy destroy{.client = client_};
  (void)plugin_.Call(destroy, "ending a client");
}

absl::Status PjrtClient::Describe() {
  pjrt::ClientPlatformName name{.client = client_};
  MESHWORK_RETURN_IF_ERROR(plugin_.Call(name, "its platform"));
  platform_ = std::string_view(name.name, name.name_size);
  pjrt::ClientAddressableDevices devices{.client = client_};
  MESHWORK_RETURN_IF_ERROR(plugin_.Call(devices, "its devices"));
  for (size_t i = 0; i < devices.num_devices; ++i) {
    pjrt::DeviceGetDescription description{.device = devices.devices[i]};
    MESHWORK_RETURN_IF_ERROR(plugin_.Call(description, "its devices"));
    pjrt::DeviceDescriptionId id{.description = description.description};
    MESHWORK_RETURN_IF_ERROR(plugin_.Call(id, "its devices"));
    devices_.push_back({.device = devices.devices[i], .id = id.id});
  }
  std::sort(devices_.begin(), devices_.end(),
            [](const OneDevice& a, const OneDevice& b) { return a.id < b.id; });
  where_ = fmt::format("{} of {} ({}, API {})", Count(num_devices(), "device"), platform_, plugin_.name(),
                       plugin_.version());
  return absl::OkStatus();
}

// ---- PjrtEvent, PjrtBuffer.

PjrtEvent::~PjrtEvent() { (void)Await("an event"); }

absl::Status PjrtEvent::Await(std::string_view what) {
  if (event_ == nullptr) return absl::OkStatus();
  pjrt::EventAwait await{.event = event_};
  const absl::Status status = plugin_->Call(await, what);
  pjrt::EventDestroy destroy{.event = std::exchange(event_, nullptr)};
  (void)plugin_->Call(destroy, "an event");
  return status;
}

PjrtBuffer::~PjrtBuffer() {
  if (buffer_ == nullptr) return;
  pjrt::BufferDestroy destroy{.buffer = buffer_};
  (void)client_->plugin().Call(destroy, "freeing a buffer");
}

absl::StatusOr<PjrtBuffer> PjrtBuffer::Upload(std::shared_ptr<const PjrtClient> client, int64_t device,
                                              const Type& type, const std::byte* elements,
                                              PjrtEvent* copied) {
  pjrt::ClientBufferFromHostBuffer upload{.client = client->get(),
                                          .data = elements,
                                          .type = ElementTypeOf(type.dtype),
                                          .dims = type.shape.data(),
                                          .num_dims = type.shape.size(),
                                          .device = client->device(device)};
  MESHWORK_RETURN_IF_ERROR(
      client->plugin().Call(upload, fmt::format("copying {} to device {}", type.ToString(), device)));
  *copied = PjrtEvent(client->plugin(), upload.done_with_host_buffer);
  return PjrtBuffer(std::move(client), upload.buffer);
}

absl::Status PjrtBuffer::Download(const Type& type, std::byte* to, PjrtEvent* copied) const {
  std::vector<int64_t> minor_to_major(type.shape.size());
  for (size_t d = 0; d < minor_to_major.size(); ++d)
    minor_to_major[d] = static_cast<int64_t>(minor_to_major.size() - 1 - d);
  pjrt::MemoryLayout row_major{.head = {.size = sizeof(row_major)},
                               .tiled = {.head = {.size = sizeof(row_major.tiled)},
                                         .minor_to_major = minor_to_major.data(),
                                         .minor_to_major_size = minor_to_major.size()}};
  pjrt::BufferToHostBuffer download{
      .source = buffer_, .host_layout = &row_major, .to = to, .to_size = static_cast<size_t>(type.bytes())};
  MESHWORK_RETURN_IF_ERROR(
      client_->plugin().Call(download, fmt::format("copying {} to the host", type.ToString())));
  *copied = PjrtEvent(client_->plugin(), download.event);
  return absl::OkStatus();
}

// ---- PjrtExecutable.

absl::StatusOr<std::shared_ptr<const PjrtExecutable>> PjrtExecutable::Compile(
    std::shared_ptr<const PjrtClient> client, std::string module, std::string_view name,
    int64_t num_replicas) {
  if (num_replicas > client->num_devices())
    return InvalidArgument("PJRT: {} is for {}, and there {} {}{}.", name, Count(num_replicas, "device"),
                           client->num_devices() == 1 ? "is" : "are", client->where(),
                           client->platform() == "cpu"
                               ? "; add the option cpu_device_count, as in "
                                 "pjrt:PATH:cpu_device_count=8, or take a smaller mesh"
                               : "; take a mesh of as many or fewer");
  std::vector<int> ids;
  for (int64_t i = 0; i < num_replicas; ++i) ids.push_back(client->id(i));
  const std::string options = CompileOptionsOf(ids);
  const pjrt::Program program = ProgramOf(module);
  pjrt::ClientCompile compile{.client = client->get(),
                              .program = &program,
                              .options = options.data(),
                              .options_size = options.size()};
  {
    const CompilePatience patience(client->plugin(), name, num_replicas);
    MESHWORK_RETURN_IF_ERROR(client->plugin().Call(compile, fmt::format("compiling {}", name)));
  }
  std::shared_ptr<PjrtExecutable> executable(new PjrtExecutable(std::move(client), compile.executable));
  MESHWORK_RETURN_IF_ERROR(executable->FindReplicas(num_replicas));
  executable->MeasureMemory();
  return executable;
}

PjrtExecutable::~PjrtExecutable() {
  pjrt::LoadedExecutableDestroy destroy{.executable = executable_};
  (void)client_->plugin().Call(destroy, "freeing a program");
}

absl::Status PjrtExecutable::FindReplicas(int64_t num_replicas) {
  pjrt::LoadedExecutableAddressableDevices devices{.executable = executable_};
  MESHWORK_RETURN_IF_ERROR(client_->plugin().Call(devices, "a program's devices"));
  for (size_t i = 0; i < devices.num_devices; ++i)
    for (int64_t r = 0; r < num_replicas; ++r)
      if (client_->device(r) == devices.devices[i]) replicas_.push_back(r);
  if (std::ssize(replicas_) == num_replicas) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("PJRT plugin {}: it gives a program for {} other devices than those that were named.",
                  client_->plugin().name(), Count(num_replicas, "device")));
}

void PjrtExecutable::MeasureMemory() {
  const PjrtPlugin& plugin = client_->plugin();
  pjrt::LoadedExecutableGetExecutable unloaded{.loaded = executable_};
  if (!plugin.Call(unloaded, "a program's memory").ok()) return;
  memory_ = MemoryUseOf(plugin, unloaded.executable);
  pjrt::ExecutableDestroy destroy{.executable = unloaded.executable};
  (void)plugin.Call(destroy, "a program's memory");
}

absl::Status PjrtExecutable::Execute(std::span<pjrt::Buffer* const> arguments, std::span<const int64_t> kept,
                                     std::span<pjrt::Buffer*> outputs, std::vector<PjrtEvent>* ended) const {
  static std::atomic<int> launches = 0;
  const size_t replicas = replicas_.size(), per_replica = arguments.size() / replicas,
               results = outputs.size() / replicas;
  std::vector<pjrt::Buffer* const*> argument_lists;
  std::vector<pjrt::Buffer**> output_lists;
  for (const int64_t r : replicas_) {
    argument_lists.push_back(arguments.data() + static_cast<size_t>(r) * per_replica);
    output_lists.push_back(outputs.data() + static_cast<size_t>(r) * results);
  }
  std::vector<pjrt::Event*> events(replicas, nullptr);
  pjrt::ExecuteOptions options{.head = {.size = sizeof(options)},
                               .launch_id = ++launches,
                               .kept_arguments = kept.data(),
                               .num_kept_arguments = kept.size()};
  pjrt::LoadedExecutableExecute execute{.executable = executable_,
                                        .options = &options,
                                        .arguments = argument_lists.data(),
                                        .num_devices = replicas,
                                        .num_arguments = per_replica,
                                        .outputs = output_lists.data(),
                                        .complete = events.data()};
  {
    // Collectives of two programs must not be begun in two orders.
    const std::lock_guard lock(client_->launches());
    MESHWORK_RETURN_IF_ERROR(client_->plugin().Call(execute, "a step"));
  }
  for (pjrt::Event* const event : events) ended->emplace_back(client_->plugin(), event);
  return absl::OkStatus();
}

}  // namespace meshwork
