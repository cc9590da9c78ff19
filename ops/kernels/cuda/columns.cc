// Rows that work along one dim. Cumulative rows and recurrences have a thread for each column, which goes along it; orders
// have a block for each column, which sorts in shared memory, or a thread for each element, which counts what comes before
// it.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

// A tensor as [outer, n, inner] around the dim.
struct Columns {
  int64_t outer = 1, n, inner = 1;

  Columns(const KernelSpec& spec, const Shape& shape) {
    const int64_t dim = spec.attrs.Get<int64_t>("dim");
    n = shape[dim];
    for (int64_t d = 0; d < std::ssize(shape); ++d)
      if (d != dim) (d < dim ? outer : inner) *= shape[d];
  }
  std::string Inner() const { return Whole(std::max<int64_t>(inner, 1)); }
};

// Goes along each column; `lines` compute element `at` of the result, the k-th on the way.
CudaKernel Course(const OpRow& row, const KernelSpec& spec, std::string_view before, std::string_view lines) {
  const Columns c(spec, spec.results[0].local.shape);
  const std::string_view place = spec.attrs.Get<bool>("reverse") ? "{0} - 1 - k" : "k";
  return ForEach(
      TextOf(row, spec), c.outer * c.inner,
      fmt::format("const Index first = i / {0} * {0} * {1} + i % {0};\n{2}"
                  "for (Index k = 0; k < {1}; ++k) {{\n  const Index at = first + ({3}) * {0};\n{4}}}\n",
                  c.Inner(), Whole(c.n), before, fmt::format(fmt::runtime(place), Whole(c.n)),
                  Indented(lines)));
}

CudaKernel Cumulative(const OpRow& row, const KernelSpec& spec, std::string_view identity,
                      std::string_view combined) {
  const DType dtype = spec.results[0].local.dtype;
  const std::string_view type = ComputeName(dtype);
  const std::string store = fmt::format("r0[at] = {};\n", Rounded(dtype, "all"));
  const std::string next = fmt::format("const {} a = all, b = {};\n", type, Loaded(dtype, "a0[at]"));
  const std::string fold = fmt::format("all = {};\n", combined);
  return Course(row, spec, fmt::format("{} all = {};\n", type, fmt::format(fmt::runtime(identity), type)),
                next + (spec.attrs.Get<bool>("exclusive") ? store + fold : fold + store));
}
CudaKernel Cumsum(const OpRow& row, const KernelSpec& spec) {
  return Cumulative(row, spec, "0", "Sum(a, b)");
}
CudaKernel Cumprod(const OpRow& row, const KernelSpec& spec) {
  return Cumulative(row, spec, "1", "Product(a, b)");
}
CudaKernel Cummax(const OpRow& row, const KernelSpec& spec) {
  return Cumulative(row, spec, "Limits<{}>::Least()", "Larger(a, b)");
}
CudaKernel Cummin(const OpRow& row, const KernelSpec& spec) {
  return Cumulative(row, spec, "Limits<{}>::Most()", "Smaller(a, b)");
}

CudaKernel LinearRecurrence(const OpRow& row, const KernelSpec& spec) {
  const DType dtype = spec.results[0].local.dtype;
  return Course(row, spec, fmt::format("{} all = 0;\n", ComputeName(dtype)),
                fmt::format("const {} a = {}, b = {};\nall = k == 0 ? b : a * all + b;\nr0[at] = {};\n",
                            ComputeName(dtype), Loaded(dtype, "a0[at]"), Loaded(dtype, "a1[at]"),
                            Rounded(dtype, "all")));
}

CudaKernel OrderByCounting(const OpRow& row, const KernelSpec& spec, bool descending) {
  const Columns from(spec, spec.operands[0].local.shape), to(spec, spec.results[0].local.shape);
  const DType dtype = spec.operands[0].local.dtype;
  return ForEach(
      TextOf(row, spec), spec.operands[0].local.num_elements(),
      fmt::format(
          "const Index outer = i / ({0} * {1}), place = i / {1} % {0}, column = i % {1};\n"
          "const {2} own = {3};\nIndex rank = 0;\n"
          "for (Index j = 0; j < {0}; ++j) {{\n  const {2} other = {4};\n"
          "  const bool is_before = {5}, is_behind = {6};\n"
          "  rank += is_before || (!is_behind && j < place) ? 1 : 0;\n}}\n"
          "if (rank < {7}) {{\n  r0[(outer * {7} + rank) * {1} + column] = a0[i];\n"
          "  r1[(outer * {7} + rank) * {1} + column] = (int)place;\n}}\n",
          Whole(std::max<int64_t>(from.n, 1)), from.Inner(), ComputeName(dtype), Loaded(dtype, "a0[i]"),
          Loaded(dtype, fmt::format("a0[(outer * {} + j) * {} + column]", Whole(from.n), from.Inner())),
          descending ? "SortsBelow(own, other)" : "SortsBelow(other, own)",
          descending ? "SortsBelow(other, own)" : "SortsBelow(own, other)", Whole(to.n)));
}

// Sorts in shared memory: a whole column, or some elements at a time if only the first ones of the order are needed.
CudaKernel Order(const OpRow& row, const KernelSpec& spec, bool descending) {
  const Columns from(spec, spec.operands[0].local.shape), to(spec, spec.results[0].local.shape);
  const DType dtype = spec.operands[0].local.dtype;
  constexpr int64_t kFew = 64;
  const int64_t most = dtype == F64 || dtype == I64 ? 2048 : 4096;
  if (from.n <= kFew || (from.n > most && to.n > most / 2)) return OrderByCounting(row, spec, descending);
  int64_t size = kFew;
  while (size < most && size < from.n) size *= 2;
  KernelText text = TextOf(row, spec);
  text.threads = 256;
  text.blocks = from.outer * from.inner;
  text.most_elements = std::max(from.n, text.blocks) + 2 * size;
  text.body = Indented(
      fmt::format("__shared__ {0} values[{1}];\n__shared__ Index places[{1}];\n"
                  "const Index outer = (Index)blockIdx.x / {2}, column = (Index)blockIdx.x % {2};\n"
                  "const Index first = outer * {3} * {2} + column, to = outer * {4} * {2} + column;\n"
                  "const auto value_of = [&](Index i) -> {0} {{ return {5}; }};\n"
                  "const auto stored = [&](Index i, Index at) {{\n"
                  "  r0[to + i * {2}] = a0[first + at * {2}];\n  r1[to + i * {2}] = (int)at;\n}};\n"
                  "FirstInOrder<{1}, {6}, {0}>((Index){3}, (Index){4}, values, places, value_of, stored);\n",
                  ComputeName(dtype), size, from.Inner(), Whole(from.n), Whole(to.n),
                  Loaded(dtype, fmt::format("a0[first + i * {}]", from.Inner())), descending));
  return Finish(text);
}
CudaKernel Sort(const OpRow& row, const KernelSpec& spec) {
  return Order(row, spec, spec.attrs.Get<bool>("descending"));
}
CudaKernel TopK(const OpRow& row, const KernelSpec& spec) { return Order(row, spec, /*descending=*/true); }

}  // namespace

std::span<const Generator> ColumnKernels() {
  static constexpr Generator kGenerators[] = {
      {"cumsum", Cumsum},
      {"cumprod", Cumprod},
      {"cummax", Cummax},
      {"cummin", Cummin},
      {"linear_recurrence", LinearRecurrence},
      {"sort", Sort},
      {"top_k", TopK},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
