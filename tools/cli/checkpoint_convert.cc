// meshwork checkpoint convert.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/name_patterns.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/storage/checkpoint_copy.h"
#include "meshwork/storage/safetensors.h"
#include "tools/cli/checkpoint_commands.h"
#include "tools/cli/name_patterns.h"
#include "tools/cli/program_file.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/tensor_source.h"

namespace meshwork::tools {
namespace {

// Converts like the op cast: reals become the nearest ones, ties to even. Error: the tensor is too large.
absl::StatusOr<Tensor> CastTensor(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  const Type &from = tensor.type(), to{dtype, tensor.shape()};
  Tensor result(to);
  MESHWORK_RETURN_IF_ERROR(result.status());
  MESHWORK_ASSIGN_OR_RETURN(const OpRow* const row, FindOp("cast"));
  const Kernel kernel =
      CpuKernelOf(*row)({.operands = {{from, from}}, .results = {{to, to}}, .attrs = {{"dtype", dtype}}});
  const void* const in = tensor.raw();
  void* const out = result.raw();
  const Block block = WholeBlock(to.shape);
  kernel.run({.in = {&in, 1},
              .out = {&out, 1},
              .in_blocks = {&block, 1},
              .out_blocks = {&block, 1},
              .begin = 0,
              .end = kernel.units});
  return result;
}

struct Conversion {
  std::string from, to;
  std::vector<std::string> only;
  std::string dtype = "as they are";
  int64_t step = -1;  // not given
  bool force = false;
};

// The dtype that a tensor of `dtype` is converted to.
absl::StatusOr<DType> ResultType(const Conversion& conversion, DType dtype) {
  if (conversion.dtype == Conversion().dtype) return dtype;
  MESHWORK_ASSIGN_OR_RETURN(const DType asked, DTypeFromName(conversion.dtype));
  return dtype != BOOL && IsReal(asked) == IsReal(dtype) ? asked : dtype;
}

// The tensors to be converted, with the types that they get.
absl::StatusOr<std::map<std::string, Type>> Choose(const TensorSource& source, const Conversion& conversion) {
  std::vector<std::string> names;
  for (const auto& [name, type] : source.types()) names.push_back(name);
  MESHWORK_RETURN_IF_ERROR(CheckPatterns("only", conversion.only, names));
  std::map<std::string, Type> chosen;
  for (const auto& [name, type] : source.types()) {
    if (!conversion.only.empty() && std::none_of(conversion.only.begin(), conversion.only.end(),
                                                 [&, &called = name](const std::string& pattern) {
                                                   return MatchesPattern(called, pattern);
                                                 }))
      continue;
    MESHWORK_ASSIGN_OR_RETURN(const DType dtype, ResultType(conversion, type.dtype));
    chosen.emplace(name, Type{dtype, type.shape});
  }
  return chosen;
}

int64_t BytesOf(const std::map<std::string, Type>& types) {
  int64_t bytes = 0;
  for (const auto& [name, type] : types) bytes += type.bytes();
  return bytes;
}

absl::StatusOr<Tensor> ReadAs(const TensorSource& source, const std::string& name, const Type& type,
                              ProgressLine& progress) {
  MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, source.Read(name, WholeBlock(type.shape)));
  progress.Add(type.bytes());
  return CastTensor(tensor, type.dtype);
}

// From a checkpoint to one file.
absl::Status Export(const Conversion& conversion) {
  if (conversion.step >= 0)
    return InvalidArgument(
        "--step is the step of the checkpoint that is made of a safetensors file; {} is a folder.",
        conversion.from);
  std::error_code ignored;
  if (!conversion.force && std::filesystem::exists(std::filesystem::symlink_status(conversion.to, ignored)))
    return InvalidArgument("{}: is there already; --force replaces it.", conversion.to);
  MESHWORK_RETURN_IF_ERROR(CheckWritable(conversion.to));
  absl::StatusOr<Checkpoint> opened = OpenVerified(conversion.from);
  if (!opened.ok()) return BadInput(opened.status());
  const std::string step = fmt::format("{}", opened->index().step);
  const TensorSource source(*std::move(opened));
  MESHWORK_ASSIGN_OR_RETURN(const auto chosen, Choose(source, conversion));
  const std::vector<std::pair<std::string, Type>> tensors(chosen.begin(), chosen.end());
  ProgressLine progress("writing", BytesOf(chosen));
  MESHWORK_ASSIGN_OR_RETURN(
      const WrittenFile written,
      StreamSafetensors(
          conversion.to, tensors,
          [&](size_t i) { return ReadAs(source, tensors[i].first, tensors[i].second, progress); },
          {{"meshwork", MESHWORK_VERSION}, {"step", step}}));
  fmt::print("{}: {} of {}, {}\n", conversion.to, Count(std::ssize(tensors), "tensor"), source.path(),
             BytesToString(written.bytes));
  return absl::OkStatus();
}

// The layout of a tensor that is whole: "{_,_}".
std::string WholeLayout(const Type& type) { return Layout::Replicated(Mesh(), type.rank()).ToString(); }

// From one file to a checkpoint.
absl::Status Import(const Conversion& conversion) {
  CheckpointIndex index;
  index.step = std::max<int64_t>(conversion.step, 0);
  index.mesh = Mesh().ToString();
  if (!conversion.force) MESHWORK_RETURN_IF_ERROR(CheckNotThere(conversion.to, index.step));
  MESHWORK_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::Open(conversion.from));
  MESHWORK_ASSIGN_OR_RETURN(const auto chosen, Choose(source, conversion));
  for (const auto& [name, type] : chosen) {
    CheckpointVariable& variable = index.variables.emplace_back();
    variable = {.name = name, .type = type, .layout = WholeLayout(type), .pieces = {}};
    if (type.num_elements() > 0) variable.pieces.push_back({.shard = 0, .box = WholeBlock(type.shape)});
  }
  ProgressLine progress("writing", BytesOf(chosen));
  MESHWORK_ASSIGN_OR_RETURN(const std::string path,
                            WriteCheckpoint(conversion.to, index, /*num_shards=*/1,
                                            [&](const CheckpointVariable& variable, const Block&) {
                                              return ReadAs(source, variable.name, variable.type, progress);
                                            },
                                            {.replace = conversion.force}));
  fmt::print("{}: {} of {}, {}\n", path, Count(std::ssize(chosen), "variable"), source.path(),
             BytesToString(BytesOf(chosen)));
  return absl::OkStatus();
}

}  // namespace

absl::Status ConvertCheckpoint(Arguments args) {
  Conversion conversion;
  FlagTable flags(
      "meshwork checkpoint convert",
      "Makes one safetensors file of a checkpoint, or a checkpoint of one safetensors file. One variable at\n"
      "a time lies in memory. The hashes of a checkpoint are checked first. What is written is there whole\n"
      "or not at all.\n\n"
      "F16 becomes f32, I8, U8, I16 and U16 become i32, U32 becomes i64; what else a file may hold stays.");
  flags.Positional("FROM",
                   "a checkpoint, a folder of checkpoints (the newest is taken), or a safetensors file",
                   &conversion.from);
  flags.Positional("TO", "the file to be written; from a file: the folder that gets the checkpoint",
                   &conversion.to);
  flags.Texts("only", "variables whose names fit this pattern, as 'layer1/*'; may be given several times",
              &conversion.only);
  flags.Choice("dtype", "of real numbers, rounded to the nearest, or with i64 of whole numbers",
               &conversion.dtype, {"f32", "f64", "bf16", "f16", "i64"});
  flags.Int("step", "of the checkpoint that is made of a file", &conversion.step, 0);
  flags.Switch("force", "replaces what is there", &conversion.force);
  if (const auto done = Parse(flags, args)) return *done;
  std::error_code ignored;
  return std::filesystem::is_directory(conversion.from, ignored) ? Export(conversion) : Import(conversion);
}

}  // namespace meshwork::tools
