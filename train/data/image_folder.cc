#include "meshwork/train/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "meshwork/base/hash.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline_stage.h"

namespace meshwork {
namespace {

namespace fs = std::filesystem;

// ---- Listing.

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool IsImageName(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

absl::Status CannotList(const fs::path& folder, const std::error_code& error) {
  return absl::ErrnoToStatus(
      error.value(), fmt::format("ImageFolder: {}: the folder cannot be read", Printable(folder.string())));
}

// The names of the folders in `path`, sorted. Those that are links count.
absl::StatusOr<std::vector<std::string>> FoldersIn(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code is_none;  // such as a link to nothing
    if (!IsHidden(it->path()) && it->is_directory(is_none)) names.push_back(it->path().filename().string());
  }
  if (error) return CannotList(path, error);
  std::sort(names.begin(), names.end());
  return names;
}

// The paths of the images of `folder`, below it, sorted.
absl::StatusOr<std::vector<std::string>> ImagesIn(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code is_none;
    const bool is_folder = it->is_directory(is_none);
    if (is_folder && IsHidden(it->path())) it.disable_recursion_pending();
    if (!is_folder && !IsHidden(it->path()) && IsImageName(it->path()))
      paths.push_back(it->path().lexically_relative(folder).string());
  }
  if (error) return CannotList(folder, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// ---- The source.

struct LabeledPath {
  std::string path;  // below the folder that was listed
  int32_t label = 0;
};

class ImageFiles : public internal::Stage {
 public:
  ImageFiles(fs::path folder, std::vector<LabeledPath> files)
      : folder(std::move(folder)), files(std::move(files)) {}
  std::unique_ptr<internal::Walk> Begin(uint64_t epoch) const override;
  std::string Describe(internal::For reader) const override {
    const std::string count = Count(end(), "file");
    if (reader == internal::For::kPosition) return fmt::format("image_files({})", count);
    // Each process may have the folder elsewhere.
    std::string names;
    for (const LabeledPath& file : files) names += file.path + '\n';
    return fmt::format("image_files({}, names {:016x})", count, StableHash(names));
  }
  std::optional<int64_t> Size() const override { return end(); }
  int64_t end() const { return static_cast<int64_t>(files.size()); }

  const fs::path folder;
  const std::vector<LabeledPath> files;
};

class ImageFilesWalk : public internal::NumberedWalk<ImageFiles> {
 public:
  using NumberedWalk::NumberedWalk;

  absl::StatusOr<std::optional<Example>> Next() override {
    if (next_ == stage_->end()) return std::nullopt;
    const LabeledPath& file = stage_->files[static_cast<size_t>(next_++)];
    Example example{{"label", Tensor(file.label)}};
    example.SetText("path", (stage_->folder / file.path).string());
    return example;
  }
};

std::unique_ptr<internal::Walk> ImageFiles::Begin(uint64_t) const {
  return std::make_unique<ImageFilesWalk>(*this);
}

// ---- The reader.

absl::StatusOr<Tensor> ReadImage(const std::string& path, const ImageReaderOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  const auto in_file = [&](const absl::Status& status) { return Annotate(status, Printable(path) + ": "); };
  absl::StatusOr<Tensor> image = DecodeImage(file, {.channels = options.channels, .unpack = options.unpack});
  if (!image.ok()) return in_file(image.status());
  const ImageSize size = {image->shape()[0], image->shape()[1]};
  if (options.size == ImageSize() || options.size == size) return image;
  if (!options.resize)
    return InvalidArgument(
        "{}: the image has {} x {} pixels, and {} x {} are wanted; leave `resize` of ImageReaderOptions true, "
        "or the file out.",
        Printable(path), size.height, size.width, options.size.height, options.size.width);
  image = ResizeImage(*image, options.size, {.antialias = options.antialias});
  return image.ok() ? image : in_file(image.status());
}

}  // namespace

absl::StatusOr<ImageFolder> ImageFolder::List(const std::string& path) {
  ImageFolder result;
  MESHWORK_ASSIGN_OR_RETURN(result.classes, FoldersIn(path));
  std::vector<LabeledPath> files;
  for (size_t label = 0; label < result.classes.size(); ++label) {
    const fs::path folder = result.classes[label];
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> images, ImagesIn(path / folder));
    for (const std::string& image : images)
      files.push_back({(folder / image).string(), static_cast<int32_t>(label)});
  }
  if (files.empty())
    return InvalidArgument(
        "ImageFolder: {}: there are {} in it, and no .png, .jpg or .jpeg file in these; each class of images "
        "is a folder of its own.",
        Printable(path), Count(std::ssize(result.classes), "folder"));
  result.files = internal::PipelineOf(std::make_shared<const ImageFiles>(fs::path(path), std::move(files)));
  return result;
}

Pipeline::MapFunction ImageReader(ImageReaderOptions options) {
  return [options](Example example) -> absl::StatusOr<Example> {
    MESHWORK_ASSIGN_OR_RETURN(const std::string_view path, example.GetText("path"));
    MESHWORK_ASSIGN_OR_RETURN(Tensor image, ReadImage(std::string(path), options));
    example.Remove("path");
    example.Set("image", std::move(image));
    return example;
  };
}

}  // namespace meshwork
