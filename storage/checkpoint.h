// Checkpoint reads what a CheckpointWriter wrote, onto any mesh, layouts and number of domains.
//
//   MESHWORK_ASSIGN_OR_RETURN(Checkpoint saved, Checkpoint::Open("runs/a"));        // the newest there, or one of them
//   MESHWORK_RETURN_IF_ERROR(saved.Verify());                                       // every byte is what was written
//   MESHWORK_ASSIGN_OR_RETURN(Tensor w, saved.Read("w"));                           // whole
//   MESHWORK_RETURN_IF_ERROR(saved.RestoreInto(variables));                         // each domain what it holds
//
// Thread safety: const functions may be called concurrently, for different tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/checkpoint_index.h"
#include "meshwork/storage/safetensors_file.h"

namespace meshwork {

struct BlocksToFill;  // storage/fill_blocks.h

struct RestoreOptions {
  // Names that the checkpoint has for variables, where they differ.
  std::map<std::string, std::string> names = {};
  // Variables that the checkpoint does not have stay as they are, and variables that only the checkpoint has are left
  // out. If false, both are errors. It is always an error if no variable is in both.
  bool partial = false;
  // Session::Restore first checks, by its hash, that each shard is what was written. Each domain checks some of the
  // shards.
  bool verify = true;
};

class Checkpoint {
 public:
  // `path`: as FindCheckpoint takes it. Reads no elements. The files stay open: if a job removes or replaces the
  // checkpoint meanwhile, all is read from the one that was found. Errors: those of FindCheckpoint and of
  // ReadCheckpointIndex; a shard that is no safetensors file, or lacks a piece that the index says.
  static absl::StatusOr<Checkpoint> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const CheckpointIndex& index() const { return index_; }

  // Checks by their hashes that the shards with the numbers part, part + of, part + 2 of, … are what was written; by
  // default all shards. Calls `progress`, if it is given, with the bytes that were read since its last call. Error: a
  // shard is not what was written; says which. REQUIRES: 0 <= part < of.
  absl::Status Verify(int64_t part = 0, int64_t of = 1,
                      const std::function<void(int64_t bytes)>& progress = {}) const;

  // Checks that the checkpoint has these variables. Error: some are missing, unexpected or of another type or shape;
  // names all of them.
  absl::Status CheckFits(const std::map<std::string, DTensor>& variables,
                         const RestoreOptions& options = {}) const;

  // A variable, whole. Errors: there is no such variable (with the nearest name); those of SafetensorsFile::ReadBox.
  absl::StatusOr<Tensor> Read(std::string_view name) const;
  // A box of a variable, as a tensor of the box's shape; only the bytes of the box are read. Errors, besides: the box
  // does not lie in the variable.
  absl::StatusOr<Tensor> Read(std::string_view name, const Block& box) const;

  // Fills the blocks of variables, by name, on all cores. Of the files, only the bytes of these blocks are read, each once; f32
  // widens to f64, and so on, where the variable is wider (storage/safetensors.h). Errors: that of CheckFits, before
  // anything is read; then those of SafetensorsFile::ReadBox, after which some variables are as in the checkpoint, and
  // some as before.
  absl::Status RestoreInto(const std::map<std::string, DTensor>& variables,
                           const RestoreOptions& options = {}) const;

  // The bytes of elements that all threads have read so far.
  int64_t bytes_read() const;

 private:
  Checkpoint(std::string path, CheckpointIndex index) : path_(std::move(path)), index_(std::move(index)) {}

  static absl::StatusOr<Checkpoint> OpenFolder(std::string path);
  // Error: there is no such variable, with the nearest name.
  absl::StatusOr<const CheckpointVariable*> FindVariable(std::string_view name) const;
  // Reads the elements of `box`, of a variable, to their places in a buffer of elements of `dtype`.
  absl::Status ReadBox(const CheckpointVariable& variable, DType dtype, const Block& box, const BoxBuffer& to,
                       std::byte* data) const;
  // What fills a variable, called `name` here. The result refers to all three.
  BlocksToFill ToFill(const CheckpointVariable& variable, const std::string& name, const DTensor& to) const;

  std::string path_;
  CheckpointIndex index_;
  std::vector<SafetensorsFile> shards_;
};

}  // namespace meshwork
