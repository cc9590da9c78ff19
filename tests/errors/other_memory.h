// A memory that says it is not the host's.
#pragma once

#include <memory>
#include <string_view>

#include "meshwork/runtime/cpu/cpu_memory.h"

namespace meshwork {

class OtherMemory : public Memory {
 public:
  std::shared_ptr<void> Allocate(int64_t bytes) override { return CpuMemory()->Allocate(bytes); }
  std::string_view name() const override { return "the memory of a GPU"; }
  bool is_host() const override { return false; }
  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) override {
    return CpuMemory()->Upload(box, size, host, to);
  }
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override {
    return CpuMemory()->Download(box, size, from, host);
  }
};

}  // namespace meshwork
