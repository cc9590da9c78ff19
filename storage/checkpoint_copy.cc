#include "meshwork/storage/checkpoint_copy.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/storage/safetensors.h"

namespace meshwork {
namespace {

struct NamedPiece {
  const CheckpointVariable* variable;
  const Block* box;
};

// The pieces of each shard, in the order of the variables.
std::vector<std::vector<NamedPiece>> PiecesOfShards(const CheckpointIndex& index, int64_t num_shards) {
  std::vector<std::vector<NamedPiece>> pieces(static_cast<size_t>(num_shards));
  for (const CheckpointVariable& variable : index.variables)
    for (const CheckpointPiece& piece : variable.pieces)
      pieces.at(static_cast<size_t>(piece.shard)).push_back({&variable, &piece.box});
  return pieces;
}

absl::StatusOr<CheckpointShard> WriteShard(const std::string& folder, std::string file,
                                           const std::vector<NamedPiece>& pieces, const ReadPiece& read) {
  std::vector<std::pair<std::string, Type>> tensors;
  for (const auto& [variable, box] : pieces) {
    Type type{variable->type.dtype, {}};
    for (const Extent& extent : *box) type.shape.push_back(extent.size);
    tensors.emplace_back(PieceName(*variable, *box), std::move(type));
  }
  MESHWORK_ASSIGN_OR_RETURN(const WrittenFile written,
                            StreamSafetensors(fmt::format("{}/{}", folder, file), tensors, [&](size_t i) {
                              return read(*pieces[i].variable, *pieces[i].box);
                            }));
  return CheckpointShard{std::move(file), written.bytes, written.sha256};
}

// Writes the shards and the index.
absl::Status WriteFiles(const std::string& folder, CheckpointIndex& index, int64_t num_shards,
                        const ReadPiece& read) {
  const std::vector<std::vector<NamedPiece>> pieces = PiecesOfShards(index, num_shards);
  index.shards.clear();
  for (int64_t s = 0; s < num_shards; ++s) {
    MESHWORK_ASSIGN_OR_RETURN(index.shards.emplace_back(), WriteShard(folder, ShardName(s, num_shards),
                                                                      pieces[static_cast<size_t>(s)], read));
  }
  Stamp(index);
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ToJson(index));
  return WriteFileAtomically(folder + "/index.json", text);
}

// Reads back what was written.
absl::Status CheckFiles(const std::string& folder, const WriteCheckpointOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const Checkpoint written, Checkpoint::Open(folder));
  MESHWORK_RETURN_IF_ERROR(written.Verify());
  return options.check ? options.check(written) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> WriteCheckpoint(const std::string& dir, CheckpointIndex index, int64_t num_shards,
                                            const ReadPiece& read, const WriteCheckpointOptions& options) {
  MESHWORK_CHECK(num_shards >= 1 && index.step >= 0);
  MESHWORK_ASSIGN_OR_RETURN(const CheckpointLock lock, CheckpointLock::Take(dir));
  std::string path = fmt::format("{}/{}", dir, CheckpointName(index.step));
  std::error_code ignored;
  if (!options.replace && std::filesystem::exists(path, ignored))
    return absl::AlreadyExistsError(
        fmt::format("{}: is there already; a checkpoint is replaced only if that is asked for.", path));
  RemoveLeftovers(dir);
  const std::string partial = fmt::format("{}/{}", dir, PartialName(fmt::format("copy-{}", getpid()), 1));
  absl::Status status = MakeFolders(partial);
  if (status.ok()) status = WriteFiles(partial, index, num_shards, read);
  if (status.ok()) status = CheckFiles(partial, options);
  if (status.ok()) status = PublishCheckpoint(partial, dir, index.step);
  if (status.ok()) return path;
  std::filesystem::remove_all(partial, ignored);
  return status;
}

}  // namespace meshwork
