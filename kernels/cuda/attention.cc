// Attention and its gradients. A block of threads has one query (or one key) of one head and goes through the keys
// (the queries) 128 at a time, so that scores never lie in memory; sums are made in the order of the keys.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/families.h"
#include "meshwork/kernels/cuda/text.h"
#include "meshwork/ops/attention_sizes.h"

namespace meshwork::cuda {
namespace {

constexpr int64_t kThreadsOfHead = 128;

// What the bodies name: the sizes b, s, t, h, d and e, and how to read elements.
struct Heads {
  AttentionSizes z;
  DType dtype;
  std::string type;
  int seen;  // the operand that says how many keys a query sees

  Heads(const KernelSpec& spec, size_t seen)
      : z(AttentionSizesOf(spec.operands[0].local, spec.operands[1].local, spec.operands[2].local,
                           spec.operands.size() > seen, spec.attrs)),
        dtype(spec.operands[0].local.dtype),
        type(ComputeName(dtype)),
        seen(static_cast<int>(seen)) {}

  // The i-th element of row `row` of a head, of an operand whose heads have `dims` elements.
  std::string Element(std::string_view operand, int64_t rows, std::string_view row, int64_t dims,
                      std::string_view i) const {
    return Loaded(dtype, fmt::format("{}[((batch * {} + {}) * {} + head) * {} + {}]", operand, Whole(rows),
                                     row, Whole(z.h), Whole(dims), i));
  }

  // "const long long limit = …;": how many keys `query` sees, counted in the whole sequence; padding sees none.
  std::string Limit() const {
    std::string lines = "long long limit = query < a0_size1 ? a1_start1 + a1_size1 : 0;\n";
    if (z.causal) lines += "if (limit > a0_start1 + query + 1) limit = a0_start1 + query + 1;\n";
    if (z.has_seen)
      lines += fmt::format("if (limit > a{0}[batch * {1} + query]) limit = a{0}[batch * {1} + query];\n",
                           seen, Whole(z.s));
    return lines;
  }

  std::string Dot(std::string_view a, std::string_view b, int64_t dims) const {
    return fmt::format("{0} dot = 0;\nfor (Index x = 0; x < {1}; ++x) dot = MultiplyAdd({2}, {3}, dot);\n",
                       type, Whole(dims), a, b);
  }

  // The lines that make `share` and `slope` of `query` and `key`, by the log-sum and the shift of the query.
  std::string Slope() const {
    const std::string row = fmt::format("(batch * {} + query) * {} + head", Whole(z.s), Whole(z.h));
    return fmt::format(
        "{0} score = 0, of_share = 0;\n"
        "for (Index x = 0; x < {1}; ++x) score = MultiplyAdd({2}, {3}, score);\n"
        "for (Index x = 0; x < {4}; ++x) of_share = MultiplyAdd({5}, {6}, of_share);\n"
        "{0} log_sum = a4[{7}];\n"
        "if (log_sum == Limits<{0}>::Least()) log_sum = Limits<{0}>::Most();\n"
        "share = Exp(score * {8} - log_sum);\n"
        "slope = share * (of_share - a5[{7}]) * {8};\n",
        type, Whole(z.d), Element("a0", z.s, "query", z.d, "x"), Element("a1", z.t, "key", z.d, "x"),
        Whole(z.e), Element("a3", z.s, "query", z.e, "x"), Element("a2", z.t, "key", z.e, "x"), row,
        Number(dtype, z.scale));
  }
};

CudaKernel PerHead(const OpRow& row, const KernelSpec& spec, int64_t rows, const Heads& heads,
                   std::string_view lines) {
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/false, 0);
  TakeBlock(text, spec, /*is_result=*/false, 1);
  text.threads = kThreadsOfHead;
  text.blocks = heads.z.b * rows * heads.z.h;
  text.most_elements = text.blocks + heads.z.s + heads.z.t + heads.z.d + heads.z.e + kThreadsOfHead;
  text.body = Indented(fmt::format(
      "const Index thread = (Index)threadIdx.x, head = (Index)blockIdx.x % {0};\n"
      "const Index own = (Index)blockIdx.x / {0} % {1}, batch = (Index)blockIdx.x / ({0} * {1});\n{2}",
      Whole(std::max<int64_t>(heads.z.h, 1)), Whole(std::max<int64_t>(rows, 1)), lines));
  return Finish(text);
}

// Sums over the keys that `query` sees of weight times an element, for each of `dims` columns: `lines` make `weight` of
// `key`; `element` is one of `column`.
std::string WeightedColumns(const Heads& heads, int64_t dims, std::string_view lines,
                            std::string_view element, std::string_view stored) {
  return fmt::format(
      "__shared__ {0} weights[{1}];\n"
      "for (Index first = 0; first < {2}; first += {1}) {{\n"
      "  const Index column = first + thread;\n  {0} all = 0;\n"
      "  for (Index begin = 0; begin < keys; begin += {1}) {{\n"
      "    if (begin + thread < keys) {{\n      const Index key = begin + thread;\n{3}      weights[thread] = weight;\n    }}\n"
      "    __syncthreads();\n"
      "    if (column < {2})\n"
      "      for (Index key = begin; key < begin + {1} && key < keys; ++key)\n"
      "        all = MultiplyAdd(weights[key - begin], {4}, all);\n"
      "    __syncthreads();\n  }}\n"
      "  if (column < {2}) {5};\n}}\n",
      heads.type, kThreadsOfHead, Whole(dims), Indented(Indented(Indented(lines))), element, stored);
}

// The number of keys of the block that `own` sees, in order from the first.
std::string SeenKeys(const Heads& heads, std::string_view first) {
  return fmt::format("const Index query = own;\n{}const Index keys = (Index)Within(limit - {}, {});\n",
                     heads.Limit(), first, Whole(heads.z.t));
}

CudaKernel Attention(const OpRow& row, const KernelSpec& spec) {
  const Heads heads(spec, 3);
  const AttentionSizes& z = heads.z;
  const std::string scale = Number(heads.dtype, z.scale);
  const std::string score =
      heads.Dot(heads.Element("a0", z.s, "query", z.d, "x"), heads.Element("a1", z.t, "key", z.d, "x"), z.d) +
      fmt::format("const {} score = dot * {};\n", heads.type, scale);
  // Each thread's largest score, then the sum of exp of the distances to the largest of all.
  std::string lines = SeenKeys(heads, "0");
  lines += fmt::format(
      "__shared__ {0} partial[{1}];\n"
      "{0} most = Limits<{0}>::Least();\n"
      "for (Index key = thread; key < keys; key += {1}) {{\n{2}  most = Larger(most, score);\n}}\n"
      "partial[thread] = most;\n__syncthreads();\n"
      "for (int half = {3}; half > 0; half /= 2) {{\n"
      "  if (thread < half) partial[thread] = Larger(partial[thread], partial[thread + half]);\n  __syncthreads();\n}}\n"
      "most = partial[0];\n__syncthreads();\n"
      "const {0} shift = most == Limits<{0}>::Least() ? ({0})0 : most;\n"
      "{0} total = 0;\n"
      "for (Index key = thread; key < keys; key += {1}) {{\n{2}  total += Exp(score - shift);\n}}\n"
      "partial[thread] = total;\n__syncthreads();\n"
      "for (int half = {3}; half > 0; half /= 2) {{\n"
      "  if (thread < half) partial[thread] += partial[thread + half];\n  __syncthreads();\n}}\n"
      "total = partial[0];\n"
      "const {0} part = total == 0 ? ({0})0 : 1 / total;\n"
      "const Index at = (batch * {4} + query) * {5} + head;\n"
      "if (thread == 0) r1[at] = most + Log(total);\n",
      heads.type, kThreadsOfHead, Indented(score), kThreadsOfHead / 2, Whole(z.s), Whole(z.h));
  lines += WeightedColumns(
      heads, z.e, score + fmt::format("const {} weight = Exp(score - shift);\n", heads.type),
      heads.Element("a2", z.t, "key", z.e, "column"),
      fmt::format("r0[at * {} + column] = {}", Whole(z.e), Rounded(heads.dtype, "all * part")));
  return PerHead(row, spec, z.s, heads, lines);
}

CudaKernel AttentionGradQ(const OpRow& row, const KernelSpec& spec) {
  const Heads heads(spec, 6);
  const AttentionSizes& z = heads.z;
  const std::string lines =
      SeenKeys(heads, "a1_start1") +
      WeightedColumns(
          heads, z.d,
          fmt::format("{0} share, slope;\n{1}const {0} weight = slope;\n", heads.type, heads.Slope()),
          heads.Element("a1", z.t, "key", z.d, "column"),
          fmt::format("r0[((batch * {} + query) * {} + head) * {} + column] = {}", Whole(z.s), Whole(z.h),
                      Whole(z.d), Rounded(heads.dtype, "all")));
  return PerHead(row, spec, z.s, heads, lines);
}

// Both gradients of a key: of k by the slopes, of v by the shares, summed over the queries that see it.
CudaKernel AttentionGradKv(const OpRow& row, const KernelSpec& spec) {
  const Heads heads(spec, 6);
  const AttentionSizes& z = heads.z;
  const std::string at = fmt::format("((batch * {} + key) * {} + head)", Whole(z.t), Whole(z.h));
  std::string lines = fmt::format(
      "const Index key = own;\n"
      "__shared__ {0} shares[{1}];\n__shared__ {0} slopes[{1}];\n__shared__ unsigned char sees[{1}];\n"
      "for (Index first = 0; first < {2}; first += {1}) {{\n"
      "  const Index column = first + thread;\n  {0} of_k = 0, of_v = 0;\n"
      "  for (Index begin = 0; begin < {3}; begin += {1}) {{\n"
      "    sees[thread] = 0;\n"
      "    if (begin + thread < {3}) {{\n"
      "      const Index query = begin + thread;\n{4}"
      "      if (a1_start1 + key < limit) {{\n        {0} share, slope;\n{5}"
      "        shares[thread] = share;\n        slopes[thread] = slope;\n        sees[thread] = 1;\n      }}\n    }}\n"
      "    __syncthreads();\n"
      "    for (Index query = begin; query < begin + {1} && query < {3}; ++query) {{\n"
      "      if (!sees[query - begin]) continue;\n"
      "      if (column < {6}) of_k = MultiplyAdd(slopes[query - begin], {7}, of_k);\n"
      "      if (column < {8}) of_v = MultiplyAdd(shares[query - begin], {9}, of_v);\n    }}\n"
      "    __syncthreads();\n  }}\n"
      "  if (column < {6}) r0[{10} * {6} + column] = {11};\n"
      "  if (column < {8}) r1[{10} * {8} + column] = {12};\n}}\n",
      heads.type, kThreadsOfHead, Whole(std::max(z.d, z.e)), Whole(z.s),
      Indented(Indented(Indented(heads.Limit()))), Indented(Indented(Indented(Indented(heads.Slope())))),
      Whole(z.d), heads.Element("a0", z.s, "query", z.d, "column"), Whole(z.e),
      heads.Element("a3", z.s, "query", z.e, "column"), at, Rounded(heads.dtype, "of_k"),
      Rounded(heads.dtype, "of_v"));
  return PerHead(row, spec, z.t, heads, lines);
}

}  // namespace

std::span<const Generator> AttentionKernels() {
  static constexpr Generator kGenerators[] = {
      {"attention", Attention},
      {"attention_grad_q", AttentionGradQ},
      {"attention_grad_kv", AttentionGradKv},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
