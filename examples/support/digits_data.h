// The digits that a program trains on: MNIST, or drawn ones.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/train.h"

namespace meshwork {

struct Data {
  std::string source;  // "mnist" or "synthetic"
  MnistData digits;
};

struct DataOptions {
  std::string dir;  // with the four IDX files; "synthetic"; or empty: $MNIST_DIR, else drawn digits
  int64_t train_examples = 5000, test_examples = 5000;  // the first so many
  int64_t seed = 0;                                     // of drawn digits
  bool is_chief = true;                                 // it says that they are drawn
};

// Errors: those of LoadMnist; there are no images of one kind.
absl::StatusOr<Data> LoadData(const DataOptions& options, DType dtype);

}  // namespace meshwork
