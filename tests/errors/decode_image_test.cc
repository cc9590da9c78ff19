// What is refused of images and of folders of them. DIR stands for a directory of this run.
#include "meshwork/train/data/decode_image.h"

#include <filesystem>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/train/data/image_folder.h"
#include "meshwork/train/log/images.h"
#include "support/image_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::decode_image_errors_test {
namespace {

TEST(DecodeImageErrors, Bytes) {
  const std::string png = EncodePng({2, 3, 1, "abcdef"});
  const std::string jpeg = JpegBytes({}, 2, 3, 3, "abcdefghijklmnopqr");
  const auto with = [](std::string file, size_t at, std::string_view bytes, bool fix = true) {
    file.replace(at, bytes.size(), bytes);
    if (fix) FixPngChecksums(file);
    return DecodeImage(file);
  };
  const size_t frame = jpeg.find("\xff\xc0") + 5;  // height and width
  const std::string two = JpegBytes({.given = JCS_UNKNOWN, .stored = JCS_UNKNOWN}, 1, 1, 2, "ab");
  ExpectErrors("decode_image", {
                                   MISTAKE(DecodeImage("")),
                                   MISTAKE(DecodeImage("GIF89a")),
                                   MISTAKE(DecodeImage("no image")),
                                   MISTAKE(DecodeImage("\x89PNG\r")),
                                   MISTAKE(DecodeImage(png, {.channels = 5})),
                                   MISTAKE(DecodeImage(png, {.channels = -1})),
                                   MISTAKE(DecodeImage(png, {.unpack = {.max_bytes = 5}})),
                                   MISTAKE(DecodeImage(png.substr(0, png.size() - 15))),
                                   MISTAKE(with(png, 32, "?", /*fix=*/false)),
                                   MISTAKE(with(png, 16, "\x7f\xff\xff\xff\x7f\xff\xff\xff")),
                                   MISTAKE(with(png, 16, std::string(4, '\0'))),
                                   MISTAKE(DecodeImage(jpeg.substr(0, jpeg.size() - 2))),
                                   MISTAKE(with(jpeg, frame, "\xff\xdc\xff\xdc", /*fix=*/false)),
                                   MISTAKE(with(jpeg, frame - 1, "\x0c", /*fix=*/false)),
                                   MISTAKE(DecodeImage(JpegOfScans(501, 1, 1))),
                                   MISTAKE(DecodeImage(two)),
                               });
}

TEST(DecodeImageErrors, Sizes) {
  const Tensor image = Tensor::Zeros({U8, {2, 3, 1}});
  ExpectErrors("resize_image", {
                                   MISTAKE(ResizeImage(Tensor::Zeros({F32, {2, 3, 1}}), {4, 4})),
                                   MISTAKE(ResizeImage(Tensor::Zeros({U8, {2, 3}}), {4, 4})),
                                   MISTAKE(ResizeImage(Tensor::Zeros({U8, {2, 0, 1}}), {4, 4})),
                                   MISTAKE(ResizeImage(image, {0, 4})),
                                   MISTAKE(ResizeImage(image, {1 << 30, 1 << 30})),
                                   MISTAKE(ResizeImage(Tensor(), {4, 4})),
                               });
}

class ImageFolderErrors : public TempDirTest {};

TEST_F(ImageFolderErrors, FoldersAndFiles) {
  std::filesystem::create_directories(Path("flat"));
  std::filesystem::create_directories(Path("data/cats"));
  File("flat/1.png", "x");
  File("data/cats/1.png", EncodePng({2, 3, 1, "abcdef"}));
  File("data/cats/2.png", "no image");
  const auto read = [&](std::string_view name, const ImageReaderOptions& options) {
    Example example;
    example.SetText("path", Path(name));
    return ImageReader(options)(example);
  };
  ExpectErrors("image_folder",
               {
                   MISTAKE(ImageFolder::List(Path("none"))),
                   MISTAKE(ImageFolder::List(Path("flat"))),
                   MISTAKE(read("data/cats/2.png", {})),
                   MISTAKE(read("data/cats/3.png", {})),
                   MISTAKE(read("data/cats/1.png", {.size = {4, 4}, .resize = false})),
                   MISTAKE(read("data/cats/1.png", {.size = {4, 0}})),
                   MISTAKE(ImageReader()(Example{{"label", Tensor(int32_t{1})}})),
               },
               {{dir(), "DIR"}});
}

}  // namespace
}  // namespace meshwork::decode_image_errors_test
