// PjrtClient: the devices that a PJRT plugin has in this process, buffers on them, and programs that they run.
//
//   MESHWORK_ASSIGN_OR_RETURN(PjrtSpec spec, PjrtSpec::Parse("pjrt:/opt/pjrt_c_api_cpu_plugin.so:cpu_device_count=8"));
//   MESHWORK_ASSIGN_OR_RETURN(auto client, PjrtClient::Create(spec));
//   MESHWORK_ASSIGN_OR_RETURN(auto program, PjrtExecutable::Compile(client, module, "step", /*num_replicas=*/8));
//
// Thread-safe, except where it says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"
#include "meshwork/runtime/pjrt/pjrt_plugin.h"
#include "meshwork/runtime/pjrt/pjrt_spec.h"

namespace meshwork {

class PjrtClient {
 public:
  // A client of the plugin; sessions of one spec share it, as a TPU has one owner. Errors: those of PjrtPlugin::Load; what the
  // plugin says, as of an option that it does not know.
  static absl::StatusOr<std::shared_ptr<const PjrtClient>> Create(const PjrtSpec& spec);
  ~PjrtClient();
  PjrtClient(const PjrtClient&) = delete;
  PjrtClient& operator=(const PjrtClient&) = delete;

  const PjrtPlugin& plugin() const { return plugin_; }
  pjrt::Client* get() const { return client_; }
  // "8 devices of cpu (pjrt_c_api_cpu_plugin.so, API 0.81)".
  const std::string& where() const { return where_; }
  const std::string& platform() const { return platform_; }
  int64_t num_devices() const { return static_cast<int64_t>(devices_.size()); }
  pjrt::Device* device(int64_t i) const { return devices_[static_cast<size_t>(i)].device; }
  // Held while a program is launched, not while it runs.
  std::mutex& launches() const { return launches_; }
  int id(int64_t i) const { return devices_[static_cast<size_t>(i)].id; }

 private:
  struct OneDevice {
    pjrt::Device* device = nullptr;
    int id = 0;  // by which programs are given to devices
  };

  PjrtClient(const PjrtPlugin& plugin, pjrt::Client* client) : plugin_(plugin), client_(client) {}
  static absl::StatusOr<std::shared_ptr<const PjrtClient>> Make(const PjrtPlugin& plugin,
                                                                const PjrtSpec& spec);
  absl::Status Describe();

  const PjrtPlugin& plugin_;
  pjrt::Client* const client_;
  mutable std::mutex launches_;
  std::vector<OneDevice> devices_;
  std::string platform_, where_;
};

// Something that goes on, and that its destructor waits for, as it may read or write the host's memory. Moved, never copied; one
// thread at a time.
class PjrtEvent {
 public:
  PjrtEvent() = default;  // has ended
  PjrtEvent(const PjrtPlugin& plugin, pjrt::Event* event) : plugin_(&plugin), event_(event) {}
  PjrtEvent(PjrtEvent&& other) noexcept
      : plugin_(other.plugin_), event_(std::exchange(other.event_, nullptr)) {}
  PjrtEvent& operator=(PjrtEvent&& other) noexcept {
    std::swap(plugin_, other.plugin_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~PjrtEvent();

  // Waits for the end. Error: what it ended with, of `what`.
  absl::Status Await(std::string_view what);

 private:
  const PjrtPlugin* plugin_ = nullptr;
  pjrt::Event* event_ = nullptr;
};

// A tensor on one device; moved, never copied. One thread at a time.
class PjrtBuffer {
 public:
  PjrtBuffer() = default;
  PjrtBuffer(std::shared_ptr<const PjrtClient> client, pjrt::Buffer* buffer)
      : client_(std::move(client)), buffer_(buffer) {}
  PjrtBuffer(PjrtBuffer&& other) noexcept
      : client_(std::move(other.client_)), buffer_(std::exchange(other.buffer_, nullptr)) {}
  PjrtBuffer& operator=(PjrtBuffer&& other) noexcept {
    std::swap(client_, other.client_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~PjrtBuffer();

  // Begins to copy dense elements to a device. They must not change before `copied` has ended. Error: the plugin's, as of a
  // device that has not enough memory.
  static absl::StatusOr<PjrtBuffer> Upload(std::shared_ptr<const PjrtClient> client, int64_t device,
                                           const Type& type, const std::byte* elements, PjrtEvent* copied);
  // Begins to copy all of it, of this type, to the host, where it is dense when `copied` has ended. Error: the plugin's.
  absl::Status Download(const Type& type, std::byte* to, PjrtEvent* copied) const;

  pjrt::Buffer* get() const { return buffer_; }

 private:
  std::shared_ptr<const PjrtClient> client_;
  pjrt::Buffer* buffer_ = nullptr;
};

// A program that runs on the first devices of a client: replica r on device r.
class PjrtExecutable {
 public:
  // `module`: StableHLO as text (stablehlo/write.h). Says on the log that it compiles if that takes long. Errors: more replicas
  // than devices; what the compiler says.
  static absl::StatusOr<std::shared_ptr<const PjrtExecutable>> Compile(
      std::shared_ptr<const PjrtClient> client, std::string module, std::string_view name,
      int64_t num_replicas);
  ~PjrtExecutable();
  PjrtExecutable(const PjrtExecutable&) = delete;
  PjrtExecutable& operator=(const PjrtExecutable&) = delete;

  int64_t num_replicas() const { return static_cast<int64_t>(replicas_.size()); }
  const PjrtMemoryUse& memory() const { return memory_; }

  // Begins to run. `arguments` and `outputs`: of replica r from r * (their number per replica) on; outputs are filled in. The
  // arguments `kept` are not written over, whatever the program says. `ended`: an event per replica. Error: the plugin's.
  absl::Status Execute(std::span<pjrt::Buffer* const> arguments, std::span<const int64_t> kept,
                       std::span<pjrt::Buffer*> outputs, std::vector<PjrtEvent>* ended) const;

 private:
  PjrtExecutable(std::shared_ptr<const PjrtClient> client, pjrt::LoadedExecutable* executable)
      : client_(std::move(client)), executable_(executable) {}
  absl::Status FindReplicas(int64_t num_replicas);
  void MeasureMemory();

  const std::shared_ptr<const PjrtClient> client_;
  pjrt::LoadedExecutable* const executable_;
  std::vector<int64_t> replicas_;  // of the plugin's devices of this program, in their order
  PjrtMemoryUse memory_;
};

}  // namespace meshwork
