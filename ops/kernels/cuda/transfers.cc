#include "meshwork/ops/kernels/cuda/transfers.h"

#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork {
namespace {

// Kernels of one source have it once each, in a namespace of their own.
constexpr std::string_view kTable = R"(struct Transfer {
  long long first_block, elements, run, from_offset, to_offset, num_dims, dims;
  unsigned long long to;
  long long num_sources, sources;
  unsigned long long fill;
};
// The last one that begins at this block or before.
__device__ inline const Transfer& TransferOf(const Transfer* table, long long count, long long block) {
  long long low = 0, high = count - 1;
  while (low < high) {
    const long long middle = (low + high + 1) / 2;
    if (table[middle].first_block <= block) low = middle;
    else high = middle - 1;
  }
  return table[low];
}
__device__ inline void PlaceOf(const Transfer& transfer, const long long* numbers, long long index, long long* from,
                               long long* to) {
  long long row = index / transfer.run;
  *from = transfer.from_offset + index % transfer.run;
  *to = transfer.to_offset + index % transfer.run;
  for (long long d = transfer.num_dims; d-- > 0;) {
    const long long* const dim = numbers + transfer.dims + 3 * d;
    *from += row % dim[0] * dim[1];
    *to += row % dim[0] * dim[2];
    row /= dim[0];
  }
}
)";

// `lines` know t, the transfer, from and to, offsets in elements.
CudaKernel KernelOf(const std::string& name, std::string_view lines) {
  CudaKernel kernel{.name = name, .threads = kTransferThreads, .pointers = 0};
  kernel.source =
      fmt::format(R"(namespace in_{0} {{
{1}}}
extern "C" __global__ void {0}(const in_{0}::Transfer* table, long long count, const long long* numbers) {{
  using namespace in_{0};
  const long long block = (long long)blockIdx.x;
  const Transfer& t = TransferOf(table, count, block);
  for (long long k = 0; k < {2}; ++k) {{
    const long long index = (block - t.first_block) * {3} + k * {4} + (long long)threadIdx.x;
    if (index >= t.elements) return;
    long long from, to;
    PlaceOf(t, numbers, index, &from, &to);
{5}  }}
}}
)",
                  name, kTable, kElementsPerTransferBlock / kTransferThreads, kElementsPerTransferBlock,
                  kTransferThreads, cuda::Indented(cuda::Indented(lines)));
  return kernel;
}

// An expression that combines a and b, numbers of the compute type.
std::string_view Combined(DType dtype, ReduceOp op) {
  if (dtype == BOOL) {
    const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kOr;
    return any ? "a | b" : "a & b";
  }
  switch (op) {
    case ReduceOp::kSum: return "Sum(a, b)";
    case ReduceOp::kProd: return "Product(a, b)";
    case ReduceOp::kMax: return "Larger(a, b)";
    default: return "Smaller(a, b)";
  }
}

}  // namespace

CudaKernel CudaMoveKernel(int64_t size) {
  const char* const type = size == 1   ? "unsigned char"
                           : size == 2 ? "unsigned short"
                           : size == 4 ? "unsigned"
                                       : "unsigned long long";
  return KernelOf(fmt::format("move_{}", size),
                  fmt::format("{0}* const target = ({0}*)t.to + to;\n"
                              "if (t.num_sources == 0) *target = ({0})t.fill;\n"
                              "else *target = ((const {0}*)numbers[t.sources])[from];\n",
                              type));
}

CudaKernel CudaReduceKernel(DType dtype, ReduceOp op) {
  const std::string_view stored = cuda::StoredName(dtype);
  // Bools are bytes here: a byte that is neither 0 nor 1 may lie in padding.
  const std::string_view number = dtype == BOOL ? stored : cuda::ComputeName(dtype);
  const auto load = [&](std::string_view element) {
    return dtype == BOOL ? std::string(element) : cuda::Loaded(dtype, element);
  };
  const auto round = [&](std::string_view result) {
    return dtype == BOOL ? fmt::format("({})({})", stored, result) : cuda::Rounded(dtype, result);
  };
  return KernelOf(fmt::format("reduce_{}_{}", ReduceOpName(op), DTypeName(dtype)),
                  fmt::format("{0} all = ((const {0}*)numbers[t.sources])[from];\n"
                              "for (long long s = 1; s < t.num_sources; ++s) {{\n"
                              "  const {1} a = {2}, b = {3};\n"
                              "  all = {4};\n"
                              "}}\n"
                              "(({0}*)t.to)[to] = all;\n",
                              stored, number, load("all"),
                              load(fmt::format("((const {}*)numbers[t.sources + s])[from]", stored)),
                              round(Combined(dtype, op))));
}

}  // namespace meshwork
