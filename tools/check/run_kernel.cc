#include "meshwork/tools/check/run_kernel.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

// Bytes behind a block of `global`.
size_t GuardOf(const Type& global) { return 64 + static_cast<size_t>(global.bytes()); }

}  // namespace

KernelCall WholeCall(const Sample& sample, const std::vector<DoubleTensor>& in) {
  KernelCall call{.sample = &sample,
                  .attrs = sample.attrs,
                  .in = in,
                  .in_blocks = {},
                  .out = sample.results,
                  .out_blocks = {}};
  for (const Type& type : sample.operands) call.in_blocks.push_back(WholeBlock(type.shape));
  for (const Type& type : sample.results) call.out_blocks.push_back(WholeBlock(type.shape));
  return call;
}

absl::StatusOr<std::vector<DoubleTensor>> RunKernel(const KernelCall& call, int64_t cuts, std::byte fill) {
  KernelSpec spec{.operands = {}, .results = {}, .attrs = call.attrs};
  std::vector<std::vector<std::byte>> in, out;
  std::vector<const void*> in_data;
  std::vector<void*> out_data;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const Type& global = call.sample->operands[i];
    spec.operands.push_back({call.in[i].type, global});
    in.push_back(ToBytes(call.in[i]));
    in.back().resize(in.back().size() + GuardOf(global), std::byte{0xff});
    in_data.push_back(in.back().data());
  }
  for (size_t i = 0; i < call.out.size(); ++i) {
    const Type& global = call.sample->results[i];
    spec.results.push_back({call.out[i], global});
    out.emplace_back(static_cast<size_t>(call.out[i].bytes()) + GuardOf(global), fill);
    out_data.push_back(out.back().data());
  }
  const Kernel kernel = CpuKernelOf(*call.sample->row)(spec);
  if (kernel.run == nullptr)
    return InvalidArgument("the row makes no kernel for {}.", call.sample->ToString());
  // The c-th of `cuts` places, or the nearest place before it at which the kernel may be cut.
  const auto place = [&](int64_t c) {
    const int64_t unit = kernel.units * c / cuts;
    if (kernel.bounds.empty()) return unit;
    return *(std::upper_bound(kernel.bounds.begin(), kernel.bounds.end(), unit) - 1);
  };
  for (int64_t c = 0; c < cuts; ++c) {
    if (place(c) == place(c + 1)) continue;
    kernel.run({.in = in_data,
                .out = out_data,
                .in_blocks = call.in_blocks,
                .out_blocks = call.out_blocks,
                .begin = place(c),
                .end = place(c + 1)});
  }
  std::vector<DoubleTensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto end = out[i].begin() + call.out[i].bytes();
    if (!std::all_of(end, out[i].end(), [&](std::byte b) { return b == fill; }))
      return InvalidArgument("the kernel writes beyond result {}, {}, of {}.", i, call.out[i].ToString(),
                             call.sample->ToString());
    results.push_back(FromBytes(call.out[i], out[i].data()));
  }
  return results;
}

}  // namespace meshwork
