// Kernels that make values in place.
#include <algorithm>
#include <bit>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

using Ints = std::vector<int64_t>;

CudaKernel Constant(const OpRow& row, const KernelSpec& spec) {
  const Type& result = spec.results[0].local;
  return ForEach(TextOf(row, spec), result.num_elements(),
                 fmt::format("r0[i] = {};\n",
                             Rounded(result.dtype, Number(result.dtype, spec.attrs.Get<double>("value")))));
}

// A whole number in the compute type of `dtype`.
std::string AsNumber(DType dtype, std::string_view whole) {
  return fmt::format("({})({})", ComputeName(dtype), whole);
}

CudaKernel Iota(const OpRow& row, const KernelSpec& spec) {
  const Type& result = spec.results[0].local;
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  return ForEach(
      std::move(text), result.num_elements(),
      fmt::format("{}r0[i] = {};\n", PlacesAlong(result.shape, "i", "p"),
                  Rounded(result.dtype, AsNumber(result.dtype, fmt::format("r0_start{0} + p{0}", dim)))));
}

// The elements as they are stored, in a table.
CudaKernel Elements(const OpRow& row, const KernelSpec& spec) {
  const Type& result = spec.results[0].local;
  const Ints &bits = spec.attrs.Get<Ints>("bits"), &of = spec.attrs.Get<Ints>("of");
  if (bits.empty()) return ForEach(TextOf(row, spec), 0, "");
  const DType dtype = result.dtype;
  const std::string_view stored = dtype == F32   ? "unsigned"
                                  : dtype == F64 ? "unsigned long long"
                                                 : StoredName(dtype);
  std::vector<std::string> table;
  for (int64_t x : bits)
    table.push_back(fmt::format("({})({})", stored, Whole(dtype == BOOL ? static_cast<int64_t>(x != 0) : x)));
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  std::string lines = PlacesAlong(result.shape, "i", "p");
  // Padding takes any element.
  for (size_t d = 0; d < of.size(); ++d)
    lines += fmt::format("const long long q{0} = Within(r0_start{0} + p{0}, {1});\n", d, Whole(of[d] - 1));
  const std::string element =
      fmt::format("table[{}]", OffsetOf(RowMajorStrides(Shape(of.begin(), of.end())), "q"));
  lines += fmt::format("r0[i] = {};\n", dtype == F32 ? fmt::format("__uint_as_float({})", element)
                                        : dtype == F64
                                            ? fmt::format("__longlong_as_double((long long){})", element)
                                            : element);
  text.table_type = stored;
  text.table = fmt::format("{}", fmt::join(table, ", "));
  return ForEach(std::move(text), result.num_elements(), lines);
}

CudaKernel Linspace(const OpRow& row, const KernelSpec& spec) {
  const double start = spec.attrs.Get<double>("start"), stop = spec.attrs.Get<double>("stop");
  const int64_t last = spec.results[0].global.shape[0] - 1;
  const double step = last > 0 ? (stop - start) / static_cast<double>(last) : 0;
  const DType dtype = spec.results[0].local.dtype;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  return ForEach(
      std::move(text), spec.results[0].local.num_elements(),
      fmt::format("const long long at = r0_start0 + i;\n"
                  "const double x = at > 0 && at == {} ? {} : {} + (double)at * {};\nr0[i] = {};\n",
                  Whole(last), Real(stop), Real(start), Real(step), Rounded(dtype, AsNumber(dtype, "x"))));
}

CudaKernel Eye(const OpRow& row, const KernelSpec& spec) {
  const Type& result = spec.results[0].local;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  const int64_t rows = result.shape.end()[-2], columns = result.shape.back();
  const size_t down = result.shape.size() - 2, across = down + 1;
  return ForEach(
      std::move(text), result.num_elements(),
      fmt::format(
          "const Index row = i / {2} % {3}, column = i % {2};\n"
          "const bool is_one = r0_start{0} + row + {4} == r0_start{1} + column && column < r0_size{1};\n"
          "r0[i] = {5};\n",
          down, across, Whole(std::max<int64_t>(columns, 1)), Whole(std::max<int64_t>(rows, 1)),
          Whole(spec.attrs.Get<int64_t>("offset")), Rounded(result.dtype, AsNumber(result.dtype, "is_one"))));
}

CudaKernel OneHot(const OpRow& row, const KernelSpec& spec) {
  const Type& result = spec.results[0].local;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  const int64_t depth = std::max<int64_t>(result.shape.back(), 1);
  return ForEach(
      std::move(text), result.num_elements(),
      fmt::format(
          "const Index column = i % {1};\n"
          "const bool is_hot = (long long)a0[i / {1}] == r0_start{0} + column && column < r0_size{0};\n"
          "r0[i] = {2};\n",
          result.shape.size() - 1, Whole(depth), Rounded(result.dtype, AsNumber(result.dtype, "is_hot"))));
}

CudaKernel DimensionSize(const OpRow& row, const KernelSpec& spec) {
  int64_t size = 1;
  for (int64_t d : spec.attrs.Get<Ints>("dims")) size *= spec.operands[0].global.shape[d];
  const DType dtype = spec.results[0].local.dtype;
  return ForEach(TextOf(row, spec), 1,
                 fmt::format("r0[i] = {};\n", Rounded(dtype, AsNumber(dtype, Whole(size)))));
}

}  // namespace

std::span<const Generator> GenerationKernels() {
  static constexpr Generator kGenerators[] = {
      {"constant", Constant},
      {"iota", Iota},
      {"elements", Elements},
      {"linspace", Linspace},
      {"eye", Eye},
      {"one_hot", OneHot},
      {"dimension_size", DimensionSize},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
