// Folders of images as pipelines: which files, in which order, with which labels, and what ImageReader makes of them.
#include "meshwork/train/data/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/train/log/images.h"
#include "support/image_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::image_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using LabeledFiles = std::vector<std::pair<std::string, int>>;

class ImageFolderTest : public TempDirTest {
 protected:
  // Writes a PNG in which all pixels have one level.
  void Write(const std::string& name, int64_t height = 2, int64_t width = 3, char level = '\x10') {
    fs::create_directories(fs::path(Path(name)).parent_path());
    const Image image{height, width, 1, std::string(static_cast<size_t>(height * width), level)};
    File(name, EncodePng(image));
  }
  std::string Below(std::string_view path) const { return fs::path(path).lexically_relative(dir()).string(); }
  LabeledFiles FilesOf(PipelineIterator walk) const {
    LabeledFiles files;
    for (const Example& e : walk) files.emplace_back(Below(e.text("path")), e["label"].values<int32_t>()[0]);
    return files;
  }
  LabeledFiles FilesOf(const Pipeline& pipeline) const { return FilesOf(pipeline.Begin()); }
};

TEST_F(ImageFolderTest, FoldersAreClasses) {
  for (const char* name :
       {"b/2.png", "b/10.PNG", "a/x.jpeg", "a/deep/er/y.Jpg", "C/z.jpg", "b/sub.png/1.png"})
    Write(name);
  for (const char* name :
       {"top.png", "b/notes.txt", "b/png", "b/.hidden.png", "b/.cache/1.png", ".git/1.png"})
    Write(name);
  fs::create_directories(Path("empty"));
  const ImageFolder folder = ImageFolder::List(dir()).value();
  EXPECT_THAT(folder.classes, ElementsAre("C", "a", "b", "empty"));
  EXPECT_EQ(folder.num_files(), 6);
  EXPECT_THAT(FilesOf(folder.files),
              ElementsAre(Pair("C/z.jpg", 0), Pair("a/deep/er/y.Jpg", 1), Pair("a/x.jpeg", 1),
                          Pair("b/10.PNG", 2), Pair("b/2.png", 2), Pair("b/sub.png/1.png", 2)));
  EXPECT_EQ(FilesOf(ImageFolder::List(dir() + "/").value().files), FilesOf(folder.files));
}

TEST_F(ImageFolderTest, LinksAreFollowed) {
  Write("real/1.png");
  fs::create_directories(Path("data/b"));
  fs::create_directory_symlink(Path("real"), Path("data/a"));
  fs::create_symlink(Path("real/1.png"), Path("data/b/2.png"));
  fs::create_symlink(Path("nowhere"), Path("data/c"));
  const ImageFolder folder = ImageFolder::List(Path("data")).value();
  EXPECT_THAT(folder.classes, ElementsAre("a", "b"));
  EXPECT_THAT(FilesOf(folder.files), ElementsAre(Pair("data/a/1.png", 0), Pair("data/b/2.png", 1)));
}

TEST_F(ImageFolderTest, PositionsSharesAndFingerprints) {
  for (int i = 0; i < 7; ++i) Write(fmt::format("here/{}/{}.png", i % 2, i));
  const Pipeline files = ImageFolder::List(Path("here")).value().files;
  const LabeledFiles all = FilesOf(files);
  PipelineIterator walk = files.Begin();
  for (size_t k = 0; k <= all.size(); ++k) {
    EXPECT_EQ(FilesOf(files.Begin(walk.Save().value()).value()),
              LabeledFiles(all.begin() + static_cast<std::ptrdiff_t>(k), all.end()));
    ASSERT_TRUE(walk.Next().ok());
  }
  EXPECT_EQ(FilesOf(files.Shard(1, 3)), (LabeledFiles{all[1], all[4]}));
  EXPECT_EQ(files.ToString(), "image_files(7 files)");
  // The folder's own path does not count; the names in it do.
  fs::copy(Path("here"), Path("elsewhere"), fs::copy_options::recursive);
  const std::string here = files.Fingerprint();
  EXPECT_EQ(ImageFolder::List(Path("elsewhere")).value().files.Fingerprint(), here);
  fs::rename(Path("elsewhere/0/2.png"), Path("elsewhere/0/3.png"));
  EXPECT_NE(ImageFolder::List(Path("elsewhere")).value().files.Fingerprint(), here);
}

// Files are split once for all epochs: training never sees the validation files.
TEST_F(ImageFolderTest, ApartForTrainingAndValidation) {
  for (int i = 0; i < 20; ++i) Write(fmt::format("{}/{}.png", i % 2, i));
  const ImageFolder folder = ImageFolder::List(dir()).value();
  const Pipeline mixed = folder.files.Shuffle(folder.num_files(), 3).Cache();
  std::set<std::string> training, validation;
  for (const auto& [file, label] : FilesOf(mixed.Skip(5).Shuffle(15, 1).Repeat(3))) training.insert(file);
  for (const auto& [file, label] : FilesOf(mixed.Take(5).Repeat(3))) validation.insert(file);
  EXPECT_EQ(training.size(), 15u);
  EXPECT_EQ(validation.size(), 5u);
  for (const std::string& file : validation) EXPECT_FALSE(training.contains(file)) << file;
}

TEST_F(ImageFolderTest, BatchesOfOneSize) {
  Write("a/1.png", 4, 6, '\x20');
  Write("a/2.png", 8, 8, '\x40');
  Write("b/3.png", 1, 1, '\x60');
  fs::create_directories(Path("b"));
  File("b/4.jpg", JpegBytes({}, 16, 8, 3, std::string(16 * 8 * 3, '\x50')));
  const ImageFolder folder = ImageFolder::List(dir()).value();
  for (int threads : {0, 2}) {
    const Example batch = folder.files.Map(ImageReader({.size = {4, 6}}), {.threads = threads})
                              .Batch(4)
                              .Begin()
                              .Next()
                              ->value();
    EXPECT_THAT(batch["label"].values<int32_t>(), ElementsAre(0, 0, 1, 1));
    ASSERT_EQ(batch["image"].type(), (Type{U8, {4, 4, 6, 3}}));
    const int levels[] = {0x20, 0x40, 0x60, 0x50};
    for (int64_t i = 0; i < 4; ++i) EXPECT_THAT(batch["image"][i].values<uint8_t>(), Each(levels[i]));
  }
  // Without a size, each has its own.
  std::vector<Shape> shapes;
  for (const Example& e : folder.files.Map(ImageReader({.channels = 0})))
    shapes.push_back(e["image"].shape());
  EXPECT_THAT(shapes, ElementsAre(Shape({4, 6, 1}), Shape({8, 8, 1}), Shape({1, 1, 1}), Shape({16, 8, 3})));
}

// Each error names the file.
TEST_F(ImageFolderTest, ABadFileIsNamed) {
  Write("a/1.png", 4, 6);
  Write("a/2.png", 4, 7);
  const auto error_of = [&](ImageReaderOptions options) {
    PipelineIterator walk = ImageFolder::List(dir()).value().files.Map(ImageReader(options)).Begin();
    EXPECT_TRUE(walk.Next().ok());
    return std::string(walk.Next().status().message());
  };
  EXPECT_THAT(error_of({.size = {4, 6}, .resize = false}),
              HasSubstr("element 1: " + Path("a/2.png") + ": the image has 4 x 7 pixels"));
  EXPECT_EQ(error_of({.size = {4, 6}}), "");
  File("a/2.png", "no image");
  EXPECT_THAT(error_of({}), HasSubstr("element 1: " + Path("a/2.png") + ": "));
  fs::remove(Path("a/2.png"));
  fs::create_symlink(Path("nowhere"), Path("a/2.png"));
  EXPECT_THAT(error_of({}), HasSubstr(Path("a/2.png")));
}

}  // namespace
}  // namespace meshwork::image_folder_test
