// ReadIdx reads the IDX files of MNIST and its relatives, plain or gzipped.
//
//   IdxData images = ReadIdx("train-images-idx3-ubyte.gz").value();
//   images.shape     -> {60000, 28, 28}
//   images.bytes[0]  -> the first pixel of the first image
//
// An IDX file is two zero bytes, the element type, the number of dims, each dim as a big-endian 32-bit
// number, and the elements, row-major. Of the element types only unsigned bytes are read: every common data
// set of images uses them. (http://yann.lecun.com/exdb/mnist)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"
#include "meshwork/storage/unpack_limit.h"

namespace meshwork {

struct IdxData {
  Shape shape;
  std::span<const uint8_t> bytes;  // NumElements(shape) of them, in `storage`
  std::shared_ptr<void> storage;
};

// The content of the file, not its name, decides whether it is gzipped. Memory grows with the actual content,
// never with the sizes that the header claims. Errors: the file cannot be read; it is not IDX; its elements
// are not unsigned bytes; it holds fewer or more elements than its dims say; the gzip data is damaged or cut
// short, or unpacks to more than `options` allows. Thread-safe.
absl::StatusOr<IdxData> ReadIdx(const std::string& path, const UnpackOptions& options = {});

}  // namespace meshwork
