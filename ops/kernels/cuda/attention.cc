// Attention and its gradients. A block of threads has some queries (or keys) of one head and goes through the keys (the
// queries) in tiles, so that scores never lie in memory (Dao et al., arXiv 2205.14135); sums are made in the order of the
// tiles. In bf16, heads of 16, 32, … 128 dims take tensor cores.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/attention_sizes.h"
#include "meshwork/ops/kernels/cuda/attention_tiling.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

constexpr int64_t kThreadsOfHead = 128;

// The parts that the kernels of attention and of its gradients have in common.
struct Heads {
  AttentionSizes z;
  DType dtype;
  std::string type, stored;
  int seen;  // the operand that says how many keys a query sees

  Heads(const KernelSpec& spec, size_t seen)
      : z(AttentionSizesOf(spec.operands[0].local, spec.operands[1].local, spec.operands[2].local,
                           spec.operands.size() > seen, spec.attrs)),
        dtype(spec.operands[0].local.dtype),
        type(ComputeName(dtype)),
        stored(StoredName(dtype)),
        seen(static_cast<int>(seen)) {}

  bool TakesTensorCores() const {
    const auto fits = [](int64_t dims) { return dims > 0 && dims % 16 == 0 && dims <= 128; };
    return dtype == BF16 && fits(z.d) && fits(z.e) && z.scale > 0;
  }
  int64_t widest() const { return std::max(z.d, z.e); }
  // Rows of a block that computes without tensor cores: as many as fit into 48 KiB.
  int64_t RowsByThreads() const { return dtype == F64 ? 32 : 64; }

  // "limit_of(query)": how many keys of this block the query sees; padding sees none.
  std::string LimitOf() const {
    std::string lines =
        "const auto limit_of = [&](Index query) -> int {\n"
        "  if (query >= a0_size1) return 0;\n  long long limit = a1_start1 + a1_size1;\n";
    if (z.causal) lines += "  if (limit > a0_start1 + query + 1) limit = a0_start1 + query + 1;\n";
    if (z.has_seen)
      lines += fmt::format("  if (limit > a{0}[batch * {1} + query]) limit = a{0}[batch * {1} + query];\n",
                           seen, Whole(z.s));
    return lines + fmt::format("  return (int)Within(limit - a1_start1, {});\n}};\n", Whole(z.t));
  }

  // "facts_of(query, member)"; of_keys: `head` is one of keys, whose group `member` counts in.
  std::string FactsOf(bool of_keys) const {
    return fmt::format(
        "const auto facts_of = [&](int query, int member) -> HeadFacts<{2}> {{\n"
        "  const int limit = limit_of(query);\n  if (limit == 0) return {{0, 0, 0}};\n"
        "  const Index at = (batch * {0} + query) * {1} + {3};\n  const {2} log_sum = a4[at];\n"
        "  return {{limit, log_sum == Limits<{2}>::Least() ? Limits<{2}>::Most() : log_sum, a5[at]}};\n}};\n",
        Whole(z.s), Whole(z.h * z.g), type,
        of_keys && z.g > 1 ? fmt::format("head * {} + member", Whole(z.g)) : "head");
  }

  // "const Bf16Rows name = {…};": rows from `first` on of head `head` of an operand with `heads` heads of `dims` elements
  // each, and with rows until `end`.
  std::string Rows(std::string_view name, std::string_view operand, int64_t rows, std::string_view head,
                   int64_t heads, int64_t dims, std::string_view first, std::string_view end) const {
    const std::string kind = TakesTensorCores() ? "Bf16Rows" : fmt::format("HeadRows<{}>", stored);
    return fmt::format(
        "const {0} {1} = {{{2} + ((batch * {3} + {4}) * {5} + {9}) * {6}, {7}, (int)({8} - {4})}};\n", kind,
        name, operand, Whole(rows), first, Whole(heads), Whole(dims), Whole(heads * dims), end, head);
  }
  // Rows of q or of the result's gradient, and of k or v. of_keys: `head` is one of keys, and the queries are those of the
  // first head of its group; else it is one of queries.
  std::string QueryRows(std::string_view name, std::string_view operand, int64_t dims, std::string_view first,
                        std::string_view end, bool of_keys) const {
    const std::string head = of_keys && z.g > 1 ? fmt::format("head * {}", Whole(z.g)) : "head";
    return Rows(name, operand, z.s, head, z.h * z.g, dims, first, end);
  }
  std::string KeyRows(std::string_view name, std::string_view operand, int64_t dims, std::string_view first,
                      std::string_view end, bool of_keys) const {
    const std::string head = !of_keys && z.g > 1 ? fmt::format("head / {}", Whole(z.g)) : "head";
    return Rows(name, operand, z.t, head, z.h, dims, first, end);
  }

  // The words of 16 bytes of shared memory that a kernel with tensor cores takes. weights: 2 for gradients of keys,
  // else 1.
  int64_t Words(int64_t others, int64_t weights) const {
    return std::max(2 * others * (z.d + z.e + 16) / 8, (64 + weights * 32) * 36 / 4);
  }

  // Lines that declare a block's shared memory, and the functions that read and write elements.
  std::string Start(int64_t own_rows, int64_t others, int64_t weights, int64_t pointers) const {
    if (TakesTensorCores()) {
      std::string lines = fmt::format(
          "__shared__ Words4 tiles[{}];\nunsigned short* const shared = (unsigned short*)tiles;\n"
          "bool by_words = true;\n",
          Words(others, weights));
      // Results and operands of bf16 alike.
      for (int64_t p = 0; p < pointers; ++p) {
        const bool is_result = p >= 4;
        if (p == 3 && seen == 3) continue;
        lines += fmt::format("by_words = by_words && (unsigned long long){}{} % 16 == 0;\n",
                             is_result ? "r" : "a", is_result ? p - 4 : p);
      }
      return lines;
    }
    const int64_t numbers = std::max((own_rows + 32) * 36, int64_t{32 * 68});
    return fmt::format(
        "__shared__ {0} shared[{1}];\n__shared__ {0} weights[{2}];\n"
        "const auto load = []({3} x) -> {0} {{ return {4}; }};\nconst auto store = []({0} x) -> {3} {{ return {5}; }};\n",
        type, numbers, weights * own_rows * 36, stored, Loaded(dtype, "x"), Rounded(dtype, "x"));
  }
};

// A kernel whose blocks have `own_rows` of the `rows` of a head each: those from `first` on. If it is causal, the blocks
// with the most work come first, and the short ones fill what is left; otherwise blocks of a head follow each other.
CudaKernel PerTile(const OpRow& row, const KernelSpec& spec, bool of_keys, int64_t own_rows, int64_t at_once,
                   const Heads& heads, std::string_view lines) {
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/false, 0);
  TakeBlock(text, spec, /*is_result=*/false, 1);
  const AttentionSizes& z = heads.z;
  const int64_t tiles = ((of_keys ? z.t : z.s) + own_rows - 1) / own_rows;
  const int64_t num_heads = of_keys ? z.h : z.h * z.g;
  text.threads = kThreadsOfHead;
  text.blocks_at_once = at_once;
  text.is_long = true;
  text.blocks = z.b * tiles * num_heads;
  text.most_elements = text.blocks + z.s + z.t + z.d + z.e + own_rows;
  const std::string of = Whole(std::max<int64_t>(z.causal ? z.b * num_heads : tiles, 1));
  const std::string_view outer = z.causal ? "/" : "%", inner = z.causal ? "%" : "/";
  // The last queries see the most keys, and the first keys are seen by the most queries.
  const std::string tile = z.causal && !of_keys
                               ? fmt::format("({} - (Index)blockIdx.x / {})", Whole(tiles - 1), of)
                               : fmt::format("((Index)blockIdx.x {} {})", outer, of);
  text.body = Indented(fmt::format(
      "const Index first = {1} * {2}, of_all = (Index)blockIdx.x {3} {4};\n"
      "const Index head = of_all % {0}, batch = of_all / {0};\n{5}{6}",
      Whole(std::max<int64_t>(num_heads, 1)), tile, Whole(own_rows), inner, of, heads.LimitOf(), lines));
  return Finish(text);
}

CudaKernel AttentionBy(const OpRow& row, const KernelSpec& spec, const AttentionTiling& tiling) {
  const Heads heads(spec, 3);
  const AttentionSizes& z = heads.z;
  const bool by_tensor_cores = heads.TakesTensorCores();
  const int64_t own_rows = by_tensor_cores ? 64 * tiling.row_tiles : heads.RowsByThreads();
  const std::string s = Whole(z.s), t = Whole(z.t);
  std::string lines =
      heads.Start(own_rows, tiling.others, 1, 5) +
      fmt::format(
          "__shared__ int limits[{0}];\n"
          "for (int i = (int)threadIdx.x; i < {0}; i += {1}) limits[i] = limit_of(first + i);\n"
          "__syncthreads();\n",
          own_rows, kThreadsOfHead) +
      heads.QueryRows("q", "a0", z.d, "first", s, false) + heads.KeyRows("k", "a1", z.d, "0", t, false) +
      heads.KeyRows("v", "a2", z.e, "0", t, false);
  const std::string call = by_tensor_cores
                               ? fmt::format("AttendBf16<{}, {}, {}, {}>(q, k, v, limits", z.d, z.e,
                                             tiling.row_tiles, tiling.others)
                               : fmt::format("AttendRows<{}>(q, k, v, {}, {}, limits", own_rows, z.d, z.e);
  lines += fmt::format(
      "const Index at = (batch * {0} + first) * {1} + head;\n{2}, r0 + at * {3}, {4}, r1 + at, {1}, {5}, {6});\n",
      s, Whole(z.h * z.g), call, Whole(z.e), Whole(z.h * z.g * z.e), Number(heads.dtype, z.scale),
      by_tensor_cores ? "shared, by_words" : "shared, weights, load, store");
  return PerTile(row, spec, /*of_keys=*/false, own_rows, by_tensor_cores ? tiling.at_once : 0, heads, lines);
}

CudaKernel AttentionGradBy(const OpRow& row, const KernelSpec& spec, bool of_keys,
                           const AttentionTiling& tiling) {
  const Heads heads(spec, 6);
  const AttentionSizes& z = heads.z;
  const bool by_tensor_cores = heads.TakesTensorCores();
  const int64_t others = tiling.others;
  const int64_t own_rows = by_tensor_cores ? 64 * tiling.row_tiles : heads.RowsByThreads();
  const std::string facts = fmt::format("HeadFacts<{}>", heads.type);
  const std::string s = "(Index)a0_size1", t = "(Index)a1_size1";
  std::string lines =
      heads.Start(own_rows, others, of_keys ? 2 : 1, of_keys ? 6 : 5) + heads.FactsOf(of_keys);
  if (of_keys) {
    lines += fmt::format("__shared__ {} facts[{}];\n", facts,
                         by_tensor_cores ? std::max<int64_t>(2 * others, 32) : 32);
    lines += heads.KeyRows("own0", "a1", z.d, "first", Whole(z.t), true) +
             heads.KeyRows("own1", "a2", z.e, "first", Whole(z.t), true) +
             heads.QueryRows("others0", "a0", z.d, "0", s, true) +
             heads.QueryRows("others1", "a3", z.e, "0", s, true);
    // The first query that sees the first key of this tile.
    lines +=
        z.g == 0 ? "const int begin = 0, end = 0;\n"
        : z.causal
            ? fmt::format(
                  "const int begin = (int)Within(a1_start1 + first - a0_start1, {0}), end = (int)a0_size1;\n",
                  Whole(z.s))
            : "const int begin = 0, end = (int)a0_size1;\n";
  } else {
    lines += fmt::format("{} *const facts = 0;\n{} *const r1 = 0;\n", facts, heads.stored);
    lines += heads.QueryRows("own0", "a0", z.d, "first", Whole(z.s), false) +
             heads.QueryRows("own1", "a3", z.e, "first", Whole(z.s), false) +
             heads.KeyRows("others0", "a1", z.d, "0", t, false) +
             heads.KeyRows("others1", "a2", z.e, "0", t, false);
    // The last query of this tile sees the most keys, unless each query has its own number of keys.
    lines +=
        z.causal
            ? fmt::format(
                  "const int begin = 0, end = (int)Within(a0_start1 + first + {} - a1_start1, (long long)a1_size1);\n",
                  own_rows)
            : "const int begin = 0, end = (int)a1_size1;\n";
  }
  const int64_t members = of_keys ? std::max<int64_t>(z.g, 1) : 1, of_result = of_keys ? z.h : z.h * z.g;
  const std::string function =
      by_tensor_cores
          ? fmt::format("AttentionGradBf16<{}, {}, {}, {}, {}, {}, {}>(own0, own1, others0, others1, ", z.d,
                        z.e, tiling.row_tiles, others, tiling.chunk, of_keys, members)
          : fmt::format("AttentionGradRows<{}, {}, {}>(own0, own1, others0, others1, {}, {}, ", own_rows,
                        of_keys, members, z.d, z.e);
  lines += fmt::format(
      "const Index at = (batch * {0} + first) * {1} + head;\n"
      "{2}(int)first, begin, end, facts_of, r0 + at * {3}, {4}, r1{5}, {6}, {7}, {8});\n",
      Whole(of_keys ? z.t : z.s), Whole(of_result), function, Whole(z.d), Whole(of_result * z.d),
      of_keys ? fmt::format(" + at * {}", Whole(z.e)) : "", Whole(of_result * z.e),
      Number(heads.dtype, z.scale),
      by_tensor_cores ? "shared, facts, by_words" : "shared, weights, facts, load, store");
  return PerTile(row, spec, of_keys, own_rows, by_tensor_cores ? tiling.at_once : 0, heads, lines);
}

CudaKernel MakeTiled(const OpRow& row, const KernelSpec& spec, const AttentionTiling& tiling) {
  if (row.name == "attention") return AttentionBy(row, spec, tiling);
  return AttentionGradBy(row, spec, row.name == "attention_grad_kv", tiling);
}

CudaKernel MakeAttention(const OpRow& row, const KernelSpec& spec) {
  const int64_t widest = Heads(spec, row.name == "attention" ? 3 : 6).widest();
  return MakeTiled(row, spec, DefaultAttentionTiling(row.name, widest));
}

}  // namespace

std::span<const Generator> AttentionKernels() {
  static constexpr Generator kGenerators[] = {
      {"attention", MakeAttention},
      {"attention_grad_q", MakeAttention},
      {"attention_grad_kv", MakeAttention},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda

namespace meshwork {

AttentionTiling DefaultAttentionTiling(std::string_view op, int64_t widest) {
  // For up to 64 elements, the tiling that benchmarks/gpu_attention found fastest on an H200; for more, one with hardly
  // any spills.
  const bool of_keys = op == "attention_grad_kv";
  if (op == "attention") return widest <= 64 ? AttentionTiling{2, 64, 64, 2} : AttentionTiling{1, 32, 32, 3};
  if (widest > 64) return {1, 32, of_keys ? 16 : 32, 2};
  return of_keys ? AttentionTiling{1, 64, 16, 3} : AttentionTiling{2, 64, 32, 2};
}

std::optional<CudaKernel> MakeCudaAttention(const OpRow& row, const KernelSpec& spec,
                                            const AttentionTiling& tiling) {
  const bool is_grad = row.name != "attention";
  const cuda::Heads heads(spec, is_grad ? 6 : 3);
  constexpr int64_t kMostBytes = int64_t{46} << 10;  // beside which there is little else
  if (!heads.TakesTensorCores() ||
      16 * heads.Words(tiling.others, row.name == "attention_grad_kv" ? 2 : 1) > kMostBytes)
    return std::nullopt;
  return cuda::MakeTiled(row, spec, tiling);
}

}  // namespace meshwork
