#include "tools/cli/tensor_source.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/box.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {

absl::StatusOr<TensorSource> TensorSource::Open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path);
    if (!checkpoint.ok()) return BadInput(checkpoint.status());
    return TensorSource(*std::move(checkpoint));
  }
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (!file.ok()) return BadInput(file.status());
  return TensorSource(*std::move(file));
}

TensorSource::TensorSource(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {
  for (const CheckpointVariable& variable : checkpoint_->index().variables)
    types_.emplace(variable.name, variable.type);
}

TensorSource::TensorSource(SafetensorsFile file) : file_(std::move(file)) {
  for (const SafetensorsEntry& entry : file_->entries()) types_.emplace(entry.name, entry.type);
}

const std::string& TensorSource::path() const {
  return checkpoint_.has_value() ? checkpoint_->path() : file_->path();
}

absl::StatusOr<Tensor> TensorSource::Read(const std::string& name, const Block& box) const {
  if (checkpoint_.has_value()) return checkpoint_->Read(name, box);
  const SafetensorsEntry* const entry = file_->Find(name);
  MESHWORK_CHECK(entry != nullptr, "{}", name);
  Type type{entry->type.dtype, {}};
  BoxBuffer buffer;
  for (const Extent& extent : box) {
    type.shape.push_back(extent.size);
    buffer.start.push_back(extent.start);
    buffer.shape.push_back(extent.size);
  }
  Tensor tensor(std::move(type));
  MESHWORK_RETURN_IF_ERROR(tensor.status());
  MESHWORK_RETURN_IF_ERROR(file_->ReadBox(*entry, box, buffer, static_cast<std::byte*>(tensor.raw())));
  return tensor;
}

}  // namespace meshwork::tools
