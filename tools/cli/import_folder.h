// The folder that `meshwork import` makes: whole or not at all.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace meshwork::tools {

inline constexpr std::string_view kWeightsName = "model.safetensors";

// Removes the folder at the end, unless it has got another name.
class PartialFolder {
 public:
  explicit PartialFolder(std::string path) : path_(std::move(path)) {}
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder();
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

struct ImportTarget {
  std::string path;
  bool force = false;  // replaces a folder that an import has made
};

// The name without a / at its end. Error: it is empty.
absl::Status CheckName(ImportTarget& target);
// Errors: something is there; with `force`, something that no import of this kind has written, which are files of these `names`.
absl::Status CheckTarget(const ImportTarget& target, std::span<const std::string_view> names);
// Gives the folder its name; what had it before takes its place.
absl::Status PublishFolder(const std::string& partial, const ImportTarget& target);

}  // namespace meshwork::tools
