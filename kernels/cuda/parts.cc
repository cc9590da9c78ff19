#include "meshwork/kernels/cuda/parts.h"

#include <string>

#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/chain_text.h"
#include "meshwork/kernels/cuda/sweep.h"
#include "meshwork/kernels/cuda/text.h"

namespace meshwork {
namespace {

cuda::Sweep SweepOfPart(const OpRow& row, const KernelSpec& spec) {
  if (row.name == "adam_update") return cuda::SweepOfAdam(spec);
  return {
      .in = {spec.operands[0].local.dtype},
      .out = {spec.results[0].local.dtype},
      .before = {},
      .behind = {},
      .lines = cuda::LinesOfOp({&row, &spec, {{false, 0}}}, 0, {"i", spec.results[0].local.num_elements()})};
}

}  // namespace

std::optional<size_t> CudaOperandsOfPart(const OpRow& row) {
  if (row.name == "adam_update") return 4;
  if (row.name == "cast") return 1;
  return std::nullopt;
}

CudaKernel MakeCudaParts(const OpRow& row, const KernelSpec& spec, int64_t alignment) {
  const cuda::Sweep sweep = SweepOfPart(row, spec);
  std::string parameters = "const Part* table, long long parts, long long per_block";
  for (size_t o = sweep.in.size(); o < spec.operands.size(); ++o)
    parameters += fmt::format(", const {}* a{}", cuda::StoredName(spec.operands[o].local.dtype), o);
  // Each thread looks at some parts, so that one search costs one read.
  std::string body = fmt::format(
      "__shared__ long long mine;\n"
      "const long long block = (long long)blockIdx.x;\n"
      "for (long long t = (long long)threadIdx.x; t < parts; t += {})\n"
      "  if (table[t].first_block <= block && block < table[t].end_block) mine = t;\n",
      cuda::kSweepThreads);
  body += sweep.before + "__syncthreads();\n" + sweep.behind;
  body +=
      "const Part& part = table[mine];\n"
      "const long long begin = (block - part.first_block) * per_block, left = part.elements - begin;\n"
      "const int count = (int)(left < per_block ? left : per_block);\n";
  size_t pointer = 0;
  for (size_t o = 0; o < sweep.in.size(); ++o, ++pointer)
    body += fmt::format("const {0}* const p{1} = (const {0}*)part.pointers[{2}] + begin;\n",
                        cuda::StoredName(sweep.in[o]), o, pointer);
  for (size_t r = 0; r < sweep.out.size(); ++r, ++pointer)
    body += fmt::format("{0}* const q{1} = ({0}*)part.pointers[{2}] + begin;\n",
                        cuda::StoredName(sweep.out[r]), r, pointer);
  MESHWORK_CHECK(pointer <= kMostPointersOfPart, "{} has parts of {} pointers", row.name, pointer);
  body += cuda::LinesOfSweep(sweep, alignment);
  CudaKernel kernel{.name = fmt::format("{}_parts_{:016x}", row.name, cuda::HashOf(parameters + body)),
                    .threads = cuda::kSweepThreads,
                    .alignment = cuda::AlignmentOfSweep(sweep, alignment)};
  // Kernels of one source have the struct once each, in a namespace of their own.
  kernel.source = fmt::format(
      R"(namespace in_{0} {{
struct Part {{
  long long first_block, end_block, elements;
  unsigned long long pointers[{1}];
}};
}}
extern "C" __global__ void __launch_bounds__({2}) {0}(const in_{0}::{3}) {{
  using in_{0}::Part;
{4}}}
)",
      kernel.name, kMostPointersOfPart, cuda::kSweepThreads, parameters.substr(sizeof("const ") - 1),
      cuda::Indented(body));
  return kernel;
}

int64_t ElementsPerPartBlock(int64_t elements) { return cuda::ElementsPerSweepBlock(elements); }

}  // namespace meshwork
