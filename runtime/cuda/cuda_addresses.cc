#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_addresses.h"

#include <cstdint>

namespace meshwork {
namespace {

CUdeviceptr AddressOf(const std::byte* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

CUdeviceptr AddressAt(const CudaBases& bases, const DeviceAddress& address) {
  return bases[static_cast<size_t>(address.storage)] + static_cast<CUdeviceptr>(address.offset);
}

CudaBases BasesOfStep(const CudaLevel& root, const CudaOwnMemory& own, std::vector<DTensor>& variables,
                      std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                      std::span<const std::byte* const> staged) {
  CudaBases bases(root.plan->storages.size(), 0);
  for (size_t s = 0; s < bases.size(); ++s) {
    const Storage& storage = root.plan->storages[s];
    const auto index = static_cast<size_t>(storage.index);
    const StorageMap::Place& place = root.map.places[s];
    switch (storage.kind) {
      case Storage::Kind::kTemporary:
      case Storage::Kind::kHostFeed:
      case Storage::Kind::kHostOutput: bases[s] = own.arena + static_cast<CUdeviceptr>(place.offset); break;
      case Storage::Kind::kConstant: bases[s] = own.constants + static_cast<CUdeviceptr>(place.offset); break;
      case Storage::Kind::kVariable:
        if (variables[index].valid()) bases[s] = AddressOf(variables[index].instance(0));
        else if (index < feeds.size()) bases[s] = AddressOf(feeds[index]);
        break;
      case Storage::Kind::kSpare:
        if (variables[index].has_spare()) bases[s] = AddressOf(variables[index].spare(0));
        break;
      case Storage::Kind::kFeed:
        if (index < feeds.size()) bases[s] = AddressOf(feeds[index]);
        break;
      case Storage::Kind::kOutput:
        if (index < outputs.size()) bases[s] = AddressOf(outputs[index]);
        break;
    }
    if (storage.kind == Storage::Kind::kHostFeed && index < staged.size() && staged[index] != nullptr)
      bases[s] = AddressOf(staged[index]);
    // The output is not wanted.
    if (storage.kind == Storage::Kind::kHostOutput && (index >= outputs.size() || outputs[index] == nullptr))
      bases[s] = 0;
  }
  return bases;
}

CudaBases BasesOfBody(const CudaLevel& body, const CudaOwnMemory& own, const LoopLaunch& loop,
                      const CudaBases& outside) {
  CudaBases bases(body.plan->storages.size(), 0);
  for (size_t s = 0; s < bases.size(); ++s) {
    const StorageMap::Place& place = body.map.places[s];
    const auto offset = static_cast<CUdeviceptr>(place.offset);
    switch (place.kind) {
      case StorageMap::Place::Kind::kArena: bases[s] = own.arena + offset; break;
      case StorageMap::Place::Kind::kConstant: bases[s] = own.constants + offset; break;
      case StorageMap::Place::Kind::kBound: {
        const DeviceAddress& argument = loop.arguments[static_cast<size_t>(body.plan->storages[s].index)];
        if (argument.storage >= 0) bases[s] = AddressAt(outside, argument);
        break;
      }
    }
  }
  return bases;
}

}  // namespace meshwork

#endif
