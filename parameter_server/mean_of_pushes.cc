#include "meshwork/parameter_server/mean_of_pushes.h"

#include <span>

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

}  // namespace

std::map<std::string, Tensor> MeanOfPushes(const std::vector<const PushRequest*>& pushes) {
  std::map<std::string, std::vector<Tensor>> by_piece;
  for (const PushRequest* push : pushes)
    for (const PieceGradient& gradient : push->gradients)
      by_piece[gradient.at.piece].push_back(gradient.gradient);
  std::map<std::string, Tensor> means;
  for (const auto& [piece, tensors] : by_piece) means[piece] = MeanOf(tensors);
  return means;
}

}  // namespace meshwork
