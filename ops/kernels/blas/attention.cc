// The kernels of attention and its gradients, cut between tiles.
#include "meshwork/ops/kernels/blas/attention.h"

#include <functional>
#include <utility>
#include <vector>

#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/ops/kernels/blas/factories.h"
#include "meshwork/ops/kernels/elementwise.h"

namespace meshwork {
namespace {

// `seen`: the index of the operand with the number of keys that each query sees; there is none if there are
// fewer operands.
AttentionSizes SizesOf(const KernelSpec& spec, size_t seen) {
  return AttentionSizesOf(spec.operands[0].local, spec.operands[1].local, spec.operands[2].local,
                          spec.operands.size() > seen, spec.attrs);
}

// A kernel whose units are `rows` rows of each of z.b batches, cut between tiles. `by_rows` operands have
// them, too; the others have batches.
Kernel TiledKernel(const AttentionSizes& z, int64_t rows, int64_t tile, std::vector<bool> by_rows,
                   std::function<void(const KernelArgs&)> run) {
  Kernel kernel{.run = std::move(run), .units = z.b * rows, .by_rows = true};
  for (int64_t b = 0; b < z.b; ++b)
    for (int64_t first = 0; first < rows; first += tile) kernel.bounds.push_back(b * rows + first);
  kernel.bounds.push_back(kernel.units);
  for (bool has_rows : by_rows) kernel.parts.push_back(has_rows ? kernel.units : z.b);
  return kernel;
}

// make(zero of the element type)
template <typename Make>
Kernel OfReals(const KernelSpec& spec, Make&& make) {
  return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
    if constexpr (kIsReal<decltype(zero)>) return make(zero);
    else return {};
  });
}

}  // namespace

Kernel AttentionCpu(const KernelSpec& spec) {
  const AttentionSizes z = SizesOf(spec, 3);
  return OfReals(spec, [&](auto zero) {
    auto run = OnThisCpu<kMostLevel<decltype(zero)>>(
        [z](const KernelArgs& args) { AttendQueries<decltype(zero)>(z, args); });
    // The heads of a single query lie one behind the other; those of several queries do not.
    return z.s == 1 ? TiledKernel(z, z.h, 1, {true, false, false, false}, std::move(run))
                    : TiledKernel(z, z.s, QueryTile(z), {true, false, false, true}, std::move(run));
  });
}

Kernel AttentionGradQCpu(const KernelSpec& spec) {
  const AttentionSizes z = SizesOf(spec, 6);
  return OfReals(spec, [&](auto zero) {
    return TiledKernel(z, z.s, QueryTile(z), {true, false, false, true, true, true, true},
                       OnThisCpu<kMostLevel<decltype(zero)>>(
                           [z](const KernelArgs& args) { QueryGradients<decltype(zero)>(z, args); }));
  });
}

Kernel AttentionGradKvCpu(const KernelSpec& spec) {
  const AttentionSizes z = SizesOf(spec, 6);
  return OfReals(spec, [&](auto zero) {
    return TiledKernel(z, z.t, kKeyTile, {false, true, true, false, false, false, false},
                       OnThisCpu<kMostLevel<decltype(zero)>>(
                           [z](const KernelArgs& args) { KeyGradients<decltype(zero)>(z, args); }));
  });
}

}  // namespace meshwork
