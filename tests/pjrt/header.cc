// The declarations of runtime/pjrt/pjrt_api.h are those of pjrt_c_api.h, which is in the include path: it compiles, or it does not
// (tests/pjrt/check).
#include <cstddef>
#include <type_traits>

#include "meshwork/runtime/pjrt/pjrt_api.h"
#include "pjrt_c_api.h"

namespace meshwork::pjrt {
namespace {

#define SIZE(ours, theirs)                                                            \
  static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs) && \
                std::is_standard_layout_v<ours>)
#define FIELD(ours, a, theirs, b)                          \
  static_assert(offsetof(ours, a) == offsetof(theirs, b)); \
  static_assert(sizeof(ours::a) == sizeof(theirs::b))
#define NUMBER(ours, function)                                                                    \
  static_assert(offsetof(Api, functions) + sizeof(Function) * (ours::kNumber - kFirstFunction) == \
                offsetof(PJRT_Api, function))

static_assert(offsetof(Api, version) == offsetof(PJRT_Api, pjrt_api_version));
static_assert(offsetof(Api, destroy_error) == offsetof(PJRT_Api, PJRT_Error_Destroy));
static_assert(offsetof(Api, error_message) == offsetof(PJRT_Api, PJRT_Error_Message));
static_assert(offsetof(Head, extensions) == offsetof(PJRT_Error_Destroy_Args, extension_start));

SIZE(ApiVersion, PJRT_Api_Version);
FIELD(ApiVersion, major, PJRT_Api_Version, major_version);
FIELD(ApiVersion, minor, PJRT_Api_Version, minor_version);

SIZE(ErrorDestroy, PJRT_Error_Destroy_Args);
FIELD(ErrorDestroy, error, PJRT_Error_Destroy_Args, error);

SIZE(ErrorMessage, PJRT_Error_Message_Args);
FIELD(ErrorMessage, error, PJRT_Error_Message_Args, error);
FIELD(ErrorMessage, message, PJRT_Error_Message_Args, message);
FIELD(ErrorMessage, message_size, PJRT_Error_Message_Args, message_size);

SIZE(ErrorGetCode, PJRT_Error_GetCode_Args);
NUMBER(ErrorGetCode, PJRT_Error_GetCode);
FIELD(ErrorGetCode, error, PJRT_Error_GetCode_Args, error);
FIELD(ErrorGetCode, code, PJRT_Error_GetCode_Args, code);

SIZE(PluginInitialize, PJRT_Plugin_Initialize_Args);
NUMBER(PluginInitialize, PJRT_Plugin_Initialize);

SIZE(EventDestroy, PJRT_Event_Destroy_Args);
NUMBER(EventDestroy, PJRT_Event_Destroy);
FIELD(EventDestroy, event, PJRT_Event_Destroy_Args, event);

SIZE(EventAwait, PJRT_Event_Await_Args);
NUMBER(EventAwait, PJRT_Event_Await);
FIELD(EventAwait, event, PJRT_Event_Await_Args, event);

SIZE(NamedValue, PJRT_NamedValue);
FIELD(NamedValue, name, PJRT_NamedValue, name);
FIELD(NamedValue, name_size, PJRT_NamedValue, name_size);
FIELD(NamedValue, type, PJRT_NamedValue, type);
FIELD(NamedValue, string, PJRT_NamedValue, string_value);
FIELD(NamedValue, value_size, PJRT_NamedValue, value_size);

SIZE(ClientCreate, PJRT_Client_Create_Args);
NUMBER(ClientCreate, PJRT_Client_Create);
FIELD(ClientCreate, options, PJRT_Client_Create_Args, create_options);
FIELD(ClientCreate, num_options, PJRT_Client_Create_Args, num_options);
FIELD(ClientCreate, get, PJRT_Client_Create_Args, kv_get_callback);
FIELD(ClientCreate, get_argument, PJRT_Client_Create_Args, kv_get_user_arg);
FIELD(ClientCreate, put, PJRT_Client_Create_Args, kv_put_callback);
FIELD(ClientCreate, put_argument, PJRT_Client_Create_Args, kv_put_user_arg);
FIELD(ClientCreate, client, PJRT_Client_Create_Args, client);
FIELD(ClientCreate, try_get, PJRT_Client_Create_Args, kv_try_get_callback);
FIELD(ClientCreate, try_get_argument, PJRT_Client_Create_Args, kv_try_get_user_arg);

SIZE(ClientDestroy, PJRT_Client_Destroy_Args);
NUMBER(ClientDestroy, PJRT_Client_Destroy);
FIELD(ClientDestroy, client, PJRT_Client_Destroy_Args, client);

SIZE(ClientPlatformName, PJRT_Client_PlatformName_Args);
NUMBER(ClientPlatformName, PJRT_Client_PlatformName);
FIELD(ClientPlatformName, client, PJRT_Client_PlatformName_Args, client);
FIELD(ClientPlatformName, name, PJRT_Client_PlatformName_Args, platform_name);
FIELD(ClientPlatformName, name_size, PJRT_Client_PlatformName_Args, platform_name_size);

SIZE(ClientAddressableDevices, PJRT_Client_AddressableDevices_Args);
NUMBER(ClientAddressableDevices, PJRT_Client_AddressableDevices);
FIELD(ClientAddressableDevices, client, PJRT_Client_AddressableDevices_Args, client);
FIELD(ClientAddressableDevices, devices, PJRT_Client_AddressableDevices_Args, addressable_devices);
FIELD(ClientAddressableDevices, num_devices, PJRT_Client_AddressableDevices_Args, num_addressable_devices);

SIZE(Program, PJRT_Program);
FIELD(Program, code, PJRT_Program, code);
FIELD(Program, code_size, PJRT_Program, code_size);
FIELD(Program, format, PJRT_Program, format);
FIELD(Program, format_size, PJRT_Program, format_size);

SIZE(ClientCompile, PJRT_Client_Compile_Args);
NUMBER(ClientCompile, PJRT_Client_Compile);
FIELD(ClientCompile, client, PJRT_Client_Compile_Args, client);
FIELD(ClientCompile, program, PJRT_Client_Compile_Args, program);
FIELD(ClientCompile, options, PJRT_Client_Compile_Args, compile_options);
FIELD(ClientCompile, options_size, PJRT_Client_Compile_Args, compile_options_size);
FIELD(ClientCompile, executable, PJRT_Client_Compile_Args, executable);

SIZE(DeviceDescriptionId, PJRT_DeviceDescription_Id_Args);
NUMBER(DeviceDescriptionId, PJRT_DeviceDescription_Id);
FIELD(DeviceDescriptionId, description, PJRT_DeviceDescription_Id_Args, device_description);
FIELD(DeviceDescriptionId, id, PJRT_DeviceDescription_Id_Args, id);

SIZE(DeviceDescriptionKind, PJRT_DeviceDescription_Kind_Args);
NUMBER(DeviceDescriptionKind, PJRT_DeviceDescription_Kind);
FIELD(DeviceDescriptionKind, description, PJRT_DeviceDescription_Kind_Args, device_description);
FIELD(DeviceDescriptionKind, kind, PJRT_DeviceDescription_Kind_Args, device_kind);
FIELD(DeviceDescriptionKind, kind_size, PJRT_DeviceDescription_Kind_Args, device_kind_size);

SIZE(DeviceGetDescription, PJRT_Device_GetDescription_Args);
NUMBER(DeviceGetDescription, PJRT_Device_GetDescription);
FIELD(DeviceGetDescription, device, PJRT_Device_GetDescription_Args, device);
FIELD(DeviceGetDescription, description, PJRT_Device_GetDescription_Args, device_description);

SIZE(TiledLayout, PJRT_Buffer_MemoryLayout_Tiled);
FIELD(TiledLayout, minor_to_major, PJRT_Buffer_MemoryLayout_Tiled, minor_to_major);
FIELD(TiledLayout, minor_to_major_size, PJRT_Buffer_MemoryLayout_Tiled, minor_to_major_size);
FIELD(TiledLayout, tile_dims, PJRT_Buffer_MemoryLayout_Tiled, tile_dims);
FIELD(TiledLayout, tile_dim_sizes, PJRT_Buffer_MemoryLayout_Tiled, tile_dim_sizes);
FIELD(TiledLayout, num_tiles, PJRT_Buffer_MemoryLayout_Tiled, num_tiles);

SIZE(MemoryLayout, PJRT_Buffer_MemoryLayout);
FIELD(MemoryLayout, tiled, PJRT_Buffer_MemoryLayout, tiled);
FIELD(MemoryLayout, type, PJRT_Buffer_MemoryLayout, type);

SIZE(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args);
NUMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer);
FIELD(ClientBufferFromHostBuffer, client, PJRT_Client_BufferFromHostBuffer_Args, client);
FIELD(ClientBufferFromHostBuffer, data, PJRT_Client_BufferFromHostBuffer_Args, data);
FIELD(ClientBufferFromHostBuffer, type, PJRT_Client_BufferFromHostBuffer_Args, type);
FIELD(ClientBufferFromHostBuffer, dims, PJRT_Client_BufferFromHostBuffer_Args, dims);
FIELD(ClientBufferFromHostBuffer, num_dims, PJRT_Client_BufferFromHostBuffer_Args, num_dims);
FIELD(ClientBufferFromHostBuffer, byte_strides, PJRT_Client_BufferFromHostBuffer_Args, byte_strides);
FIELD(ClientBufferFromHostBuffer, num_byte_strides, PJRT_Client_BufferFromHostBuffer_Args, num_byte_strides);
FIELD(ClientBufferFromHostBuffer, semantics, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics);
FIELD(ClientBufferFromHostBuffer, device, PJRT_Client_BufferFromHostBuffer_Args, device);
FIELD(ClientBufferFromHostBuffer, memory, PJRT_Client_BufferFromHostBuffer_Args, memory);
FIELD(ClientBufferFromHostBuffer, device_layout, PJRT_Client_BufferFromHostBuffer_Args, device_layout);
FIELD(ClientBufferFromHostBuffer, done_with_host_buffer, PJRT_Client_BufferFromHostBuffer_Args,
      done_with_host_buffer);
FIELD(ClientBufferFromHostBuffer, buffer, PJRT_Client_BufferFromHostBuffer_Args, buffer);

SIZE(BufferDestroy, PJRT_Buffer_Destroy_Args);
NUMBER(BufferDestroy, PJRT_Buffer_Destroy);
FIELD(BufferDestroy, buffer, PJRT_Buffer_Destroy_Args, buffer);

SIZE(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args);
NUMBER(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer);
FIELD(BufferToHostBuffer, source, PJRT_Buffer_ToHostBuffer_Args, src);
FIELD(BufferToHostBuffer, host_layout, PJRT_Buffer_ToHostBuffer_Args, host_layout);
FIELD(BufferToHostBuffer, to, PJRT_Buffer_ToHostBuffer_Args, dst);
FIELD(BufferToHostBuffer, to_size, PJRT_Buffer_ToHostBuffer_Args, dst_size);
FIELD(BufferToHostBuffer, event, PJRT_Buffer_ToHostBuffer_Args, event);

SIZE(ExecutableDestroy, PJRT_Executable_Destroy_Args);
NUMBER(ExecutableDestroy, PJRT_Executable_Destroy);
FIELD(ExecutableDestroy, executable, PJRT_Executable_Destroy_Args, executable);

SIZE(LoadedExecutableDestroy, PJRT_LoadedExecutable_Destroy_Args);
NUMBER(LoadedExecutableDestroy, PJRT_LoadedExecutable_Destroy);
FIELD(LoadedExecutableDestroy, executable, PJRT_LoadedExecutable_Destroy_Args, executable);

SIZE(LoadedExecutableGetExecutable, PJRT_LoadedExecutable_GetExecutable_Args);
NUMBER(LoadedExecutableGetExecutable, PJRT_LoadedExecutable_GetExecutable);
FIELD(LoadedExecutableGetExecutable, loaded, PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable);
FIELD(LoadedExecutableGetExecutable, executable, PJRT_LoadedExecutable_GetExecutable_Args, executable);

SIZE(LoadedExecutableAddressableDevices, PJRT_LoadedExecutable_AddressableDevices_Args);
NUMBER(LoadedExecutableAddressableDevices, PJRT_LoadedExecutable_AddressableDevices);
FIELD(LoadedExecutableAddressableDevices, executable, PJRT_LoadedExecutable_AddressableDevices_Args,
      executable);
FIELD(LoadedExecutableAddressableDevices, devices, PJRT_LoadedExecutable_AddressableDevices_Args,
      addressable_devices);
FIELD(LoadedExecutableAddressableDevices, num_devices, PJRT_LoadedExecutable_AddressableDevices_Args,
      num_addressable_devices);

SIZE(ExecuteOptions, PJRT_ExecuteOptions);
FIELD(ExecuteOptions, send_callbacks, PJRT_ExecuteOptions, send_callbacks);
FIELD(ExecuteOptions, receive_callbacks, PJRT_ExecuteOptions, recv_callbacks);
FIELD(ExecuteOptions, num_sends, PJRT_ExecuteOptions, num_send_ops);
FIELD(ExecuteOptions, num_receives, PJRT_ExecuteOptions, num_recv_ops);
FIELD(ExecuteOptions, launch_id, PJRT_ExecuteOptions, launch_id);
FIELD(ExecuteOptions, kept_arguments, PJRT_ExecuteOptions, non_donatable_input_indices);
FIELD(ExecuteOptions, num_kept_arguments, PJRT_ExecuteOptions, num_non_donatable_input_indices);
FIELD(ExecuteOptions, context, PJRT_ExecuteOptions, context);
FIELD(ExecuteOptions, call_location, PJRT_ExecuteOptions, call_location);
FIELD(ExecuteOptions, num_tasks, PJRT_ExecuteOptions, num_tasks);
FIELD(ExecuteOptions, task_ids, PJRT_ExecuteOptions, task_ids);
FIELD(ExecuteOptions, incarnation_ids, PJRT_ExecuteOptions, incarnation_ids);

SIZE(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args);
NUMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute);
FIELD(LoadedExecutableExecute, executable, PJRT_LoadedExecutable_Execute_Args, executable);
FIELD(LoadedExecutableExecute, options, PJRT_LoadedExecutable_Execute_Args, options);
FIELD(LoadedExecutableExecute, arguments, PJRT_LoadedExecutable_Execute_Args, argument_lists);
FIELD(LoadedExecutableExecute, num_devices, PJRT_LoadedExecutable_Execute_Args, num_devices);
FIELD(LoadedExecutableExecute, num_arguments, PJRT_LoadedExecutable_Execute_Args, num_args);
FIELD(LoadedExecutableExecute, outputs, PJRT_LoadedExecutable_Execute_Args, output_lists);
FIELD(LoadedExecutableExecute, complete, PJRT_LoadedExecutable_Execute_Args, device_complete_events);
FIELD(LoadedExecutableExecute, only_device, PJRT_LoadedExecutable_Execute_Args, execute_device);

SIZE(ExecutableGetCompiledMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args);
NUMBER(ExecutableGetCompiledMemoryStats, PJRT_Executable_GetCompiledMemoryStats);
FIELD(ExecutableGetCompiledMemoryStats, executable, PJRT_Executable_GetCompiledMemoryStats_Args, executable);
FIELD(ExecutableGetCompiledMemoryStats, code, PJRT_Executable_GetCompiledMemoryStats_Args,
      generated_code_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, arguments, PJRT_Executable_GetCompiledMemoryStats_Args,
      argument_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, outputs, PJRT_Executable_GetCompiledMemoryStats_Args,
      output_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, aliased, PJRT_Executable_GetCompiledMemoryStats_Args,
      alias_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, temporary, PJRT_Executable_GetCompiledMemoryStats_Args,
      temp_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, host_code, PJRT_Executable_GetCompiledMemoryStats_Args,
      host_generated_code_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, host_arguments, PJRT_Executable_GetCompiledMemoryStats_Args,
      host_argument_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, host_outputs, PJRT_Executable_GetCompiledMemoryStats_Args,
      host_output_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, host_aliased, PJRT_Executable_GetCompiledMemoryStats_Args,
      host_alias_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, host_temporary, PJRT_Executable_GetCompiledMemoryStats_Args,
      host_temp_size_in_bytes);
FIELD(ExecutableGetCompiledMemoryStats, peak, PJRT_Executable_GetCompiledMemoryStats_Args,
      peak_memory_in_bytes);

SIZE(TopologyDescriptionCreate, PJRT_TopologyDescription_Create_Args);
NUMBER(TopologyDescriptionCreate, PJRT_TopologyDescription_Create);
FIELD(TopologyDescriptionCreate, name, PJRT_TopologyDescription_Create_Args, topology_name);
FIELD(TopologyDescriptionCreate, name_size, PJRT_TopologyDescription_Create_Args, topology_name_size);
FIELD(TopologyDescriptionCreate, options, PJRT_TopologyDescription_Create_Args, create_options);
FIELD(TopologyDescriptionCreate, num_options, PJRT_TopologyDescription_Create_Args, num_options);
FIELD(TopologyDescriptionCreate, topology, PJRT_TopologyDescription_Create_Args, topology);

SIZE(TopologyDescriptionDestroy, PJRT_TopologyDescription_Destroy_Args);
NUMBER(TopologyDescriptionDestroy, PJRT_TopologyDescription_Destroy);
FIELD(TopologyDescriptionDestroy, topology, PJRT_TopologyDescription_Destroy_Args, topology);

SIZE(TopologyDescriptionGetDeviceDescriptions, PJRT_TopologyDescription_GetDeviceDescriptions_Args);
NUMBER(TopologyDescriptionGetDeviceDescriptions, PJRT_TopologyDescription_GetDeviceDescriptions);
FIELD(TopologyDescriptionGetDeviceDescriptions, topology, PJRT_TopologyDescription_GetDeviceDescriptions_Args,
      topology);
FIELD(TopologyDescriptionGetDeviceDescriptions, descriptions,
      PJRT_TopologyDescription_GetDeviceDescriptions_Args, descriptions);
FIELD(TopologyDescriptionGetDeviceDescriptions, num_descriptions,
      PJRT_TopologyDescription_GetDeviceDescriptions_Args, num_descriptions);

SIZE(Compile, PJRT_Compile_Args);
NUMBER(Compile, PJRT_Compile);
FIELD(Compile, topology, PJRT_Compile_Args, topology);
FIELD(Compile, program, PJRT_Compile_Args, program);
FIELD(Compile, options, PJRT_Compile_Args, compile_options);
FIELD(Compile, options_size, PJRT_Compile_Args, compile_options_size);
FIELD(Compile, client, PJRT_Compile_Args, client);
FIELD(Compile, executable, PJRT_Compile_Args, executable);

SIZE(ExecutableGetCostAnalysis, PJRT_Executable_GetCostAnalysis_Args);
NUMBER(ExecutableGetCostAnalysis, PJRT_Executable_GetCostAnalysis);
FIELD(ExecutableGetCostAnalysis, executable, PJRT_Executable_GetCostAnalysis_Args, executable);
FIELD(ExecutableGetCostAnalysis, num_properties, PJRT_Executable_GetCostAnalysis_Args, num_properties);
FIELD(ExecutableGetCostAnalysis, properties, PJRT_Executable_GetCostAnalysis_Args, properties);

static_assert(static_cast<int>(ElementType::kPred) == PJRT_Buffer_Type_PRED);
static_assert(static_cast<int>(ElementType::kS8) == PJRT_Buffer_Type_S8);
static_assert(static_cast<int>(ElementType::kS32) == PJRT_Buffer_Type_S32);
static_assert(static_cast<int>(ElementType::kS64) == PJRT_Buffer_Type_S64);
static_assert(static_cast<int>(ElementType::kU8) == PJRT_Buffer_Type_U8);
static_assert(static_cast<int>(ElementType::kF16) == PJRT_Buffer_Type_F16);
static_assert(static_cast<int>(ElementType::kF32) == PJRT_Buffer_Type_F32);
static_assert(static_cast<int>(ElementType::kF64) == PJRT_Buffer_Type_F64);
static_assert(static_cast<int>(ElementType::kBf16) == PJRT_Buffer_Type_BF16);
static_assert(static_cast<int>(HostBufferSemantics::kImmutableUntilTransferCompletes) ==
              PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
static_assert(static_cast<int>(NamedValue::Type::kString) == PJRT_NamedValue_kString);
static_assert(static_cast<int>(NamedValue::Type::kInt64) == PJRT_NamedValue_kInt64);
static_assert(static_cast<int>(NamedValue::Type::kInt64List) == PJRT_NamedValue_kInt64List);
static_assert(static_cast<int>(NamedValue::Type::kFloat) == PJRT_NamedValue_kFloat);
static_assert(static_cast<int>(NamedValue::Type::kBool) == PJRT_NamedValue_kBool);

}  // namespace
}  // namespace meshwork::pjrt
