// A PJRT plugin that computes nothing and fails as its file's name asks: "fails-at-compile.so". A copy of the file with
// another name is another plugin.
//
//   other-major, too-old      speaks another version of the API
//   no-compile                has no function that compiles
//   other-devices             gives programs that run on no device
//   cpu                       says that this is its platform
//   fails-at-WHAT             WHAT: initialize, compile, copy, execute, end (of a step that has begun)
//
// Its clients have two devices, unless the option `devices` says otherwise, and know no other option.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/runtime/pjrt/pjrt_api.h"

// What is opaque to callers.
namespace meshwork::pjrt {

struct Error {
  int code = 0;
  std::string message;
};
struct Event {
  bool fails = false;
};
struct Device {
  int id = 0;
};
struct Client {
  std::vector<Device> devices;
  std::vector<Device*> pointers;
};
struct Buffer {
  std::vector<char> elements;
  bool is_gone = false;  // written over
};
struct Executable {};
struct TopologyDescription {
  std::array<Device, 2> devices = {Device{0}, Device{1}};
  std::array<DeviceDescription*, 2> pointers = {reinterpret_cast<DeviceDescription*>(&devices[0]),
                                                reinterpret_cast<DeviceDescription*>(&devices[1])};
};
struct LoadedExecutable {
  std::vector<Device*> devices;
  std::vector<int64_t> written_over;  // arguments
  bool has_results = true;
};

}  // namespace meshwork::pjrt

namespace {

using namespace meshwork;  // NOLINT: the table below would be twice as long

constexpr int kInvalidArgument = 3, kResourceExhausted = 8, kInternal = 13;
constexpr int kNumFunctions = 97;

const std::string& FileName() {
  static const std::string* const name = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&FileName), &info);
    const std::string path = info.dli_fname;
    return new std::string(path.substr(path.rfind('/') + 1));
  }();
  return *name;
}
bool FailsAt(std::string_view what) { return FileName() == "fails-at-" + std::string(what) + ".so"; }

pjrt::Error* Fail(int code, std::string message) { return new pjrt::Error{code, std::move(message)}; }

// A function of the table, of the type that callers use.
template <typename Arguments, pjrt::Error* (*f)(Arguments&)>
pjrt::Error* Entry(void* arguments) {
  return f(*static_cast<Arguments*>(arguments));
}

pjrt::Error* GetCode(pjrt::ErrorGetCode& a) {
  a.code = a.error->code;
  return nullptr;
}
pjrt::Error* Initialize(pjrt::PluginInitialize&) {
  return FailsAt("initialize") ? Fail(kInternal, "there is no hardware") : nullptr;
}
pjrt::Error* DestroyEvent(pjrt::EventDestroy& a) {
  delete a.event;
  return nullptr;
}
pjrt::Error* Await(pjrt::EventAwait& a) {
  return a.event->fails ? Fail(kInternal, "a device has stopped") : nullptr;
}
pjrt::Error* CreateClient(pjrt::ClientCreate& a) {
  int64_t devices = 2;
  for (size_t i = 0; i < a.num_options; ++i) {
    const std::string name(a.options[i].name, a.options[i].name_size);
    if (name != "devices" || a.options[i].type != pjrt::NamedValue::Type::kInt64)
      return Fail(kInvalidArgument, "unknown option " + name);
    devices = a.options[i].int64;
  }
  a.client = new pjrt::Client;
  for (int i = 0; i < devices; ++i) a.client->devices.push_back({i});
  for (pjrt::Device& device : a.client->devices) a.client->pointers.push_back(&device);
  return nullptr;
}
pjrt::Error* DestroyClient(pjrt::ClientDestroy& a) {
  delete a.client;
  return nullptr;
}
pjrt::Error* PlatformName(pjrt::ClientPlatformName& a) {
  a.name = FileName() == "cpu.so" ? "cpu" : "fake";
  a.name_size = std::strlen(a.name);
  return nullptr;
}
pjrt::Error* Devices(pjrt::ClientAddressableDevices& a) {
  a.devices = a.client->pointers.data();
  a.num_devices = a.client->pointers.size();
  return nullptr;
}
pjrt::Error* Description(pjrt::DeviceGetDescription& a) {
  a.description = reinterpret_cast<pjrt::DeviceDescription*>(a.device);
  return nullptr;
}
pjrt::Error* Id(pjrt::DeviceDescriptionId& a) {
  a.id = reinterpret_cast<pjrt::Device*>(a.description)->id;
  return nullptr;
}
pjrt::Error* Compile(pjrt::ClientCompile& a) {
  if (FailsAt("compile")) return Fail(kInvalidArgument, "<unknown>:7:12: error: it does not compile");
  a.executable = new pjrt::LoadedExecutable;
  // As many as the module says, which are all that a test asks for.
  const std::string module(a.program->code, a.program->code_size);
  const std::string_view key = "mhlo.num_replicas = ";
  const int replicas = std::atoi(module.c_str() + module.find(key) + key.size());
  for (int i = 0; i < replicas && FileName() != "other-devices.so"; ++i)
    a.executable->devices.push_back(a.client->pointers[static_cast<size_t>(i)]);
  a.executable->has_results = module.find("-> () {") == std::string::npos;
  // "%1: tensor<2xf32> {tf.aliasing_output = 1 : i32}"
  for (size_t at = module.find("tf.aliasing_output"); at != std::string::npos;
       at = module.find("tf.aliasing_output", at + 1))
    a.executable->written_over.push_back(std::atoi(module.c_str() + module.rfind('%', at) + 1));
  return nullptr;
}
pjrt::Error* Upload(pjrt::ClientBufferFromHostBuffer& a) {
  if (FailsAt("copy")) return Fail(kResourceExhausted, "out of memory");
  size_t bytes = 4;  // f32 alone is asked for
  for (size_t d = 0; d < a.num_dims; ++d) bytes *= static_cast<size_t>(a.dims[d]);
  const char* const elements = static_cast<const char*>(a.data);
  a.buffer = new pjrt::Buffer{.elements = std::vector<char>(elements, elements + bytes)};
  a.done_with_host_buffer = new pjrt::Event;
  return nullptr;
}
pjrt::Error* Download(pjrt::BufferToHostBuffer& a) {
  if (a.source->is_gone) return Fail(kInvalidArgument, "the buffer was donated");
  std::memcpy(a.to, a.source->elements.data(), a.source->elements.size());
  a.event = new pjrt::Event;
  return nullptr;
}
pjrt::Error* DestroyBuffer(pjrt::BufferDestroy& a) {
  delete a.buffer;
  return nullptr;
}
pjrt::Error* DestroyLoaded(pjrt::LoadedExecutableDestroy& a) {
  delete a.executable;
  return nullptr;
}
pjrt::Error* DevicesOfProgram(pjrt::LoadedExecutableAddressableDevices& a) {
  a.devices = a.executable->devices.data();
  a.num_devices = a.executable->devices.size();
  return nullptr;
}
pjrt::Error* Execute(pjrt::LoadedExecutableExecute& a) {
  const int64_t* const kept = a.options->kept_arguments;
  for (const int64_t argument : a.executable->written_over)
    for (size_t device = 0; device < a.num_devices; ++device)
      a.arguments[device][argument]->is_gone = std::find(kept, kept + a.options->num_kept_arguments,
                                                         argument) == kept + a.options->num_kept_arguments;
  if (a.executable->has_results && !FailsAt("end")) return Fail(kInternal, "nothing is computed here");
  for (size_t i = 0; i < a.num_devices; ++i)
    a.complete[i] = new pjrt::Event{.fails = i == 1 && FailsAt("end")};
  return nullptr;
}

pjrt::Error* CreateTopology(pjrt::TopologyDescriptionCreate& a) {
  if (std::string_view(a.name, a.name_size) != "1x2") return Fail(kInvalidArgument, "unknown topology");
  a.topology = new pjrt::TopologyDescription;
  return nullptr;
}
pjrt::Error* DestroyTopology(pjrt::TopologyDescriptionDestroy& a) {
  delete a.topology;
  return nullptr;
}
pjrt::Error* DevicesOfTopology(pjrt::TopologyDescriptionGetDeviceDescriptions& a) {
  a.descriptions = a.topology->pointers.data();
  a.num_descriptions = a.topology->pointers.size();
  return nullptr;
}
pjrt::Error* CompileAhead(pjrt::Compile&) {
  return Fail(kInvalidArgument, "<unknown>:7:12: error: it does not compile");
}

void DestroyError(void* arguments) { delete static_cast<pjrt::ErrorDestroy*>(arguments)->error; }
void Message(void* arguments) {
  auto& a = *static_cast<pjrt::ErrorMessage*>(arguments);
  a.message = a.error->message.data();
  a.message_size = a.error->message.size();
}

struct Table {
  pjrt::Api api;
  std::array<pjrt::Function, kNumFunctions> more;  // behind the first of `api`
};

template <typename Arguments, pjrt::Error* (*f)(Arguments&)>
void Add(pjrt::Function* functions) {
  functions[Arguments::kNumber - pjrt::kFirstFunction] = Entry<Arguments, f>;
}

}  // namespace

extern "C" const pjrt::Api* GetPjrtApi() {
  static Table table{};
  table.api.head.size = sizeof(Table);
  table.api.version = {.major = FileName() == "other-major.so" ? 1 : 0,
                       .minor = FileName() == "too-old.so" ? 40 : 81};
  table.api.destroy_error = DestroyError;
  table.api.error_message = Message;
  pjrt::Function* const functions = table.api.functions;
  Add<pjrt::ErrorGetCode, GetCode>(functions);
  Add<pjrt::PluginInitialize, Initialize>(functions);
  Add<pjrt::EventDestroy, DestroyEvent>(functions);
  Add<pjrt::EventAwait, Await>(functions);
  Add<pjrt::ClientCreate, CreateClient>(functions);
  Add<pjrt::ClientDestroy, DestroyClient>(functions);
  Add<pjrt::ClientPlatformName, PlatformName>(functions);
  Add<pjrt::ClientAddressableDevices, Devices>(functions);
  Add<pjrt::DeviceGetDescription, Description>(functions);
  Add<pjrt::DeviceDescriptionId, Id>(functions);
  if (FileName() != "no-compile.so") Add<pjrt::ClientCompile, Compile>(functions);
  Add<pjrt::ClientBufferFromHostBuffer, Upload>(functions);
  Add<pjrt::BufferDestroy, DestroyBuffer>(functions);
  Add<pjrt::BufferToHostBuffer, Download>(functions);
  Add<pjrt::LoadedExecutableDestroy, DestroyLoaded>(functions);
  Add<pjrt::LoadedExecutableAddressableDevices, DevicesOfProgram>(functions);
  Add<pjrt::LoadedExecutableExecute, Execute>(functions);
  Add<pjrt::TopologyDescriptionCreate, CreateTopology>(functions);
  Add<pjrt::TopologyDescriptionDestroy, DestroyTopology>(functions);
  Add<pjrt::TopologyDescriptionGetDeviceDescriptions, DevicesOfTopology>(functions);
  Add<pjrt::Compile, CompileAhead>(functions);
  return &table.api;
}
