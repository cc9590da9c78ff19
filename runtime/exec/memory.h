// Memory: holds the DTensors of a domain. It is the memory of a process, or of a GPU.
//
// Host tensors (runtime/tensor/tensor.h) are copied in by Upload and out by Download, block by block; Pack and
// Unpack (runtime/exec/dtensor.h) use these functions. Thread-safe for different allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {

class Memory {
 public:
  virtual ~Memory() = default;

  // Zeros, 64-byte aligned, freed with the last reference; they may outlive this object. `bytes` may be 0.
  // Throws std::bad_alloc if there is not enough memory.
  virtual std::shared_ptr<void> Allocate(int64_t bytes) = 0;

  // Its name in messages: "the memory of this process".
  virtual std::string_view name() const = 0;
  // Whether it is the memory of the process: then kernels of its domain read host tensors in place.
  virtual bool is_host() const = 0;
  // Whether steps take host tensors that were copied into it beforehand (runtime/exec/staged_tensor.h).
  virtual bool takes_staged() const { return !is_host(); }

  // Copy the elements of `box`, of `size` bytes each, from host memory into an allocation of this memory, or
  // from such an allocation to host memory; on return the copy is complete. Error: the device failed.
  virtual absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) = 0;
  virtual absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) = 0;
};

}  // namespace meshwork
