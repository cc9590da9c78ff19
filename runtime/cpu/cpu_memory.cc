#include "meshwork/runtime/cpu/cpu_memory.h"

#include <cstring>

#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {
namespace {

class ProcessMemory : public Memory {
 public:
  std::shared_ptr<void> Allocate(int64_t bytes) override {
    std::shared_ptr<void> zeros = AllocateAligned(bytes);
    std::memset(zeros.get(), 0, static_cast<size_t>(bytes));
    return zeros;
  }
  std::string_view name() const override { return "the memory of this process"; }
  bool is_host() const override { return true; }
  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) override {
    box.Copy(host, to, size, 0, box.elements());
    return absl::OkStatus();
  }
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override {
    box.Copy(from, host, size, 0, box.elements());
    return absl::OkStatus();
  }
};

}  // namespace

std::shared_ptr<Memory> CpuMemory() {
  static const std::shared_ptr<Memory> memory = std::make_shared<ProcessMemory>();
  return memory;
}

}  // namespace meshwork
