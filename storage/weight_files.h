// WeightFiles: published weights, in one safetensors file or in several with an index, as Hugging Face has them.
//
//   MESHWORK_ASSIGN_OR_RETURN(const WeightFiles weights, WeightFiles::Open("SmolLM2-135M"));
//   const WeightTensor* w = weights.Find("model.norm.weight");   // bf16[576]
//   MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, w->file->Read(*w->entry));
//
// The index, "model.safetensors.index.json", says in which file of its folder each tensor is:
//
//   {"metadata": {"total_size": 269030400},
//    "weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors", …}}
//
// The metadata are not read. Tensors that are in a file and not in the index are tensors like the others.
//
// Thread safety: that of SafetensorsFile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/storage/safetensors_file.h"

namespace meshwork {

// A tensor and the file that has it. Both live as long as the WeightFiles, also if that is moved.
struct WeightTensor {
  const SafetensorsFile* file = nullptr;
  const SafetensorsEntry* entry = nullptr;
};

class WeightFiles {
 public:
  // `path`: a safetensors file; an index, whose name ends in ".json"; or a folder with "model.safetensors" or else
  // "model.safetensors.index.json". Reads the headers of all files, and no elements. Errors: a folder has neither; the
  // index is no JSON of this form, or names a file outside of its folder; those of SafetensorsFile::Open; a tensor is
  // not in the file that the index says; two files have a tensor of one name.
  static absl::StatusOr<WeightFiles> Open(const std::string& path);

  // The safetensors file or the index; of a folder, the file in it.
  const std::string& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  const std::map<std::string, WeightTensor, std::less<>>& tensors() const { return tensors_; }  // by name
  // Null: there is no such tensor.
  const WeightTensor* Find(std::string_view name) const;

  // The bytes of elements that all threads have read so far, from all files.
  int64_t bytes_read() const;

 private:
  explicit WeightFiles(std::string path) : path_(std::move(path)) {}

  absl::Status OpenFile(const std::string& path);
  absl::Status OpenIndex();
  absl::Status ListTensors();

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, WeightTensor, std::less<>> tensors_;
};

}  // namespace meshwork
