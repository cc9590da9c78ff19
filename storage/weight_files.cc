#include "meshwork/storage/weight_files.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/json.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr std::string_view kOneFile = "model.safetensors", kIndex = "model.safetensors.index.json";

// The file to open for a path. Error: a folder without weights.
absl::StatusOr<std::string> FileFor(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  for (const std::string_view name : {kOneFile, kIndex}) {
    std::string file = fmt::format("{}/{}", path, name);
    if (std::filesystem::exists(file, ignored)) return file;
  }
  return absl::NotFoundError(fmt::format(
      "{}: the folder has neither {} nor {}; give a folder with one of them, an index, or a safetensors file.",
      path, kOneFile, kIndex));
}

// Whether a name is one of a file in the folder, or in a folder below it, that messages may show.
bool StaysInFolder(const std::string& name) {
  if (name.empty() || Printable(name) != name) return false;
  const std::filesystem::path path(name);
  return path.has_filename() && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".." || part == "."; });
}

// Git leaves a text in place of a large file that it has not fetched.
bool IsLfsPointer(const std::string& path) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  std::array<char, kBegin.size()> begin;
  return file.ok() && file->ReadAt(0, std::as_writable_bytes(std::span(begin))).ok() &&
         std::string_view(begin.data(), begin.size()) == kBegin;
}

// The file of each tensor, by name.
absl::StatusOr<std::map<std::string, std::string>> ReadWeightMap(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, path));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader map, JsonReader(json, path).Get("weight_map"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, map.Keys());
  if (names.empty()) return InvalidArgument("{}: the index names no tensor.", path);
  std::map<std::string, std::string> files;
  for (const std::string& name : names) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader file, map.Get(name));
    MESHWORK_ASSIGN_OR_RETURN(files[name], file.String());
    if (!StaysInFolder(files[name])) return file.Expected("the name of a file in the folder of the index");
  }
  return files;
}

}  // namespace

absl::StatusOr<WeightFiles> WeightFiles::Open(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(std::string file, FileFor(path));
  WeightFiles weights(std::move(file));
  MESHWORK_RETURN_IF_ERROR(weights.path_.ends_with(".json") ? weights.OpenIndex()
                                                            : weights.OpenFile(weights.path_));
  MESHWORK_RETURN_IF_ERROR(weights.ListTensors());
  return weights;
}

const WeightTensor* WeightFiles::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

int64_t WeightFiles::bytes_read() const {
  int64_t bytes = 0;
  for (const SafetensorsFile& file : files_) bytes += file.bytes_read();
  return bytes;
}

absl::Status WeightFiles::OpenFile(const std::string& path) {
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (!file.ok() && IsLfsPointer(path))
    return InvalidArgument("{}: the file stands for one that git has not fetched; run git lfs pull.", path);
  MESHWORK_RETURN_IF_ERROR(file.status());
  files_.push_back(*std::move(file));
  return absl::OkStatus();
}

absl::Status WeightFiles::OpenIndex() {
  MESHWORK_ASSIGN_OR_RETURN(const auto file_of, ReadWeightMap(path_));
  const std::string folder = std::filesystem::path(path_).parent_path();
  std::map<std::string, size_t> opened;  // into files_, by name
  for (const auto& [tensor, file] : file_of) {
    const auto [at, is_new] = opened.try_emplace(file, files_.size());
    if (is_new)
      MESHWORK_RETURN_IF_ERROR(Annotate(OpenFile(folder.empty() ? file : fmt::format("{}/{}", folder, file)),
                                        fmt::format("{}: the file of tensor {}: ", path_, Quoted(tensor))));
    const SafetensorsFile& has = files_[at->second];
    if (has.Find(tensor) == nullptr)
      return InvalidArgument(
          "{}: tensor {} is to be in {}, which does not have it; the files are not of one model.", path_,
          Quoted(tensor), has.path());
  }
  return absl::OkStatus();
}

absl::Status WeightFiles::ListTensors() {
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsEntry& entry : file.entries()) {
      const auto [other, is_new] = tensors_.try_emplace(entry.name, WeightTensor{&file, &entry});
      if (!is_new)
        return InvalidArgument("{}: tensor {} is in {} and in {}; a tensor may be in one file.", path_,
                               Quoted(entry.name), other->second.file->path(), file.path());
    }
  }
  return absl::OkStatus();
}

}  // namespace meshwork
