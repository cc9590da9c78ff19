// Reductions over dims, but for those of rows (rows.cc). A result is folded by some threads of one block, each of which
// folds every so many-th element; then the threads' values are folded in halves. The order depends on the shape alone.
//
//   f32[8192,700] over dims 0   a block has 8 results, side by side in memory, with 128 threads each
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/families.h"
#include "meshwork/kernels/cuda/folds.h"
#include "meshwork/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kThreads = 256, kMostThreads = 1024;
constexpr int64_t kBlocksOfGpu = 132;  // an H100 has so many multiprocessors
constexpr int64_t kSector = 32;        // bytes

// The dims that are reduced, or those that are kept: their sizes and the operand's strides, merged.
Walk Along(const Shape& shape, const std::vector<bool>& reduces, bool which) {
  const Shape dense = RowMajorStrides(shape);
  Shape sizes, strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (reduces[d] != which) continue;
    sizes.push_back(shape[d]);
    strides.push_back(dense[d]);
  }
  return Walk::Of(sizes, {&strides, 1});
}

int64_t SizeOf(const Walk& walk) {
  int64_t size = 1;
  for (const Walk::Dim& dim : walk.dims) size *= dim.size;
  return size;
}

// `text` has names p0, … for places; those of two walks in one scope differ.
std::string Renamed(std::string text, char prefix) {
  for (size_t at = text.find('p'); at != std::string::npos; at = text.find('p', at + 1)) text[at] = prefix;
  return text;
}

CudaKernel Reduction(const OpRow& row, const KernelSpec& spec, const std::vector<bool>& reduces,
                     const Fold& fold) {
  const Shape& shape = spec.operands[0].local.shape;
  const Walk kept = Along(shape, reduces, false), folded = Along(shape, reduces, true);
  const int64_t results = SizeOf(kept), count = SizeOf(folded);
  const bool is_run = !folded.dims.empty() && folded.dims.back().strides[0] == 1;
  // Side by side in memory lie the elements of a result, or the results.
  int64_t lanes = 1, per_block = 1, most = kThreads;
  if (!is_run) {
    // Few results: a block has more threads for each, and just as many results as memory is read at once.
    const int64_t size = DTypeSize(spec.operands[0].local.dtype);
    per_block = 32;
    if (results < kBlocksOfGpu * per_block) {
      while (per_block * size > kSector && results < kBlocksOfGpu * per_block) per_block /= 2;
      most = kMostThreads;
    }
    most /= per_block;
  }
  while (lanes < most && 4 * lanes <= count) lanes *= 2;
  per_block = std::max(per_block, kThreads / lanes);
  const int64_t threads = lanes * per_block;

  KernelText text = TextOf(row, spec);
  text.threads = threads;
  text.blocks = (results + per_block - 1) / per_block;
  std::string lines =
      fmt::format("const Index thread = (Index)threadIdx.x;\nconst Index lane = {}, slot = {};\n",
                  is_run ? fmt::format("thread % {}", lanes) : fmt::format("thread / {}", per_block),
                  is_run ? fmt::format("thread / {}", lanes) : fmt::format("thread % {}", per_block));
  lines +=
      fmt::format("const Index result = (Index)blockIdx.x * {} + slot;\n{} all = {};\nif (result < {}) {{\n",
                  per_block, fold.type, fold.identity, Whole(results));
  const std::string offset = Renamed(folded.Offset(0, "j"), 'q');
  std::string inner = Renamed(folded.Places("j"), 'q');
  inner += fmt::format("const Index at = base + {};\nconst {} a = all, b = {};\nall = {};\n", offset,
                       fold.type, fold.element, fold.combined);
  lines += Indented(fmt::format(
      "{}const Index base = {};\n#pragma unroll 4\nfor (Index j = lane; j < {}; j += {}) {{\n{}}}\n",
      kept.Places("result"), kept.Offset(0, "result"), Whole(count), lanes, Indented(inner)));
  lines += "}\n";
  if (lanes > 1) {
    lines += fmt::format(
        "__shared__ {0} partial[{1}];\npartial[thread] = all;\n__syncthreads();\n"
        "for (int half = {2}; half > 0; half /= 2) {{\n"
        "  if (lane < half) {{\n    const {0} a = partial[thread], b = partial[thread + half * {3}];\n"
        "    partial[thread] = {4};\n  }}\n  __syncthreads();\n}}\nall = partial[thread];\n",
        fold.type, threads, lanes / 2, is_run ? 1 : per_block, fold.combined);
  }
  lines += fmt::format("if (lane == 0 && result < {}) r0[result] = {};\n", Whole(results), fold.result);
  text.body = Indented(lines);
  text.most_elements = results + 4 * kMostThreads;
  return Finish(text);
}

// In the type to compute with; of bools in their bytes.
Fold FoldInType(DType dtype, std::string_view identity, std::string_view combined) {
  const DType of = dtype == BOOL ? U8 : dtype;
  const std::string type(ComputeName(of));
  return {type, fmt::format(fmt::runtime(identity), type), std::string(combined), Loaded(of, "a0[at]"),
          Rounded(of, "all")};
}

CudaKernel Folded(const OpRow& row, const KernelSpec& spec) {
  return Reduction(row, spec, ReducedDims(spec), FoldOf(row, spec).value());
}

CudaKernel Arg(const OpRow& row, const KernelSpec& spec, bool largest) {
  std::vector<bool> reduces(spec.operands[0].local.shape.size(), false);
  reduces[spec.attrs.Get<int64_t>("dim")] = true;
  const DType dtype = spec.operands[0].local.dtype;
  const std::string type = fmt::format("Indexed<{}>", ComputeName(dtype));
  return Reduction(row, spec, reduces,
                   {type, fmt::format("{}{{0, -1}}", type), fmt::format("Foremost<{}>(a, b)", largest),
                    fmt::format("{}{{{}, (int)j}}", type, Loaded(dtype, "a0[at]")), "all.at"});
}
CudaKernel ArgMax(const OpRow& row, const KernelSpec& spec) { return Arg(row, spec, true); }
CudaKernel ArgMin(const OpRow& row, const KernelSpec& spec) { return Arg(row, spec, false); }

}  // namespace

std::vector<bool> ReducedDims(const KernelSpec& spec) {
  std::vector<bool> reduces(spec.operands[0].local.shape.size(), false);
  for (int64_t d : spec.attrs.Get<Ints>("dims")) reduces[d] = true;
  return reduces;
}

std::optional<Fold> FoldOf(const OpRow& row, const KernelSpec& spec) {
  if (row.name.substr(0, 7) != "reduce_") return std::nullopt;
  const DType dtype = spec.results[0].local.dtype;
  if (row.name == "reduce_sum") return FoldInType(dtype, "0", "Sum(a, b)");
  if (row.name == "reduce_prod") return FoldInType(dtype, "1", "Product(a, b)");
  if (row.name == "reduce_max") return FoldInType(dtype, "Limits<{}>::Least()", "Larger(a, b)");
  if (row.name == "reduce_min") return FoldInType(dtype, "Limits<{}>::Most()", "Smaller(a, b)");
  if (row.name == "reduce_all") return FoldInType(BOOL, "1", "(unsigned char)(a & b)");
  if (row.name == "reduce_any") return FoldInType(BOOL, "0", "(unsigned char)(a | b)");
  if (row.name != "reduce_mean") return std::nullopt;
  // A mean divides by the number of elements of the global dims, so that partial means add up to it.
  double count = 1;
  for (int64_t d : spec.attrs.Get<Ints>("dims"))
    count *= static_cast<double>(spec.operands[0].global.shape[d]);
  Fold fold = FoldInType(dtype, "0", "Sum(a, b)");
  if (count != 1) fold.result = Rounded(dtype, fmt::format("all / {}", Number(dtype, count)));
  return fold;
}

std::span<const Generator> ReductionKernels() {
  static constexpr Generator kGenerators[] = {
      {"reduce_sum", Folded}, {"reduce_mean", Folded}, {"reduce_max", Folded},
      {"reduce_min", Folded}, {"reduce_prod", Folded}, {"reduce_all", Folded},
      {"reduce_any", Folded}, {"argmax", ArgMax},      {"argmin", ArgMin},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
