// Running trials and comparing what they give.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cuda_kernels/trials.h"
#include "meshwork/base/status.h"
#include "meshwork/check/double_tensor.h"
#include "meshwork/kernels/blas/cpu_kernels.h"

namespace meshwork {
namespace {

constexpr std::byte kFill{0x5a}, kGuardByte{0xff};
constexpr size_t kGuard = 64;

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 1e-5;
    case DType::kF64: return 1e-12;
    case DType::kBF16: return 2e-2;
    default: return 0;
  }
}

bool IsInBlock(int64_t i, const Shape& local, const Block& block) {
  for (size_t d = local.size(); d-- > 0; i /= local[d])
    if (i % local[d] >= block[d].size) return false;
  return true;
}

}  // namespace

std::vector<Bytes> RunOnCpu(const CudaTrial& trial) {
  const Kernel kernel = CpuKernelOf(*trial.row)(trial.spec);
  std::vector<Bytes> out;
  std::vector<const void*> in_data;
  std::vector<void*> out_data;
  for (const Bytes& operand : trial.in) in_data.push_back(operand.data());
  for (const TensorSpec& result : trial.spec.results)
    out.emplace_back(static_cast<size_t>(result.local.bytes()) + kGuard, kFill);
  for (Bytes& result : out) out_data.push_back(result.data());
  if (kernel.units > 0)
    kernel.run({.in = in_data,
                .out = out_data,
                .in_blocks = trial.in_blocks,
                .out_blocks = trial.out_blocks,
                .begin = 0,
                .end = kernel.units});
  for (Bytes& result : out) result.resize(result.size() - kGuard);
  return out;
}

absl::StatusOr<std::vector<Bytes>> RunPlayed(SimulatedKernels& kernels, const CudaTrial& trial) {
  std::vector<Bytes> in, out;
  for (const Bytes& operand : trial.in) {
    in.emplace_back(kGuard, kGuardByte);
    in.back().insert(in.back().end(), operand.begin(), operand.end());
    in.back().resize(in.back().size() + kGuard, kGuardByte);
  }
  for (const TensorSpec& result : trial.spec.results)
    out.emplace_back(kGuard + static_cast<size_t>(result.local.bytes()) + kGuard, kFill);
  std::vector<void*> pointers;
  for (std::vector<Bytes>* side : {&in, &out})
    for (Bytes& tensor : *side) pointers.push_back(tensor.data() + kGuard);
  for (const void* pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(trial.kernel.alignment) != 0)
      return InvalidArgument("{}: a tensor is not aligned to {} bytes.", trial.name, trial.kernel.alignment);
  std::vector<long long> places;
  for (const CudaKernel::BlockArgument& of : trial.kernel.block_arguments) {
    const auto index = static_cast<size_t>(of.index);
    for (const Extent& extent : of.is_result ? trial.out_blocks[index] : trial.in_blocks[index]) {
      places.push_back(extent.start);
      places.push_back(extent.size);
    }
  }
  std::vector<void*> arguments;
  for (void*& pointer : pointers) arguments.push_back(static_cast<void*>(&pointer));
  for (long long& place : places) arguments.push_back(&place);
  if (trial.kernel.pointers != static_cast<int64_t>(pointers.size()))
    return InvalidArgument("{}: the kernel takes {} pointers, not {}.", trial.name, trial.kernel.pointers,
                           pointers.size());
  if (trial.kernel.blocks > 0) {
    const absl::Status status =
        kernels.Launch(trial.kernel.name, {static_cast<unsigned>(trial.kernel.blocks)},
                       {static_cast<unsigned>(trial.kernel.threads)}, 0, arguments.data());
    if (!status.ok()) return InvalidArgument("{}: {}", trial.name, MessageOf(status));
  }
  for (Bytes& result : out) {
    const auto is_fill = [](std::byte b) { return b == kFill; };
    if (!std::all_of(result.begin(), result.begin() + kGuard, is_fill) ||
        !std::all_of(result.end() - kGuard, result.end(), is_fill))
      return InvalidArgument("{}: the kernel writes beyond a result.", trial.name);
    result = Bytes(result.begin() + kGuard, result.end() - kGuard);
  }
  return out;
}

std::string DifferenceOf(const CudaTrial& trial, const std::vector<Bytes>& cpu,
                         const std::vector<Bytes>& cuda, bool exactly) {
  for (size_t r = 0; r < cpu.size(); ++r) {
    const Type& type = trial.spec.results[r].local;
    const DoubleTensor a = FromBytes(type, cpu[r].data()), b = FromBytes(type, cuda[r].data());
    const auto size = static_cast<size_t>(DTypeSize(type.dtype));
    for (int64_t i = 0; i < type.num_elements(); ++i) {
      if (!IsInBlock(i, type.shape, trial.out_blocks[r])) continue;
      const auto at = static_cast<size_t>(i);
      const double x = a.values[at], y = b.values[at];
      if (std::isnan(x) && std::isnan(y)) continue;
      if (std::memcmp(cpu[r].data() + at * size, cuda[r].data() + at * size, size) == 0) continue;
      const bool is_near = std::fabs(x - y) <= ToleranceOf(type.dtype) * std::max(std::fabs(x), 0.1);
      if (exactly || !is_near || (x == 0 && y == 0))
        return fmt::format("{}: element {} of result {} is {} on the CPU, {} by CUDA", trial.name, i, r, x,
                           y);
    }
  }
  return "";
}

}  // namespace meshwork
