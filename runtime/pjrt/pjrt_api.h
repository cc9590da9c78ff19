// The part of the PJRT C API that meshwork calls, as pjrt_c_api.h of version 0.81 declares it: so a build needs neither XLA nor
// its headers (tests/pjrt/header.cc compares the two where that header is).
//
// A plugin is a shared library with one symbol, GetPjrtApi, which returns the table PjrtApi. Each function takes a struct of
// arguments, whose results it fills in, and returns an error, or null. Such a struct says its size, so that a plugin of a
// later version knows which fields it has; and here also the function's number in the table.
//
// Source: openxla/xla, xla/pjrt/c/pjrt_c_api.h. Versions of one major number go together.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork::pjrt {

// Opaque.
struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct Buffer;
struct Executable;
struct LoadedExecutable;
struct ExecuteContext;

// How a struct begins.
struct Head {
  size_t size = 0;
  void* extensions = nullptr;
};

struct ApiVersion {
  Head head;
  int major = 0, minor = 0;
};
inline constexpr int kApiMajor = 0;
// The oldest that was tried.
inline constexpr int kOldestMinor = 81;

// `arguments` is one of the structs below.
using Function = Error* (*)(void* arguments);
// Functions 0 and 1, of errors, give none.
using ErrorFunction = void (*)(void* arguments);

struct Api {
  Head head;
  ApiVersion version;
  ErrorFunction destroy_error = nullptr, error_message = nullptr;
  Function functions[1] = {};  // from function 2 on, as many as head.size has room for
};
inline constexpr int kFirstFunction = 2;

// ---- Errors. Their codes are those of absl::StatusCode.

struct ErrorDestroy {
  Head head;
  Error* error = nullptr;
};
struct ErrorMessage {
  Head head;
  const Error* error = nullptr;
  const char* message = nullptr;
  size_t message_size = 0;
};
struct ErrorGetCode {
  static constexpr int kNumber = 2;
  Head head;
  const Error* error = nullptr;
  int code = 0;
};

// ---- The plugin, and events, which end when something asynchronous has.

struct PluginInitialize {
  static constexpr int kNumber = 3;
  Head head;
};
struct EventDestroy {
  static constexpr int kNumber = 5;
  Head head;
  Event* event = nullptr;
};
// Returns the error that the event ends with.
struct EventAwait {
  static constexpr int kNumber = 8;
  Head head;
  Event* event = nullptr;
};

// ---- A client, which has devices.

struct NamedValue {
  enum class Type : int { kString = 0, kInt64, kInt64List, kFloat, kBool };

  Head head;
  const char* name = nullptr;
  size_t name_size = 0;
  Type type = Type::kString;
  union {
    const char* string = nullptr;
    int64_t int64;
    const int64_t* int64_list;
    float real;
    bool boolean;
  };
  size_t value_size = 1;  // of a string or a list, its length
};

struct ClientCreate {
  static constexpr int kNumber = 10;
  Head head;
  const NamedValue* options = nullptr;
  size_t num_options = 0;
  // What processes tell each other by a store of keys and values; null in one process.
  void* get = nullptr;
  void* get_argument = nullptr;
  void* put = nullptr;
  void* put_argument = nullptr;
  Client* client = nullptr;
  void* try_get = nullptr;
  void* try_get_argument = nullptr;
};
struct ClientDestroy {
  static constexpr int kNumber = 11;
  Head head;
  Client* client = nullptr;
};
struct ClientPlatformName {
  static constexpr int kNumber = 12;
  Head head;
  Client* client = nullptr;
  const char* name = nullptr;
  size_t name_size = 0;
};
struct ClientAddressableDevices {
  static constexpr int kNumber = 16;
  Head head;
  Client* client = nullptr;
  Device* const* devices = nullptr;
  size_t num_devices = 0;
};
struct Program {
  Head head;
  char* code = nullptr;
  size_t code_size = 0;
  const char* format = nullptr;  // "mlir": text of MLIR, or its bytecode
  size_t format_size = 0;
};
struct ClientCompile {
  static constexpr int kNumber = 20;
  Head head;
  Client* client = nullptr;
  const Program* program = nullptr;
  const char* options = nullptr;  // a CompileOptionsProto
  size_t options_size = 0;
  LoadedExecutable* executable = nullptr;
};

struct DeviceDescriptionId {
  static constexpr int kNumber = 23;
  Head head;
  DeviceDescription* description = nullptr;
  int id = 0;
};
struct DeviceDescriptionKind {
  static constexpr int kNumber = 26;
  Head head;
  DeviceDescription* description = nullptr;
  const char* kind = nullptr;
  size_t kind_size = 0;
};
struct DeviceGetDescription {
  static constexpr int kNumber = 29;
  Head head;
  Device* device = nullptr;
  DeviceDescription* description = nullptr;
};

// ---- Buffers.

// The types of elements that are used here.
enum class ElementType : int {
  kPred = 1,
  kS8 = 2,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kBf16 = 13
};

enum class HostBufferSemantics : int {
  kImmutableUntilTransferCompletes = 1,
};

struct TiledLayout {
  Head head;
  const int64_t* minor_to_major = nullptr;
  size_t minor_to_major_size = 0;
  const int64_t* tile_dims = nullptr;
  const size_t* tile_dim_sizes = nullptr;
  size_t num_tiles = 0;
};
struct MemoryLayout {
  Head head;
  TiledLayout tiled;
  int type = 0;  // tiled
};

struct ClientBufferFromHostBuffer {
  static constexpr int kNumber = 22;
  Head head;
  Client* client = nullptr;
  const void* data = nullptr;
  ElementType type = ElementType::kF32;
  const int64_t* dims = nullptr;
  size_t num_dims = 0;
  const int64_t* byte_strides = nullptr;
  size_t num_byte_strides = 0;
  HostBufferSemantics semantics = HostBufferSemantics::kImmutableUntilTransferCompletes;
  Device* device = nullptr;
  Memory* memory = nullptr;
  MemoryLayout* device_layout = nullptr;
  Event* done_with_host_buffer = nullptr;
  Buffer* buffer = nullptr;
};
struct BufferDestroy {
  static constexpr int kNumber = 58;
  Head head;
  Buffer* buffer = nullptr;
};
struct BufferToHostBuffer {
  static constexpr int kNumber = 70;
  Head head;
  Buffer* source = nullptr;
  MemoryLayout* host_layout = nullptr;
  void* to = nullptr;
  size_t to_size = 0;
  Event* event = nullptr;
};

// ---- Compiled programs.

struct ExecutableDestroy {
  static constexpr int kNumber = 40;
  Head head;
  Executable* executable = nullptr;
};
struct LoadedExecutableDestroy {
  static constexpr int kNumber = 50;
  Head head;
  LoadedExecutable* executable = nullptr;
};
struct LoadedExecutableGetExecutable {
  static constexpr int kNumber = 51;
  Head head;
  LoadedExecutable* loaded = nullptr;
  Executable* executable = nullptr;
};
struct LoadedExecutableAddressableDevices {
  static constexpr int kNumber = 52;
  Head head;
  LoadedExecutable* executable = nullptr;
  Device* const* devices = nullptr;
  size_t num_devices = 0;
};
struct ExecuteOptions {
  Head head;
  void* send_callbacks = nullptr;
  void* receive_callbacks = nullptr;
  size_t num_sends = 0, num_receives = 0;
  int launch_id = 0;
  const int64_t* kept_arguments = nullptr;  // which are not donated, whatever the program says
  size_t num_kept_arguments = 0;
  ExecuteContext* context = nullptr;
  const char* call_location = nullptr;
  size_t num_tasks = 0;
  int* task_ids = nullptr;
  int64_t* incarnation_ids = nullptr;
};
struct LoadedExecutableExecute {
  static constexpr int kNumber = 55;
  Head head;
  LoadedExecutable* executable = nullptr;
  ExecuteOptions* options = nullptr;
  Buffer* const* const* arguments = nullptr;  // per device
  size_t num_devices = 0, num_arguments = 0;
  Buffer** const* outputs = nullptr;  // per device; filled in
  Event** complete = nullptr;         // per device; filled in
  Device* only_device = nullptr;
};
// Bytes on one device.
struct ExecutableGetCompiledMemoryStats {
  static constexpr int kNumber = 96;
  Head head;
  Executable* executable = nullptr;
  int64_t code = 0, arguments = 0, outputs = 0, aliased = 0, temporary = 0;
  int64_t host_code = 0, host_arguments = 0, host_outputs = 0, host_aliased = 0, host_temporary = 0;
  int64_t peak = 0;
};

// ---- Ahead of time: a topology is devices that need not be there.

struct TopologyDescription;
struct TopologyDescriptionCreate {
  static constexpr int kNumber = 82;
  Head head;
  const char* name = nullptr;
  size_t name_size = 0;
  const NamedValue* options = nullptr;
  size_t num_options = 0;
  TopologyDescription* topology = nullptr;
};
struct TopologyDescriptionDestroy {
  static constexpr int kNumber = 83;
  Head head;
  TopologyDescription* topology = nullptr;
};
struct TopologyDescriptionGetDeviceDescriptions {
  static constexpr int kNumber = 86;
  Head head;
  const TopologyDescription* topology = nullptr;
  DeviceDescription* const* descriptions = nullptr;
  size_t num_descriptions = 0;
};
struct Compile {
  static constexpr int kNumber = 89;
  Head head;
  const TopologyDescription* topology = nullptr;
  const Program* program = nullptr;
  const char* options = nullptr;  // a CompileOptionsProto
  size_t options_size = 0;
  Client* client = nullptr;
  Executable* executable = nullptr;
};
struct ExecutableGetCostAnalysis {
  static constexpr int kNumber = 46;
  Head head;
  Executable* executable = nullptr;
  size_t num_properties = 0;
  const NamedValue* properties = nullptr;
};

}  // namespace meshwork::pjrt
