#include "meshwork/ops/kernels/cuda/parts.h"

#include <string>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/chain_text.h"
#include "meshwork/ops/kernels/cuda/parts_text.h"
#include "meshwork/ops/kernels/cuda/sweep.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork {
namespace cuda {

Sweep SweepOfPart(const OpRow& row, const KernelSpec& spec) {
  if (row.name == "adam_update") return SweepOfAdam(spec);
  if (row.name == "adagrad_update") return SweepOfAdagrad(spec);
  return {.in = {spec.operands[0].local.dtype},
          .out = {spec.results[0].local.dtype},
          .before = {},
          .behind = {},
          .lines = LinesOfOp({&row, &spec, {{false, 0}}}, 0, {"i", spec.results[0].local.num_elements()})};
}

std::string LinesThatFindPart(std::string_view before, std::string_view behind) {
  // Each thread looks at some parts, so that one search costs one read.
  return fmt::format(
      "__shared__ long long mine;\n"
      "const long long block = (long long)blockIdx.x;\n"
      "for (long long t = (long long)threadIdx.x; t < parts; t += {})\n"
      "  if (table[t].first_block <= block && block < table[t].end_block) mine = t;\n"
      "{}__syncthreads();\n{}"
      "const Part& part = table[mine];\n"
      "const long long begin = (block - part.first_block) * per_block;\n",
      kSweepThreads, before, behind);
}

CudaKernel KernelOfParts(std::string_view name, const KernelSpec& spec, size_t first_common,
                         const std::string& body) {
  std::string parameters = "Part* table, long long parts, long long per_block";
  for (size_t o = first_common; o < spec.operands.size(); ++o)
    parameters += fmt::format(", const {}* a{}", StoredName(spec.operands[o].local.dtype), o);
  CudaKernel kernel{.name = fmt::format("{}_parts_{:016x}", name, HashOf(parameters + body)),
                    .threads = kSweepThreads};
  // Kernels of one source have the struct once each, in a namespace of their own.
  kernel.source = fmt::format(
      R"(namespace in_{0} {{
struct Part {{
  long long first_block, end_block, elements, rows, first_row, last_row, count;
  unsigned long long pointers[{1}];
}};
}}
extern "C" __global__ void __launch_bounds__({2}) {0}(const in_{0}::{3}) {{
  using in_{0}::Part;
{4}}}
)",
      kernel.name, kMostPointersOfPart, kSweepThreads, parameters, Indented(body));
  return kernel;
}

}  // namespace cuda

std::optional<size_t> CudaOperandsOfPart(const OpRow& row) {
  if (row.name == "adam_update") return 4;
  if (row.name == "adagrad_update") return 3;
  if (row.name == "cast") return 1;
  if (row.name == "gather") return 2;
  return std::nullopt;
}

CudaKernel MakeCudaParts(const OpRow& row, const KernelSpec& spec, int64_t alignment) {
  if (row.name == "gather") return cuda::LookupsOfParts(spec, alignment);
  const cuda::Sweep sweep = cuda::SweepOfPart(row, spec);
  std::string body = cuda::LinesThatFindPart(sweep.before, sweep.behind) +
                     "const long long left = part.elements - begin;\n"
                     "const int count = (int)(left < per_block ? left : per_block);\n";
  size_t pointer = 0;
  for (size_t o = 0; o < sweep.in.size(); ++o, ++pointer)
    body += fmt::format("const {0}* const p{1} = (const {0}*)part.pointers[{2}] + begin;\n",
                        cuda::StoredName(sweep.in[o]), o, pointer);
  for (size_t r = 0; r < sweep.out.size(); ++r, ++pointer)
    body += fmt::format("{0}* const q{1} = ({0}*)part.pointers[{2}] + begin;\n",
                        cuda::StoredName(sweep.out[r]), r, pointer);
  MESHWORK_CHECK(pointer <= kMostPointersOfPart, "{} has parts of {} pointers", row.name, pointer);
  CudaKernel kernel =
      cuda::KernelOfParts(row.name, spec, sweep.in.size(), body + cuda::LinesOfSweep(sweep, alignment));
  kernel.alignment = cuda::AlignmentOfSweep(sweep, alignment);
  return kernel;
}

int64_t ElementsPerPartBlock(int64_t elements) { return cuda::ElementsPerSweepBlock(elements); }

}  // namespace meshwork
