// Images in files as examples of a Pipeline (train/data/pipeline.h): folders of them, one per class, and a reader for
// Map.
//
//   MESHWORK_ASSIGN_OR_RETURN(ImageFolder flowers, ImageFolder::List("flowers"));
//   flowers.classes                                                     // {"daisy", "rose"}: flowers/daisy, flowers/rose
//   Pipeline train = flowers.files.Shuffle(flowers.num_files(), /*seed=*/7)
//                        .Map(ImageReader({.size = {96, 96}}), {.threads = 4})
//                        .Batch(32)                                     // "image": u8[32,96,96,3]; "label": i32[32]
//                        .Prefetch(2);
//
// Names of files are shuffled, not pixels, so a buffer of all of them is cheap. Paths may come from elsewhere, too,
// such as a column of a CSV file: ImageReader reads the text "path" of an example.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/storage/unpack_limit.h"
#include "meshwork/train/data/decode_image.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork {

struct ImageFolder {
  // The images in the folders of `path`. Each of these folders is a class. Its images are the files in it, and in
  // folders in it, whose names end in .png, .jpg or .jpeg, in capitals or not. Other files do not count, nor do files
  // and folders whose names begin with a dot. Reads no file. Errors: a folder cannot be read; there is no image.
  static absl::StatusOr<ImageFolder> List(const std::string& path);

  int64_t num_files() const { return *files.size(); }

  std::vector<std::string> classes;  // names of the folders, sorted; a label is an index of it
  // Elements: the text "path", below the path that was listed, and the column "label": i32[]. Sorted by class, then by
  // name, so that the order is the same on all machines. The files were listed once: those that come later are not
  // seen.
  Pipeline files;
};

struct ImageReaderOptions {
  int64_t channels = 3;  // as in DecodeImageOptions
  ImageSize size =
      {};  // every image is resized to it; 0 x 0: images keep their sizes, and only those of one size can be batched
  bool resize = true;  // false: an image of another size is an error
  bool antialias = false;
  UnpackOptions unpack = {};
};

// For Pipeline::Map: replaces the text "path" by the column "image": u8[height,width,channels], of that file. Errors,
// which name the file: there is no such text; the file cannot be read; those of DecodeImage and ResizeImage; the image
// has another size.
Pipeline::MapFunction ImageReader(ImageReaderOptions options = {});

}  // namespace meshwork
