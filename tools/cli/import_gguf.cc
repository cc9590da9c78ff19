// meshwork import gguf.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/json.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/gguf_file.h"
#include "meshwork/storage/safetensors.h"
#include "nlohmann/json.hpp"
#include "tools/cli/checkpoint_commands.h"
#include "tools/cli/commands.h"
#include "tools/cli/gguf_llama.h"
#include "tools/cli/gguf_metadata.h"
#include "tools/cli/gguf_tokenizer.h"
#include "tools/cli/import_commands.h"
#include "tools/cli/import_folder.h"
#include "tools/cli/program_file.h"
#include "tools/cli/progress_line.h"

namespace meshwork::tools {
namespace {

constexpr std::string_view kConfigName = "config.json", kTokenizerName = "tokenizer.json";
constexpr std::string_view kFiles[] = {kWeightsName, kConfigName, kTokenizerName};
constexpr std::string_view kLeftOut = "rope_freqs.weight";  // Hugging Face has it in the config, if at all

struct GgufImport {
  std::string from;
  ImportTarget to;
  std::string dtype = "as they are";
  bool keep_blocks = false;
};

// A tensor that is written: all of an entry, or a part of its blocks.
struct ImportedTensor {
  const GgufEntry* entry;
  std::string name;
  Type type;
  int64_t heads;                            // whose rows are put into another order; 0: they stay
  Tensor QuantizedMatrix::*part = nullptr;  // null: all, as numbers
};

// What the folder gets, before anything is written.
struct ImportPlan {
  std::vector<ImportedTensor> tensors;
  std::vector<std::string> notes;  // lines for the user
  std::string config;
  TokenizerJson tokenizer;
};

// ---- The plan.

// The parts of a matrix that is stored in blocks, beside each other: NAME.q, NAME.scale and NAME.zero.
std::vector<ImportedTensor> PartsOf(const ImportedTensor& matrix) {
  const int bits = BitsOf(matrix.entry->stored);
  const QuantizedTypes types = QuantizedTypesOf(matrix.type.shape, bits);
  const auto part = [&](std::string_view name, const Type& type, Tensor QuantizedMatrix::*of) {
    return ImportedTensor{matrix.entry, fmt::format("{}.{}", matrix.name, name), type, matrix.heads, of};
  };
  std::vector<ImportedTensor> parts = {part("q", types.q, &QuantizedMatrix::q),
                                       part("scale", types.scale, &QuantizedMatrix::scale)};
  if (bits == 4) parts.push_back(part("zero", types.scale, &QuantizedMatrix::zero));
  return parts;
}

absl::StatusOr<ImportedTensor> PlanTensor(const GgufFile& file, const GgufEntry& entry,
                                          const GgufImport& options) {
  // Refuses a type that is not read before other tensors are.
  MESHWORK_ASSIGN_OR_RETURN(const GgufEntry readable, file.As(entry, entry.type.dtype));
  ImportedTensor tensor{.entry = &entry, .name = entry.name, .type = readable.type, .heads = 0};
  if (options.dtype != GgufImport().dtype) {
    MESHWORK_ASSIGN_OR_RETURN(tensor.type.dtype, DTypeFromName(options.dtype));
  }
  if (!IsLlama(file)) return tensor;
  tensor.name = LlamaName(entry.name).value_or(entry.name);
  MESHWORK_ASSIGN_OR_RETURN(tensor.heads, HeadsToReorder(file, entry));
  return tensor;
}

// All scalars of the metadata, under their own keys.
std::string ConfigOfMetadata(const GgufFile& file) {
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  for (const auto& [key, value] : file.metadata())
    if (!std::holds_alternative<GgufArray>(value)) config[key] = ScalarToJson(value);
  return PrintJson(config);
}

absl::Status CheckWhole(const GgufFile& file) {
  const GgufValue* const parts = file.FindMetadata("split.count");
  if (parts == nullptr || WholeNumber(*parts).value_or(2) <= 1) return absl::OkStatus();
  return InvalidArgument("{}: is one of several files of a model; merge them by llama-gguf-split --merge.",
                         file.path());
}

absl::StatusOr<ImportPlan> MakePlan(const GgufFile& file, const GgufImport& options) {
  MESHWORK_RETURN_IF_ERROR(CheckWhole(file));
  ImportPlan plan;
  std::vector<std::string> unnamed;
  for (const GgufEntry& entry : file.entries()) {
    if (IsLlama(file) && entry.name == kLeftOut) {
      plan.notes.push_back(
          fmt::format("{} is left out: config.json has no scales of rotary positions.", kLeftOut));
      continue;
    }
    MESHWORK_ASSIGN_OR_RETURN(ImportedTensor tensor, PlanTensor(file, entry, options));
    if (options.keep_blocks && BitsOf(entry.stored) > 0 && entry.type.rank() == 2) {
      for (ImportedTensor& part : PartsOf(tensor)) plan.tensors.push_back(std::move(part));
    } else {
      plan.tensors.push_back(std::move(tensor));
    }
    if (IsLlama(file) && !LlamaName(entry.name).has_value()) unnamed.push_back(Printable(entry.name));
  }
  if (!unnamed.empty())
    plan.notes.push_back(fmt::format("kept their names, which Hugging Face's Llama does not have: {}",
                                     fmt::join(unnamed, ", ")));
  if (IsLlama(file)) {
    MESHWORK_ASSIGN_OR_RETURN(const nlohmann::ordered_json config, LlamaConfig(file));
    plan.config = PrintJson(config);
    if (file.FindMetadata("llama.rope.scaling.type") != nullptr ||
        file.FindMetadata("llama.rope.scale_linear") != nullptr)
      plan.notes.push_back("llama.rope.scaling is left out: config.json has no scales of rotary positions.");
  } else {
    MESHWORK_ASSIGN_OR_RETURN(const std::string* const architecture, TextAt(file, "general.architecture"));
    plan.notes.push_back(
        fmt::format("the architecture is {}: tensors keep their names, and config.json has the "
                    "metadata as it is; names and configs of Hugging Face are known for llama.",
                    Quoted(*architecture)));
    plan.config = ConfigOfMetadata(file);
  }
  MESHWORK_ASSIGN_OR_RETURN(plan.tokenizer, TokenizerOf(file));
  return plan;
}

// ---- The folder.

absl::StatusOr<Tensor> ReadNumbersOrPart(const GgufFile& file, const ImportedTensor& imported) {
  if (imported.part == nullptr) return file.Read(*imported.entry);
  MESHWORK_ASSIGN_OR_RETURN(QuantizedMatrix blocks, file.ReadBlocks(*imported.entry));
  return std::move(blocks.*imported.part);
}

absl::StatusOr<Tensor> ReadImported(const GgufFile& file, const ImportedTensor& imported,
                                    ProgressLine& progress) {
  MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, ReadNumbersOrPart(file, imported));
  if (imported.heads > 0) tensor = WithHalves(tensor, imported.heads);
  progress.Add(imported.type.bytes());
  return tensor.Cast(imported.type.dtype);
}

// Returns the size of the weights' file.
absl::StatusOr<int64_t> WriteFolder(const std::string& folder, const GgufFile& file, const ImportPlan& plan) {
  MESHWORK_RETURN_IF_ERROR(MakeFolders(folder));
  std::vector<std::pair<std::string, Type>> types;
  int64_t bytes = 0;
  for (const ImportedTensor& tensor : plan.tensors) {
    types.emplace_back(tensor.name, tensor.type);
    bytes += tensor.type.bytes();
  }
  ProgressLine progress("importing", bytes);
  MESHWORK_ASSIGN_OR_RETURN(
      const WrittenFile written,
      StreamSafetensors(fmt::format("{}/{}", folder, kWeightsName), types,
                        [&](size_t i) { return ReadImported(file, plan.tensors[i], progress); },
                        {{"format", "pt"}}));  // Hugging Face's reader wants to know whose tensors they are
  MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(fmt::format("{}/{}", folder, kConfigName), plan.config));
  if (!plan.tokenizer.text.empty()) {
    MESHWORK_RETURN_IF_ERROR(
        WriteFileAtomically(fmt::format("{}/{}", folder, kTokenizerName), plan.tokenizer.text));
  }
  return written.bytes;
}

absl::Status ImportIt(const GgufImport& options) {
  MESHWORK_RETURN_IF_ERROR(CheckTarget(options.to, kFiles));
  absl::StatusOr<GgufFile> file = GgufFile::Open(options.from);
  if (!file.ok()) return BadInput(file.status());
  MESHWORK_ASSIGN_OR_RETURN(const ImportPlan plan, MakePlan(*file, options));
  const PartialFolder partial(fmt::format("{}.tmp-{}", options.to.path, RandomName()));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t bytes, WriteFolder(partial.path(), *file, plan));
  MESHWORK_RETURN_IF_ERROR(PublishFolder(partial.path(), options.to));
  fmt::print("{}/{}: {}, {}\n", options.to.path, kWeightsName, Count(std::ssize(plan.tensors), "tensor"),
             BytesToString(bytes));
  fmt::print("{}/{}\n", options.to.path, kConfigName);
  if (plan.tokenizer.text.empty()) {
    fmt::print("no {}: {}\n", kTokenizerName, plan.tokenizer.why);
  } else {
    fmt::print("{}/{}: {}, {}\n", options.to.path, kTokenizerName, Count(plan.tokenizer.tokens, "token"),
               Count(plan.tokenizer.merges, "merge"));
  }
  for (const std::string& note : plan.notes) fmt::print("{}\n", note);
  return absl::OkStatus();
}

}  // namespace

absl::Status ImportGguf(Arguments args) {
  GgufImport options;
  FlagTable flags(
      "meshwork import gguf",
      "Makes a folder, as Hugging Face has it, of a model in a GGUF file: model.safetensors, config.json and\n"
      "tokenizer.json. Models of the architecture llama get Hugging Face's names and its order of rows in q\n"
      "and k; others keep their names. One tensor at a time lies in memory. The folder is there whole or not\n"
      "at all.\n\n"
      "Q4_0, Q4_1 and Q8_0 become f32, unless --keep-blocks is given; F32, F16 and BF16 stay. Other types are\n"
      "refused.");
  flags.Positional("FILE", "a GGUF file, of version 2 or 3", &options.from);
  flags.Positional("DIR", "the folder that is made", &options.to.path);
  flags.Choice("dtype", "of all tensors but blocks, rounded to the nearest", &options.dtype,
               {"f32", "f16", "bf16"});
  flags.Switch("keep-blocks",
               "matrices of Q4_0, Q4_1, Q8_0 stay so: NAME.q, NAME.scale and, with 4 bits, NAME.zero",
               &options.keep_blocks);
  flags.Switch("force", "replaces a folder that an import has made", &options.to.force);
  if (const auto done = Parse(flags, args)) return *done;
  MESHWORK_RETURN_IF_ERROR(CheckName(options.to));
  return ImportIt(options);
}

}  // namespace meshwork::tools
