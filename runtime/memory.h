// Memory: where the DTensors of a domain lie – that of a process, or of a GPU.
//
// Host tensors (runtime/tensor.h) reach it by Upload and come back by Download, block by block: Pack and
// Unpack (runtime/dtensor.h) go through these. Thread-safe, on different allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/box.h"

namespace meshwork {

class Memory {
 public:
  virtual ~Memory() = default;

  // Zeros, 64-byte aligned, freed with the last reference; they may outlive this object. `bytes` may be 0.
  // Throws std::bad_alloc where there is not so much memory.
  virtual std::shared_ptr<void> Allocate(int64_t bytes) = 0;

  // What it is, as messages call it: "the memory of this process".
  virtual std::string_view name() const = 0;
  // Whether it is the process's: kernels of its domain read host tensors where they lie.
  virtual bool is_host() const = 0;

  // Copies the elements of `box`, of `size` bytes each, from host memory into an allocation of this memory,
  // or from there to host memory; on return they are there. Error: the device failed.
  virtual absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) = 0;
  virtual absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) = 0;
};

}  // namespace meshwork
