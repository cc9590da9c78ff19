// A checkpoint or a safetensors file, as tensors by name.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/safetensors_file.h"

namespace meshwork::tools {

class TensorSource {
 public:
  // `path`: a checkpoint, a folder of checkpoints, of which the newest is taken, or a safetensors file. Reads no
  // elements. Errors: those of Checkpoint::Open and SafetensorsFile::Open, as bad input.
  static absl::StatusOr<TensorSource> Open(const std::string& path);
  // The tensors of an open checkpoint.
  explicit TensorSource(Checkpoint checkpoint);

  const std::string& path() const;
  const std::map<std::string, Type>& types() const { return types_; }
  // One of them is null.
  const Checkpoint* checkpoint() const { return checkpoint_.has_value() ? &*checkpoint_ : nullptr; }
  const SafetensorsFile* file() const { return file_.has_value() ? &*file_ : nullptr; }

  // A box of a tensor, as a tensor of the box's shape. Errors: the file cannot be read, or was changed.
  // REQUIRES: the name is in types(), and the box lies in the tensor.
  absl::StatusOr<Tensor> Read(const std::string& name, const Block& box) const;

 private:
  explicit TensorSource(SafetensorsFile file);

  std::optional<Checkpoint> checkpoint_;
  std::optional<SafetensorsFile> file_;
  std::map<std::string, Type> types_;
};

}  // namespace meshwork::tools
