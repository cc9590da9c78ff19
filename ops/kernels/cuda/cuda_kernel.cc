#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

#include <algorithm>
#include <set>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/prelude.h"
#include "meshwork/ops/kernels/portable/text.h"

namespace meshwork {
namespace {

const cuda::Generator* FindGenerator(const OpRow& row) {
  for (const cuda::Generator& generator : cuda::AllGenerators())
    if (generator.op == row.name) return &generator;
  return nullptr;
}

}  // namespace

std::span<const cuda::Generator> cuda::AllGenerators() {
  static const auto* const all = [] {
    auto* generators = new std::vector<Generator>;
    for (const auto family : {MovementKernels, GenerationKernels, RandomKernels, ReductionKernels,
                              ProductKernels, IndexingKernels, ColumnKernels, OptimizerKernels, WindowKernels,
                              ConvolutionKernels, AttentionKernels, LinalgKernels})
      generators->insert(generators->end(), family().begin(), family().end());
    return generators;
  }();
  return *all;
}

std::string_view CudaPrelude() {
  static const auto* const text =
      new std::string(fmt::format("{}{}{}", kCudaBase, kPortableText, kCudaPrelude));
  return *text;
}

std::string CudaSourceOf(std::span<const CudaKernel> kernels) {
  std::string source(CudaPrelude());
  std::set<std::string_view> names;
  for (const CudaKernel& kernel : kernels)
    for (const CudaKernel* of : {&kernel, kernel.second.get()})
      if (of != nullptr && names.insert(of->name).second) source += "\n" + of->source;
  return source;
}

bool HasCudaKernel(const OpRow& row) { return IsCudaChainOp(row) || FindGenerator(row) != nullptr; }

std::optional<CudaKernel> MakeCudaKernel(const OpRow& row, const KernelSpec& spec, int64_t alignment) {
  if (IsCudaChainOp(row) || CudaRowsOfFold(row, spec).has_value()) {
    CudaChainOp op{&row, &spec, {}};
    for (int o = 0; o < static_cast<int>(spec.operands.size()); ++o) op.operands.push_back({false, o});
    constexpr int kFirst[] = {0};
    return IsCudaChainOp(row) ? MakeCudaChain({&op, 1}, kFirst, alignment)
                              : MakeCudaRows({&op, 1}, kFirst, alignment);
  }
  const cuda::Generator* const generator = FindGenerator(row);
  if (generator == nullptr) return std::nullopt;
  return generator->make_aligned != nullptr ? generator->make_aligned(row, spec, alignment)
                                            : generator->make(row, spec);
}

}  // namespace meshwork
