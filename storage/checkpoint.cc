#include "meshwork/storage/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/io/sha256.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/layout/block.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/storage/fill_blocks.h"

namespace meshwork {
namespace {

Block Shifted(Block box, const Block& by) {
  for (size_t d = 0; d < box.size(); ++d) box[d].start -= by[d].start;
  return box;
}

std::vector<std::string> NamesOf(const CheckpointIndex& index) {
  std::vector<std::string> names;
  for (const CheckpointVariable& variable : index.variables) names.push_back(variable.name);
  return names;
}

// Identifies a folder, also after it is renamed. Nothing: there is no such folder.
using FolderId = std::pair<dev_t, ino_t>;
std::optional<FolderId> IdOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FolderId(info.st_dev, info.st_ino);
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& path) {
  // If another checkpoint takes the name meanwhile, the index may be of the old one and the shards of the new one:
  // try again. If the checkpoint is removed, FindCheckpoint fails and ends the loop.
  while (true) {
    MESHWORK_ASSIGN_OR_RETURN(std::string found, FindCheckpoint(path));
    const std::optional<FolderId> before = IdOf(found);
    absl::StatusOr<Checkpoint> checkpoint = OpenFolder(found);
    if (before.has_value() && IdOf(found) == before) return checkpoint;
  }
}

absl::StatusOr<Checkpoint> Checkpoint::OpenFolder(std::string path) {
  MESHWORK_ASSIGN_OR_RETURN(CheckpointIndex index, ReadCheckpointIndex(path));
  Checkpoint checkpoint(std::move(path), std::move(index));
  for (const CheckpointShard& shard : checkpoint.index_.shards) {
    MESHWORK_ASSIGN_OR_RETURN(SafetensorsFile file,
                              SafetensorsFile::Open(fmt::format("{}/{}", checkpoint.path_, shard.file)));
    checkpoint.shards_.push_back(std::move(file));
  }
  for (const CheckpointVariable& variable : checkpoint.index_.variables) {
    for (const CheckpointPiece& piece : variable.pieces) {
      const SafetensorsFile& file = checkpoint.shards_[static_cast<size_t>(piece.shard)];
      const std::string name = PieceName(variable, piece.box);
      const SafetensorsEntry* const entry = file.Find(name);
      const Type type{variable.type.dtype, SizesOf(piece.box)};
      if (entry != nullptr && entry->type == type) continue;
      return InvalidArgument("{}: {}; the index says that {} is {}.", file.path(),
                             entry == nullptr
                                 ? fmt::format("there is no tensor {}", Quoted(name))
                                 : fmt::format("tensor {} is {}", Quoted(name), entry->type.ToString()),
                             Quoted(name), type.ToString());
    }
  }
  return checkpoint;
}

absl::Status Checkpoint::Verify(int64_t part, int64_t of,
                                const std::function<void(int64_t bytes)>& progress) const {
  MESHWORK_CHECK(0 <= part && part < of);
  for (int64_t s = part; s < std::ssize(shards_); s += of) {
    const InputFile& file = shards_[static_cast<size_t>(s)].file();
    MESHWORK_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(file, progress));
    const std::string& expected = index_.shards[static_cast<size_t>(s)].sha256;
    if (sha256 == expected) continue;
    return absl::DataLossError(fmt::format(
        "{}: its SHA-256 is {} and the index says {}; the file is damaged.", file.path(), sha256, expected));
  }
  return absl::OkStatus();
}

absl::StatusOr<const CheckpointVariable*> Checkpoint::FindVariable(std::string_view name) const {
  const CheckpointVariable* const variable = index_.Find(name);
  if (variable != nullptr) return variable;
  return absl::NotFoundError(fmt::format("{}: there is no variable {}{}", path_, Quoted(name),
                                         DidYouMeanOneOf(std::string(name), NamesOf(index_), "variables")));
}

absl::StatusOr<Tensor> Checkpoint::Read(std::string_view name) const {
  MESHWORK_ASSIGN_OR_RETURN(const CheckpointVariable* const variable, FindVariable(name));
  return Read(name, WholeBlock(variable->type.shape));
}

absl::StatusOr<Tensor> Checkpoint::Read(std::string_view name, const Block& box) const {
  MESHWORK_ASSIGN_OR_RETURN(const CheckpointVariable* const variable, FindVariable(name));
  const Type type{variable->type.dtype, SizesOf(box)};
  const Block whole = WholeBlock(variable->type.shape);
  if (box.size() != whole.size() || Intersect(box, whole) != box)
    return InvalidArgument("{}: the box {} does not lie in {} {}; give a block of the variable.", path_,
                           BlockToString(box), Quoted(name), variable->type.ToString());
  Tensor tensor(type);
  MESHWORK_RETURN_IF_ERROR(tensor.status());
  MESHWORK_RETURN_IF_ERROR(
      ReadBox(*variable, type.dtype, box, BoxBuffer::OfBox(box), static_cast<std::byte*>(tensor.raw())));
  return tensor;
}

absl::Status Checkpoint::RestoreInto(const std::map<std::string, DTensor>& variables,
                                     const RestoreOptions& options) const {
  MESHWORK_RETURN_IF_ERROR(CheckFits(variables, options));
  std::vector<BlocksToFill> to_fill;
  for (const auto& [name, tensor] : variables) {
    const auto renamed = options.names.find(name);
    const CheckpointVariable* const variable =
        index_.Find(renamed == options.names.end() ? name : renamed->second);
    if (variable != nullptr) to_fill.push_back(ToFill(*variable, name, tensor));
  }
  return FillBlocks(to_fill);
}

absl::Status Checkpoint::CheckFits(const std::map<std::string, DTensor>& variables,
                                   const RestoreOptions& options) const {
  std::vector<std::string> wrong;
  std::set<std::string> used;
  for (const auto& [name, called] : options.names) {
    if (variables.contains(name)) continue;
    std::vector<std::string> names;
    for (const auto& [known, tensor] : variables) names.push_back(known);
    wrong.push_back(fmt::format("{} is to be read as {} and is no variable{}", Quoted(name), Quoted(called),
                                DidYouMean(name, names)));
  }
  for (const auto& [name, tensor] : variables) {
    const auto renamed = options.names.find(name);
    const std::string& called = renamed == options.names.end() ? name : renamed->second;
    const CheckpointVariable* const variable = index_.Find(called);
    if (variable == nullptr) {
      if (!options.partial || renamed != options.names.end())
        wrong.push_back(fmt::format("{} {} is missing", Quoted(called), tensor.type().ToString()));
      continue;
    }
    used.insert(called);
    const bool widens =
        variable->pieces.empty() || shards_[static_cast<size_t>(variable->pieces[0].shard)]
                                        .As(*shards_[static_cast<size_t>(variable->pieces[0].shard)].Find(
                                                PieceName(*variable, variable->pieces[0].box)),
                                            tensor.type().dtype)
                                        .ok();
    if (variable->type.shape != tensor.type().shape || !widens)
      wrong.push_back(fmt::format("{} is {} and must be {}", Quoted(called), variable->type.ToString(),
                                  tensor.type().ToString()));
  }
  for (const CheckpointVariable& variable : index_.variables)
    if (!options.partial && !used.contains(variable.name))
      wrong.push_back(fmt::format("{} {} is not expected", Quoted(variable.name), variable.type.ToString()));
  if (wrong.empty() && used.empty() && !variables.empty() && !index_.variables.empty())
    return InvalidArgument(
        "{}: nothing would be restored: the checkpoint has {} and others, and none is called as a variable here, such as "
        "{}. Say by RestoreOptions::names what is read as what.",
        path_, Quoted(index_.variables.front().name), Quoted(variables.begin()->first));
  if (wrong.empty()) return absl::OkStatus();
  return InvalidArgument(
      "{}: the checkpoint is of another model: {}{} Build the model that was saved, or choose by RestoreOptions what is "
      "read.",
      path_, fmt::join(wrong, "; "), wrong.back().ends_with('?') ? "" : ".");
}

absl::Status Checkpoint::ReadBox(const CheckpointVariable& variable, DType dtype, const Block& box,
                                 const BoxBuffer& to, std::byte* data) const {
  for (const CheckpointPiece& piece : variable.pieces) {
    const Block common = Intersect(box, piece.box);
    if (NumElements(common) == 0) continue;
    const SafetensorsFile& file = shards_[static_cast<size_t>(piece.shard)];
    MESHWORK_ASSIGN_OR_RETURN(const SafetensorsEntry entry,
                              file.As(*file.Find(PieceName(variable, piece.box)), dtype));
    BoxBuffer shifted = to;  // a piece's elements count from its own begin
    for (size_t d = 0; d < piece.box.size(); ++d) shifted.start[d] -= piece.box[d].start;
    MESHWORK_RETURN_IF_ERROR(file.ReadBox(entry, Shifted(common, piece.box), shifted, data));
  }
  return absl::OkStatus();
}

BlocksToFill Checkpoint::ToFill(const CheckpointVariable& variable, const std::string& name,
                                const DTensor& to) const {
  return {.to = to, .read = [&, dtype = to.type().dtype](const Block& box) -> absl::StatusOr<Tensor> {
            Tensor host({dtype, SizesOf(box)});
            MESHWORK_RETURN_IF_ERROR(host.status());
            MESHWORK_RETURN_IF_ERROR(Annotate(
                ReadBox(variable, dtype, box, BoxBuffer::OfBox(box), static_cast<std::byte*>(host.raw())),
                fmt::format("variable {}: ", Quoted(name))));
            return host;
          }};
}

int64_t Checkpoint::bytes_read() const {
  int64_t bytes = 0;
  for (const SafetensorsFile& shard : shards_) bytes += shard.bytes_read();
  return bytes;
}

}  // namespace meshwork
