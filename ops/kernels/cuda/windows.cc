// Pooling: windows that slide over channels-last images. A thread makes one element of the result, and goes through the
// places of its window (the taps) in their order.
#include "meshwork/ops/kernels/cuda/windows.h"

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"

namespace meshwork::cuda {
namespace {

struct Pooling {
  const OpRow& row;
  const KernelSpec& spec;
  DType dtype;
  bool is_forward;  // the result is y, else x
  Windows windows;
  int64_t channels;

  Pooling(const OpRow& row, const KernelSpec& spec, bool is_forward)
      : row(row),
        spec(spec),
        dtype(spec.results[0].local.dtype),
        is_forward(is_forward),
        windows(spec, X().shape, Y().shape, spec.attrs.Get<std::vector<int64_t>>("window")),
        channels(X().shape.back()) {}

  const Type& X() const { return is_forward ? spec.operands[0].local : spec.results[0].local; }
  const Type& Y() const { return is_forward ? spec.results[0].local : spec.operands[0].local; }

  // `start`, then for each seen element `lines`, where `at` is its place, then `end`.
  CudaKernel Make(std::string_view start, std::string_view lines, std::string_view end) const {
    const char own = is_forward ? 'y' : 'x', seen = is_forward ? 'x' : 'y';
    KernelText text = TextOf(row, spec);
    TakeBlock(text, spec, /*is_result=*/true, 0);
    const std::string at =
        fmt::format("const Index at = {};\n",
                    Windows::PlaceIn(is_forward ? windows.in : windows.out, seen, channels, "channel"));
    const std::string visited = at + std::string(lines);
    return ForEach(std::move(text), spec.results[0].local.num_elements(),
                   ImagePlaces(spec.results[0].local.shape, own) + std::string(start) +
                       (is_forward ? windows.OverElements(visited) : windows.OverResults(visited)) +
                       std::string(end));
  }
  std::string Zero() const { return fmt::format("{} all = 0;\n", ComputeName(dtype)); }
  std::string Stored() const { return fmt::format("r0[i] = {};\n", Rounded(dtype, "all")); }
};

CudaKernel SumPoolOf(const Pooling& p) {
  return p.Make(p.Zero(), fmt::format("all += {};\n", Loaded(p.dtype, "a0[at]")), p.Stored());
}
CudaKernel SumPool(const OpRow& row, const KernelSpec& spec) { return SumPoolOf(Pooling(row, spec, true)); }
CudaKernel SumPoolGrad(const OpRow& row, const KernelSpec& spec) {
  return SumPoolOf(Pooling(row, spec, false));
}

CudaKernel MaxPool(const OpRow& row, const KernelSpec& spec) {
  const Pooling p(row, spec, true);
  return p.Make(
      fmt::format("{0} all = Limits<{0}>::Least();\nint place = -1;\n", ComputeName(p.dtype)),
      fmt::format(
          "const {} value = {};\n"
          "if (value > all || (value != value && all == all)) {{\n  all = value;\n  place = (int)tap;\n}}\n",
          ComputeName(p.dtype), Loaded(p.dtype, "a0[at]")),
      p.Stored() + "r1[i] = place;\n");
}
CudaKernel MaxPoolGrad(const OpRow& row, const KernelSpec& spec) {
  const Pooling p(row, spec, false);
  return p.Make(
      p.Zero(),
      fmt::format("all += a1[at] == tap ? {0} : ({1})0;\n", Loaded(p.dtype, "a0[at]"), ComputeName(p.dtype)),
      p.Stored());
}
CudaKernel MaxPoolAt(const OpRow& row, const KernelSpec& spec) {
  const Pooling p(row, spec, true);
  return p.Make(p.Zero(), fmt::format("if (a1[i] == tap) all = {};\n", Loaded(p.dtype, "a0[at]")),
                p.Stored());
}

}  // namespace

std::span<const Generator> WindowKernels() {
  static constexpr Generator kGenerators[] = {
      {"max_pool", MaxPool}, {"max_pool_grad", MaxPoolGrad}, {"max_pool_at", MaxPoolAt},
      {"sum_pool", SumPool}, {"sum_pool_grad", SumPoolGrad},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
