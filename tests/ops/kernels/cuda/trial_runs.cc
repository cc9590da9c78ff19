// Running trials and comparing what they give.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/trials.h"

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

GuardedRun::GuardedRun(const CudaTrial& trial, size_t offset) : trial_(trial), begin_(kGuard + offset) {
  for (const Bytes& operand : trial.in) {
    Bytes& image = tensors.emplace_back(begin_, kGuardByte);
    image.insert(image.end(), operand.begin(), operand.end());
    image.resize(image.size() + kGuard, kGuardByte);
  }
  for (const TensorSpec& result : trial.spec.results)
    tensors.emplace_back(begin_ + static_cast<size_t>(result.local.bytes()) + kGuard, kFill);
  if (trial.kernel.second != nullptr)
    tensors.emplace_back(begin_ + static_cast<size_t>(trial.kernel.scratch_bytes) + kGuard, kFill);
  for (const CudaKernel::BlockArgument& of : trial.kernel.block_arguments) {
    const auto index = static_cast<size_t>(of.index);
    for (const Extent& extent : of.is_result ? trial.out_blocks[index] : trial.in_blocks[index]) {
      places_.push_back(extent.start);
      places_.push_back(extent.size);
    }
  }
}

absl::Status GuardedRun::Launch(std::span<std::byte* const> memory, const LaunchTrial& launch) {
  if (trial_.kernel.blocks == 0) return absl::OkStatus();
  std::vector<std::byte*> pointers;
  for (std::byte* const at : memory) {
    pointers.push_back(at + begin_);
    if (reinterpret_cast<uintptr_t>(pointers.back()) % static_cast<uintptr_t>(trial_.kernel.alignment) != 0)
      return InvalidArgument("{}: a tensor is not aligned to {} bytes.", trial_.name,
                             trial_.kernel.alignment);
  }
  std::vector<std::byte*> of_second;
  const CudaKernel* const second = trial_.kernel.second.get();
  if (second != nullptr) {
    const auto results = pointers.begin() + std::ssize(trial_.in);
    of_second = {pointers.back()};
    of_second.insert(of_second.end(), results, pointers.end() - 1);
    pointers.erase(results, pointers.end() - 1);
  }
  const auto run = [&](const CudaKernel& kernel, std::vector<std::byte*>& of_kernel) {
    if (kernel.pointers != std::ssize(of_kernel))
      return InvalidArgument("{}: the kernel takes {} pointers, not {}.", trial_.name, kernel.pointers,
                             of_kernel.size());
    const absl::Status status = launch(kernel, of_kernel, places_);
    return status.ok() ? status : InvalidArgument("{}: {}", trial_.name, MessageOf(status));
  };
  MESHWORK_RETURN_IF_ERROR(run(trial_.kernel, pointers));
  return second == nullptr ? absl::OkStatus() : run(*second, of_second);
}

absl::StatusOr<std::vector<Bytes>> GuardedRun::Results() const {
  std::vector<Bytes> results;
  for (size_t t = trial_.in.size(); t < tensors.size(); ++t) {
    const auto begin = tensors[t].begin() + static_cast<int64_t>(begin_), end = tensors[t].end() - kGuard;
    const auto is_fill = [](std::byte b) { return b == kFill; };
    if (!std::all_of(tensors[t].begin(), begin, is_fill) || !std::all_of(end, tensors[t].end(), is_fill))
      return InvalidArgument("{}: the kernel writes beyond a result.", trial_.name);
    results.emplace_back(begin, end);
  }
  if (trial_.kernel.second != nullptr) results.pop_back();
  return results;
}

absl::StatusOr<std::vector<Bytes>> RunPlayed(SimulatedKernels& kernels, const CudaTrial& trial,
                                             size_t offset) {
  GuardedRun run(trial, offset);
  std::vector<Bytes> buffers;
  std::vector<std::byte*> memory;
  for (const Bytes& image : run.tensors) {
    Bytes& buffer = buffers.emplace_back(image.size() + kGuardedAlignment);
    const auto address = reinterpret_cast<uintptr_t>(buffer.data());
    memory.push_back(buffer.data() + (kGuardedAlignment - address % kGuardedAlignment));
    std::copy(image.begin(), image.end(), memory.back());
  }
  const auto launch = [&](const CudaKernel& kernel, std::span<std::byte*> pointers,
                          std::span<long long> places) {
    std::vector<void*> arguments;
    for (std::byte*& pointer : pointers) arguments.push_back(static_cast<void*>(&pointer));
    for (long long& place : places) arguments.push_back(&place);
    return kernels.Launch(kernel.name, {static_cast<unsigned>(kernel.blocks)},
                          {static_cast<unsigned>(kernel.threads)}, 0, arguments.data());
  };
  MESHWORK_RETURN_IF_ERROR(run.Launch(memory, launch));
  for (size_t t = 0; t < memory.size(); ++t)
    std::copy_n(memory[t], run.tensors[t].size(), run.tensors[t].begin());
  return run.Results();
}

std::vector<const OpRow*> RowsWithCudaKernels() {
  std::vector<const OpRow*> rows;
  for (const OpRow* row : AllOps())
    if (CpuKernelOf(*row) != nullptr && HasCudaKernel(*row)) rows.push_back(row);
  return rows;
}

bool IsExactOnCuda(const OpRow& row) {
  for (const auto family : {cuda::MovementKernels, cuda::GenerationKernels, cuda::RandomKernels,
                            cuda::IndexingKernels, cuda::ColumnKernels})
    for (const cuda::Generator& generator : family())
      if (generator.op == row.name) return true;
  return false;
}

namespace {

// The largest whole number in the blocks of a quantised matrix; 1 for other operands.
double MostOf(DType dtype) { return dtype == I8 ? 127 : dtype == U8 ? 15 : 1; }

// Sums of n terms in [-1, 1] are mostly about a third of the root of n. Where a sum is far smaller, its terms
// cancel, and the two sums differ by the rounding errors of the terms. 0: the row has no sums.
double LeastOfSums(const CudaTrial& trial) {
  if (!trial.row->is_product || trial.row->flops == nullptr) return 0;
  std::vector<Type> operands, results;
  for (const TensorSpec& spec : trial.spec.operands) operands.push_back(spec.local);
  for (const TensorSpec& spec : trial.spec.results) results.push_back(spec.local);
  const auto elements = static_cast<double>(std::max<int64_t>(results[0].num_elements(), 1));
  double most = 1;
  for (const Type& type : operands) most = std::max(most, MostOf(type.dtype));
  return most * std::sqrt(trial.row->flops({operands, results, trial.spec.attrs}) / 2 / elements) / 30;
}

}  // namespace

std::string DifferenceOf(const CudaTrial& trial, const std::vector<Bytes>& cpu,
                         const std::vector<Bytes>& cuda, bool exactly, double least) {
  least = std::max(least, LeastOfSums(trial));
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
      const bool is_near = std::fabs(x - y) <= ToleranceOf(type.dtype) * std::max(std::fabs(x), least);
      if (exactly || !is_near || (x == 0 && y == 0))
        return fmt::format("{}: element {} of result {} is {} on the CPU, {} by CUDA", trial.name, i, r, x,
                           y);
    }
  }
  return "";
}

}  // namespace meshwork
