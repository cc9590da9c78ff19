#include "tools/cli/import_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"

namespace meshwork::tools {

PartialFolder::~PartialFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

absl::Status CheckName(ImportTarget& target) {
  while (target.path.size() > 1 && target.path.ends_with('/')) target.path.pop_back();
  if (target.path.empty()) return InvalidArgument("DIR is empty; give the folder that is to be made.");
  return absl::OkStatus();
}

absl::Status CheckTarget(const ImportTarget& target, std::span<const std::string_view> names) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(target.path, error);
  if (!std::filesystem::exists(status)) return absl::OkStatus();
  if (!target.force) return InvalidArgument("{}: is there already; --force replaces it.", target.path);
  if (!std::filesystem::is_directory(status))
    return InvalidArgument("{}: is no folder; give another name.", target.path);
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> files, NamesInFolder(target.path));
  for (const std::string& name : files) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return InvalidArgument(
        "{}: has {}, which no import writes; --force replaces the whole folder, so give another "
        "one or move that away.",
        target.path, Quoted(name));
  }
  return absl::OkStatus();
}

absl::Status PublishFolder(const std::string& partial, const ImportTarget& target) {
  absl::Status status = RenameFolder(partial, target.path);
  if (!target.force || status.code() != absl::StatusCode::kAlreadyExists) return status;
  status = ExchangeFolders(partial, target.path);
  if (status.code() != absl::StatusCode::kUnimplemented) return status;
  // A file system without exchange: for a moment there is no folder of this name.
  const PartialFolder replaced(partial + "-replaced");
  MESHWORK_RETURN_IF_ERROR(RenameFolder(target.path, replaced.path()));
  status = RenameFolder(partial, target.path);
  if (!status.ok()) RenameFolder(replaced.path(), target.path).IgnoreError();
  return status;
}

}  // namespace meshwork::tools
