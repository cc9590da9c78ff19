// Devices, contexts, allocations.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "support/simulated_world.h"

namespace meshwork {
namespace {

constexpr uintptr_t kContexts = 0x100, kPools = 0x200;

// The contexts of this thread, the current one last. `world`: the simulation that they belong to.
struct CurrentContexts {
  const SimulatedWorld* world = nullptr;
  std::vector<int> devices;
};

CurrentContexts& CurrentOf(const SimulatedWorld* world) {
  static thread_local CurrentContexts current;
  if (current.world != world) current = {world, {}};
  return current;
}

SimulatedWorld* the_world = nullptr;

}  // namespace

SimulatedWorld::SimulatedWorld(const SimulatedCudaOptions& options)
    : options(options),
      memory([this](std::string finding) { Find(std::move(finding)); }),
      work(options.seed, [this] { memory.Open(); }),
      contexts_(options.gpus.size()) {
  if (the_world != nullptr) throw std::logic_error("there is another SimulatedCuda");
  the_world = this;
}

SimulatedWorld::~SimulatedWorld() {
  CurrentOf(nullptr);
  the_world = nullptr;
}

SimulatedWorld& SimulatedWorld::Get() {
  if (the_world == nullptr) throw std::logic_error("the SimulatedCuda is gone");
  return *the_world;
}

CUresult SimulatedWorld::StateOf(int device) const {
  const SimulatedContext& context = contexts_[static_cast<size_t>(device)];
  return context.retained == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context.lost;
}

CUresult SimulatedWorld::Current(int& device) const {
  const CurrentContexts& current = CurrentOf(this);
  if (current.devices.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  device = current.devices.back();
  return StateOf(device);
}

int SimulatedWorld::DeviceOf(CUcontext context) const {
  const auto device = static_cast<int64_t>(reinterpret_cast<uintptr_t>(context) - kContexts);
  return device >= 0 && device < static_cast<int64_t>(contexts_.size()) ? static_cast<int>(device) : -1;
}

void SimulatedWorld::Lose(int device, CUresult result) {
  CUresult& lost = contexts_[static_cast<size_t>(device)].lost;
  if (lost == CUDA_SUCCESS) lost = result;
}

bool SimulatedWorld::FailsWork(int device) {
  if (work_to_failure == 0 || --work_to_failure > 0) return false;
  Lose(device, work_failure);
  return true;
}

CUresult SimulatedWorld::cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return contexts_.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = options.driver_version;
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(contexts_.size());
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDeviceGetName(char* name, int length, CUdevice device) {
  if (name == nullptr || length < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::string& text = options.gpus[static_cast<size_t>(device)].name;
  const size_t bytes = std::min(text.size(), static_cast<size_t>(length - 1));
  std::memcpy(name, text.data(), bytes);
  name[bytes] = '\0';
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const SimulatedGpu& gpu = options.gpus[static_cast<size_t>(device)];
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = gpu.architecture / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = gpu.architecture % 10; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = gpu.has_pools ? 1 : 0; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) + 1);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = static_cast<size_t>(options.gpus[static_cast<size_t>(device)].bytes);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = reinterpret_cast<CUmemoryPool>(kPools + static_cast<uintptr_t>(device));
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                               void* value) {
  if (!IsDevice(static_cast<int>(reinterpret_cast<uintptr_t>(pool) - kPools)) || value == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult SimulatedWorld::cuMemPoolTrimTo(CUmemoryPool pool, size_t /*kept*/) {
  return IsDevice(static_cast<int>(reinterpret_cast<uintptr_t>(pool) - kPools)) ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
}

CUresult SimulatedWorld::cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  SimulatedContext& retained = contexts_[static_cast<size_t>(device)];
  ++retained.retained;
  *context = reinterpret_cast<CUcontext>(kContexts + static_cast<uintptr_t>(device));
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuDevicePrimaryCtxRelease(CUdevice device) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  SimulatedContext& context = contexts_[static_cast<size_t>(device)];
  if (context.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context.retained == 1) work.DoAll(device);
  --context.retained;
  return context.lost;
}

CUresult SimulatedWorld::cuCtxPushCurrent(CUcontext context) {
  const int device = DeviceOf(context);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (contexts_[static_cast<size_t>(device)].retained == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  CurrentOf(this).devices.push_back(device);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuCtxPopCurrent(CUcontext* context) {
  std::vector<int>& devices = CurrentOf(this).devices;
  if (devices.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr)
    *context = reinterpret_cast<CUcontext>(kContexts + static_cast<uintptr_t>(devices.back()));
  devices.pop_back();
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuCtxSynchronize() {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckNoCapture(device); result != CUDA_SUCCESS) return result;
  work.DoAll(device);
  return StateOf(device);
}

CUresult SimulatedWorld::cuMemGetInfo(size_t* free, size_t* total) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int64_t bytes = options.gpus[static_cast<size_t>(device)].bytes;
  *total = static_cast<size_t>(bytes);
  *free = static_cast<size_t>(bytes - memory.bytes_in_use(device));
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::AllocateOn(int device, size_t bytes, bool begins_later, CUdeviceptr* address) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const int64_t total = options.gpus[static_cast<size_t>(device)].bytes;
  if (bytes > static_cast<size_t>(total)) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto size = static_cast<int64_t>(bytes);
  // If memory is short, waits for frees that streams have not reached yet.
  if (memory.bytes_in_use(device) + size > total) work.DoAll(device);
  if (memory.bytes_in_use(device) + size > total) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = memory.Allocate(device, size, begins_later);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckNoCapture(device); result != CUDA_SUCCESS) return result;
  return AllocateOn(device, bytes, /*begins_later=*/false, address);
}

CUresult SimulatedWorld::cuMemFree(CUdeviceptr address) {
  int device = 0;
  const CUresult result = Current(device);
  if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return result;
  if (const CUresult capturing = CheckNoCapture(device); capturing != CUDA_SUCCESS) return capturing;
  if (!memory.Leave(address, /*is_pinned=*/false)) return CUDA_ERROR_INVALID_VALUE;
  work.DoAll();
  memory.Free(address);
  return StateOf(device);
}

CUresult SimulatedWorld::cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckNoCapture(device); result != CUDA_SUCCESS) return result;
  if (address == nullptr || bytes == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max() / 2)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<void*>(memory.Allocate(kPinned, static_cast<int64_t>(bytes), false));
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuMemFreeHost(void* address) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  if (!memory.Leave(place, /*is_pinned=*/true)) return CUDA_ERROR_INVALID_VALUE;
  memory.Free(place);
  return CUDA_SUCCESS;
}

}  // namespace meshwork
