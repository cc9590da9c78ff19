#include "meshwork/ops/kernels/cuda/sweep.h"

#include <algorithm>
#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/chain_text.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

// The number of elements of a Pack.
int64_t WidthOfSweep(const Sweep& sweep, int64_t alignment) {
  int64_t widest = 1;
  for (const auto* side : {&sweep.in, &sweep.out})
    for (const DType dtype : *side) widest = std::max<int64_t>(widest, DTypeSize(dtype));
  return std::max<int64_t>(1, std::min<int64_t>(alignment, 16) / widest);
}

}  // namespace

int64_t AlignmentOfSweep(const Sweep& sweep, int64_t alignment) {
  return WidthOfSweep(sweep, alignment) == 1 ? 1 : std::min<int64_t>(alignment, 16);
}

std::string LinesOfSweep(const Sweep& sweep, int64_t alignment) {
  // Packs of a thread whose loads are under way together.
  const int64_t width = WidthOfSweep(sweep, alignment), at_once = width == 1 ? 4 : 2;
  std::string held, loads, packed, from_packs, from_elements, to_packs, to_elements, stores;
  for (size_t o = 0; o < sweep.in.size(); ++o) {
    const DType dtype = sweep.in[o];
    const std::string pack = PackName(dtype, width), number = std::string(ComputeName(dtype));
    held += fmt::format("{} m{}[{}];\n", pack, o, at_once);
    loads += fmt::format("m{0}[u] = *(const {1}*)(p{0} + i);\n", o, pack);
    from_packs +=
        fmt::format("const {} x{} = {};\n", number, o, Loaded(dtype, fmt::format("m{}[u].at[e]", o)));
    from_elements += fmt::format("const {} x{} = {};\n", number, o, Loaded(dtype, fmt::format("p{}[i]", o)));
  }
  for (size_t r = 0; r < sweep.out.size(); ++r) {
    const DType dtype = sweep.out[r];
    const std::string pack = PackName(dtype, width), rounded = Rounded(dtype, fmt::format("v{}", r));
    packed += fmt::format("{} n{};\n", pack, r);
    to_packs += fmt::format("n{}.at[e] = {};\n", r, rounded);
    to_elements += fmt::format("q{}[i] = {};\n", r, rounded);
    stores += fmt::format("*({0}*)(q{1} + i) = n{1};\n", pack, r);
  }
  const auto each = [&](const std::string& lines) {
    return fmt::format("#pragma unroll\nfor (int u = 0; u < {0}; ++u) {{\n", at_once) +
           Indented(fmt::format("const int i = (pack + u * {}) * {};\nif (i < packs * {}) {{\n",
                                kSweepThreads, width, width) +
                    Indented(lines) + "}\n") +
           "}\n";
  };
  const std::string of_pack = packed + "#pragma unroll\n" +
                              fmt::format("for (int e = 0; e < {}; ++e) {{\n", width) +
                              Indented(from_packs + sweep.lines + to_packs) + "}\n" + stores;
  std::string text = fmt::format(
      "const int packs = count / {};\n"
      "for (int pack = (int)threadIdx.x; pack < packs; pack += {}) {{\n{}}}\n",
      width, kSweepThreads * at_once, Indented(held + each(loads) + each(of_pack)));
  if (width > 1)
    text += fmt::format("for (int i = packs * {} + (int)threadIdx.x; i < count; i += {}) {{\n{}}}\n", width,
                        kSweepThreads, Indented(from_elements + sweep.lines + to_elements));
  return text;
}

int64_t ElementsPerSweepBlock(int64_t elements) {
  // Some blocks for each multiprocessor of a large GPU, so that all are busy to the end; and enough elements for a
  // block that the lines that it runs first cost little in comparison.
  constexpr int64_t kBlocks = 132 * 16, kLeast = 4 * kSweepThreads, kMost = 8 * kLeast;
  const int64_t each = (elements + kBlocks - 1) / kBlocks;
  return std::clamp((each + kLeast - 1) / kLeast * kLeast, kLeast, kMost);
}

CudaKernel KernelOfSweep(const OpRow& row, const KernelSpec& spec, const Sweep& sweep, int64_t alignment) {
  const int64_t elements = spec.results[0].local.num_elements(), per_block = ElementsPerSweepBlock(elements);
  KernelText text = TextOf(row, spec);
  text.threads = kSweepThreads;
  text.blocks = (elements + per_block - 1) / per_block;
  text.alignment = AlignmentOfSweep(sweep, alignment);
  std::string body = sweep.before;
  if (!sweep.before.empty()) body += "__syncthreads();\n";
  body += sweep.behind;
  body += fmt::format(
      "const long long begin = (long long)blockIdx.x * {0}, left = {1} - begin;\n"
      "const int count = (int)(left < {0} ? left : {0});\n",
      per_block, Whole(elements));
  for (size_t o = 0; o < sweep.in.size(); ++o)
    body += fmt::format("const {0}* const p{1} = a{1} + begin;\n", StoredName(sweep.in[o]), o);
  for (size_t r = 0; r < sweep.out.size(); ++r)
    body += fmt::format("{0}* const q{1} = r{1} + begin;\n", StoredName(sweep.out[r]), r);
  text.body = Indented(body + LinesOfSweep(sweep, alignment));
  return Finish(text);
}

}  // namespace meshwork::cuda
