// Example: an element of a Pipeline (train/data/pipeline.h): tensors with names, and texts with names.
//
//   Example example;
//   example.Set("image", Tensor::From<float>({2}, {0.5f, 1}));
//   example.SetText("caption", "a cat");
//   example["image"].values<float>()[1]    // 1
//   example.text("caption")                // "a cat"
//
// The tensors have the shape of one example: an image of MNIST is f32[784]. Pipeline::Batch makes f32[32,784] of 32 of
// them: a Batch is an Example whose tensors have a row for each of several examples. A text is any bytes, such as a
// line or a record of a file; Pipeline::Map makes tensors of it; it cannot be batched.
//
// Thread safety: a value; copies share the elements of tensors and texts, and are cheap.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/data/columns.h"

namespace meshwork {

class Example {
 public:
  using NamedText = std::pair<std::string, std::shared_ptr<const std::string>>;

  Example() = default;
  // Example{{"image", image}, {"label", label}}; each name once.
  Example(std::initializer_list<std::pair<std::string, Tensor>> columns) : columns_(columns) {}
  explicit Example(Columns columns) : columns_(std::move(columns)) {}

  // If there is no such column, a tensor that is not valid(); Get then gives the error.
  const Tensor& operator[](std::string_view name) const;
  // Error: there is no such column (with the nearest name).
  absl::StatusOr<Tensor> Get(std::string_view name) const;
  // Replaces the column of this name, or adds one behind the others.
  void Set(std::string_view name, Tensor tensor);
  const Columns& columns() const { return columns_; }
  // The rows of a batch: the size of the first column's dim 0; 0 if there is none.
  int64_t rows() const {
    return columns_.empty() || columns_[0].second.type().rank() == 0 ? 0 : columns_[0].second.shape()[0];
  }

  // If there is no such text, ""; GetText then gives the error. Valid as long as a copy of the example has the text.
  std::string_view text(std::string_view name) const;
  // Error: there is no such text (with the nearest name).
  absl::StatusOr<std::string_view> GetText(std::string_view name) const;
  // Replaces the text of this name, or adds one behind the others.
  void SetText(std::string_view name, std::string text);
  const std::vector<NamedText>& texts() const { return texts_; }

  // Append one without looking at the others. REQUIRES: !Has(its name).
  void AddColumn(std::string name, Tensor tensor) {
    columns_.emplace_back(std::move(name), std::move(tensor));
  }
  void AddText(NamedText text) { texts_.push_back(std::move(text)); }

  // Whether there is a column or a text of this name.
  bool Has(std::string_view name) const;
  // Removes the column and the text of this name, if there are.
  void Remove(std::string_view name);

 private:
  Columns columns_;
  std::vector<NamedText> texts_;
};

using Batch = Example;

}  // namespace meshwork
