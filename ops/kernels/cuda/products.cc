// Products of matrices, in tiles in shared memory: for products that no library takes (cuda_product.h), or if there is
// no library.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/blocks_of_32.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/leading.h"
#include "meshwork/ops/kernels/cuda/text.h"
#include "meshwork/ops/kernels/matmul_sizes.h"

namespace meshwork::cuda {
namespace {

// A block has 32 x 32 results; each of its 256 threads has four of them, eight rows apart.
constexpr std::string_view kBody = R"(
  __shared__ {A} a_tile[32][33];
  __shared__ {A} b_tile[32][33];
  const int x = (int)threadIdx.x % 32, y = (int)threadIdx.x / 32;
  const Index first_n = (Index)blockIdx.x % {tiles_n} * 32, first_m = (Index)blockIdx.x / {tiles_n} % {tiles_m} * 32;
  const Index z = (Index)blockIdx.x / ({tiles_n} * {tiles_m});
{kept_places}  const Index base_a = {kept_a}, base_b = {kept_b};
  {A} sums[4] = {0, 0, 0, 0};
  for (Index s = 0; s < {terms}; ++s) {
{summed_places}    const Index at_a = base_a + {summed_a}, at_b = base_b + {summed_b};
    for (Index first_k = 0; first_k < {k}; first_k += 32) {
      for (int row = y; row < 32; row += 8) {
        {
          const Index i = first_m + {a_row}, j = first_k + {a_column};
          a_tile[{a_row}][{a_column}] = i < {m} && j < {k} ? {load_a} : ({A})0;
        }
        {
          const Index i = first_k + {b_row}, j = first_n + {b_column};
          b_tile[{b_row}][{b_column}] = i < {k} && j < {n} ? {load_b} : ({A})0;
        }
      }
      __syncthreads();
      for (int l = 0; l < 32; ++l)
        for (int r = 0; r < 4; ++r) sums[r] = MultiplyAdd(a_tile[y + 8 * r][l], b_tile[l][x], sums[r]);
      __syncthreads();
    }
  }
  for (int r = 0; r < 4; ++r) {
    const Index row = first_m + y + 8 * r, column = first_n + x;
    if (row < {m} && column < {n}) r0[(z * {m} + row) * {n} + column] = {store};
  }
)";

std::string Filled(std::string_view body,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string text(body.substr(1));
  for (const auto& [name, value] : values) {
    const std::string place = fmt::format("{{{}}}", name);
    for (size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size()))
      text.replace(at, place.size(), value);
  }
  return text;
}

// The product of `as_matmul`, a spec of matmul, by a kernel with the operands of `spec`. b: the element of the second
// operand, in the type that is computed in, at_b + j * … + i of it.
CudaKernel ProductKernel(const OpRow& row, const KernelSpec& spec, const KernelSpec& as_matmul,
                         std::string_view b) {
  const MatmulSizes s =
      MatmulSizesOf(as_matmul.attrs, as_matmul.operands[0].local.shape, as_matmul.operands[1].local.shape);
  const auto [kept, summed] = LeadingDimsOf(as_matmul);
  const int64_t matrices = NumElements(kept.sizes), tiles_m = (s.m + 31) / 32, tiles_n = (s.n + 31) / 32;
  const Walk over_kept = kept.Merged(), over_summed = summed.Merged();
  const DType dtype = spec.results[0].local.dtype;
  KernelText text = TextOf(row, spec);
  text.blocks = matrices * tiles_m * tiles_n;
  // Neighbouring threads read neighbouring elements, of a transposed operand too.
  const auto row_of = [](bool transposed) { return transposed ? "x" : "row"; };
  const auto column_of = [](bool transposed) { return transposed ? "row" : "x"; };
  const std::string a = s.transpose_a ? fmt::format("a0[at_a + j * {} + i]", Whole(s.m))
                                      : fmt::format("a0[at_a + i * {} + j]", Whole(s.k));
  text.body = Filled(kBody, {{"A", std::string(ComputeName(dtype))},
                             {"tiles_m", Whole(std::max<int64_t>(tiles_m, 1))},
                             {"tiles_n", Whole(std::max<int64_t>(tiles_n, 1))},
                             {"kept_places", Indented(over_kept.Places("z"))},
                             {"kept_a", over_kept.Offset(0, "z")},
                             {"kept_b", over_kept.Offset(1, "z")},
                             {"terms", Whole(NumElements(summed.sizes))},
                             {"summed_places", Indented(Indented(over_summed.Places("s")))},
                             {"summed_a", over_summed.Offset(0, "s")},
                             {"summed_b", over_summed.Offset(1, "s")},
                             {"m", Whole(s.m)},
                             {"n", Whole(s.n)},
                             {"k", Whole(s.k)},
                             {"a_row", row_of(s.transpose_a)},
                             {"a_column", column_of(s.transpose_a)},
                             {"b_row", row_of(s.transpose_b)},
                             {"b_column", column_of(s.transpose_b)},
                             {"load_a", Loaded(dtype, a)},
                             {"load_b", std::string(b)},
                             {"store", Rounded(dtype, "sums[r]")}});
  text.most_elements = std::max({text.blocks, s.k + 32, as_matmul.operands[1].local.num_elements()});
  return Finish(text);
}

CudaKernel Matmul(const OpRow& row, const KernelSpec& spec) {
  const MatmulSizes s = MatmulSizesOf(spec.attrs, spec.operands[0].local.shape, spec.operands[1].local.shape);
  const std::string b = s.transpose_b ? fmt::format("a1[at_b + j * {} + i]", Whole(s.k))
                                      : fmt::format("a1[at_b + i * {} + j]", Whole(s.n));
  return ProductKernel(row, spec, spec, Loaded(spec.results[0].local.dtype, b));
}

// The product with the matrix that the blocks stand for: [..,n,K,..] is [..,n,k], and x, […,m,K,32], is [..,m,k] behind the
// instances' dims, its batch among the rows.
KernelSpec AsMatmul(const KernelSpec& spec) {
  KernelSpec as = spec;
  const size_t leading = spec.reduced.size();
  Shape &x = as.operands[0].local.shape, &w = as.operands[1].local.shape;
  const Shape rows(x.begin() + static_cast<int64_t>(leading), x.end() - 2);
  x.resize(leading);
  x.push_back(NumElements(rows));
  w.pop_back();
  w.back() *= kBlockNumbers;
  x.push_back(w.back());
  as.attrs = {{"transpose_a", false}, {"transpose_b", true}, {"sum_batch", false}};
  return as;
}

CudaKernel MatmulQ(const OpRow& row, const KernelSpec& spec) {
  const KernelSpec as_matmul = AsMatmul(spec);
  const std::string number = fmt::format("({})QuantizedNumber(a1, a2, {}, at_b + j * {} + i)",
                                         ComputeName(spec.results[0].local.dtype),
                                         spec.operands.size() > 3 ? "a3" : "(const unsigned short*)0",
                                         Whole(as_matmul.operands[1].local.shape.back()));
  return ProductKernel(row, spec, as_matmul, number);
}

}  // namespace

std::span<const Generator> ProductKernels() {
  static constexpr Generator kGenerators[] = {{"matmul", Matmul}, {"matmul_q", MatmulQ}};
  return kGenerators;
}

}  // namespace meshwork::cuda
