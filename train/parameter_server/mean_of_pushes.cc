#include "meshwork/train/parameter_server/mean_of_pushes.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace meshwork {
namespace {

Tensor MeanOf(const std::vector<Tensor>& tensors) {
  const Type& type = tensors[0].type();
  if (type.dtype == BOOL) {
    Tensor all = Tensor::FromMemory(type, tensors[0].raw());
    const std::span<bool> values = all.mutable_values<bool>();
    for (const Tensor& tensor : tensors)
      for (size_t i = 0; i < values.size(); ++i) values[i] = values[i] && tensor.values<bool>()[i];
    return all;
  }
  Tensor sum = Tensor::Zeros({F64, type.shape});
  const std::span<double> values = sum.mutable_values<double>();
  for (const Tensor& tensor : tensors) {
    const Tensor wide = tensor.Cast(F64);
    const std::span<const double> terms = wide.values<double>();
    for (size_t i = 0; i < values.size(); ++i) values[i] += terms[i];
  }
  for (double& value : values) value /= static_cast<double>(tensors.size());
  return sum.Cast(type.dtype);
}

// The mean of gradients that have some rows each.
PieceGradient MeanOfRows(const std::vector<const PieceGradient*>& gradients, size_t num_pushes) {
  std::map<int64_t, size_t> places;  // of rows, in the sum
  for (const PieceGradient* gradient : gradients)
    for (int64_t row : gradient->at.rows.values<int64_t>()) places[row] = 0;
  std::vector<int64_t> rows;
  for (auto& [row, place] : places) {
    place = rows.size();
    rows.push_back(row);
  }
  Type type = gradients[0]->gradient.type();
  const DType dtype = type.dtype;
  type.dtype = F64;
  type.shape[0] = std::ssize(rows);
  Tensor sum = Tensor::Zeros(type);
  const size_t width = rows.empty() ? 0 : static_cast<size_t>(type.num_elements()) / rows.size();
  const std::span<double> values = sum.mutable_values<double>();
  for (const PieceGradient* gradient : gradients) {
    const Tensor wide = gradient->gradient.Cast(F64);
    const double* term = wide.values<double>().data();
    for (int64_t row : gradient->at.rows.values<int64_t>())
      for (size_t i = 0; i < width; ++i) values[places[row] * width + i] += *term++;
  }
  for (double& value : values) value /= static_cast<double>(num_pushes);
  return {{gradients[0]->at.piece, Tensor::From<int64_t>({std::ssize(rows)}, rows)}, sum.Cast(dtype)};
}

}  // namespace

std::vector<PieceGradient> MeanOfPushes(const std::vector<const PushRequest*>& pushes) {
  std::map<std::string, std::vector<const PieceGradient*>> by_piece;
  for (const PushRequest* push : pushes)
    for (const PieceGradient& gradient : push->gradients) by_piece[gradient.at.piece].push_back(&gradient);
  std::vector<PieceGradient> means;
  for (const auto& [piece, gradients] : by_piece) {
    if (gradients[0]->at.rows.valid()) {
      means.push_back(MeanOfRows(gradients, pushes.size()));
      continue;
    }
    std::vector<Tensor> tensors;
    for (const PieceGradient* gradient : gradients) tensors.push_back(gradient->gradient);
    means.push_back({{piece}, MeanOf(tensors)});
  }
  return means;
}

}  // namespace meshwork
