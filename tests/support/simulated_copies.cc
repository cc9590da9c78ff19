// Stream-ordered allocations, copies and fills.
#include <cstring>

#include "fmt/format.h"
#include "support/simulated_world.h"

namespace meshwork {

CUresult SimulatedWorld::cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const CUresult result = AllocateOn(stream->device, bytes, /*begins_later=*/true, address);
  if (result != CUDA_SUCCESS) return result;
  Enqueue(
      *stream, [this, at = *address] { memory.Begin(at); }, /*even_if_lost=*/true);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  SimulatedStream* stream = nullptr;
  const CUresult result = StreamOf(handle, stream, /*needs_context=*/false);
  if (stream == nullptr) return result;
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!memory.Leave(address, /*is_pinned=*/false)) return CUDA_ERROR_INVALID_VALUE;
  Enqueue(
      *stream, [this, address] { memory.Free(address); }, /*even_if_lost=*/true);
  return result;
}

SimulatedWorld::Side SimulatedWorld::Host(const void* address) const {
  Side side{.device = kPinned, .address = reinterpret_cast<uintptr_t>(address), .is_host = true};
  side.is_pinned = memory.Holds(side.address, side.device);
  return side;
}

bool SimulatedWorld::CheckSide(const std::string& who, const Side& side, size_t bytes, bool is_enqueued) {
  if (side.is_host && !side.is_pinned) return true;  // it cannot be known
  if (side.is_host && side.device != kPinned) {
    Find(fmt::format("{} is given an address of GPU {} for one of the process.", who, side.device));
    return false;
  }
  return memory.Check(who, side.device, side.address, static_cast<int64_t>(bytes), is_enqueued);
}

CUresult SimulatedWorld::Copy(const std::string& who, const Side& to, const Side& from, size_t bytes,
                              CUstream handle) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  if (to.address == 0 || from.address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!CheckSide(who, to, bytes, true) || !CheckSide(who, from, bytes, true)) return CUDA_ERROR_INVALID_VALUE;
  const int device = stream->device;
  const bool captures = stream->capture != nullptr;
  // A copy from memory that is not pinned reads it at the call.
  std::shared_ptr<std::vector<std::byte>> staged;
  if (from.is_host && !from.is_pinned && !captures) {
    const auto* const begin = reinterpret_cast<const std::byte*>(from.address);
    staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  }
  Enqueue(*stream, [=, this] {
    if (!CheckSide(who, to, bytes, false) || !CheckSide(who, from, bytes, false))
      return Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    const void* const source = staged ? staged->data() : reinterpret_cast<const void*>(from.address);
    std::memmove(reinterpret_cast<void*>(to.address), source, bytes);
  });
  if (!to.is_host || to.is_pinned || captures) return CUDA_SUCCESS;
  Await(device, SimulatedOpPtr(stream->last));
  return StateOf(device);
}

CUresult SimulatedWorld::cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  return Copy(fmt::format("a copy to GPU {}", device), {.device = device, .address = to}, Host(from), bytes,
              stream);
}

CUresult SimulatedWorld::cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  return Copy(fmt::format("a copy from GPU {}", device), Host(to), {.device = device, .address = from}, bytes,
              stream);
}

CUresult SimulatedWorld::cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  return Copy(fmt::format("a copy within GPU {}", device), {.device = device, .address = to},
              {.device = device, .address = from}, bytes, stream);
}

CUresult SimulatedWorld::cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                           CUcontext from_context, size_t bytes, CUstream stream) {
  const int target = DeviceOf(to_context), source = DeviceOf(from_context);
  if (target < 0 || source < 0) return CUDA_ERROR_INVALID_CONTEXT;
  return Copy(fmt::format("a copy from GPU {} to GPU {}", source, target), {.device = target, .address = to},
              {.device = source, .address = from}, bytes, stream);
}

CUresult SimulatedWorld::Set(CUdeviceptr to, const void* pattern, size_t size, size_t count,
                             CUstream handle) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  if (count == 0) return CUDA_SUCCESS;
  if (to == 0 || to % size != 0) return CUDA_ERROR_INVALID_VALUE;
  const int device = stream->device;
  const Side side{.device = device, .address = to};
  const std::string who = fmt::format("a fill on GPU {}", device);
  if (!CheckSide(who, side, size * count, true)) return CUDA_ERROR_INVALID_VALUE;
  uint32_t value = 0;
  std::memcpy(&value, pattern, size);
  Enqueue(*stream, [=, this] {
    if (!CheckSide(who, side, size * count, false)) return Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    for (size_t i = 0; i < count; ++i) std::memcpy(reinterpret_cast<std::byte*>(to) + i * size, &value, size);
  });
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Set(to, &value, sizeof(value), count, stream);
}

CUresult SimulatedWorld::cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Set(to, &value, sizeof(value), count, stream);
}

}  // namespace meshwork
