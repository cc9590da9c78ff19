#include "meshwork/ops/kernels/cuda/transfers.h"

#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork {
namespace {

// `lines` know t, the transfer, from and to, offsets in elements.
CudaKernel KernelOf(const std::string& name, std::string_view lines) {
  CudaKernel kernel{.name = name, .threads = kTransferThreads, .pointers = 0};
  kernel.source = fmt::format(
      R"(extern "C" __global__ void {0}(const Transfer* table, long long count, const long long* numbers) {{
  const long long block = (long long)blockIdx.x;
  const Transfer& t = TransferOf(table, count, block);
  for (long long k = 0; k < {1}; ++k) {{
    const long long index = (block - t.first_block) * {2} + k * {3} + (long long)threadIdx.x;
    if (index >= t.elements) return;
    long long from, to;
    PlaceOf(t, numbers, index, &from, &to);
{4}  }}
}}
)",
      name, kElementsPerTransferBlock / kTransferThreads, kElementsPerTransferBlock, kTransferThreads,
      cuda::Indented(cuda::Indented(lines)));
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
