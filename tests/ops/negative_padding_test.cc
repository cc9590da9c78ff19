// Negative padding crops: windows and their gradients are those of an image without the cropped ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::negative_padding_test {
namespace {

constexpr int64_t kHeight = 8, kWidth = 9;

// The padding at the ends of an image of [kHeight,kWidth].
struct Padding {
  std::vector<int64_t> low, high;
};
// The image cropped by the negative part of the padding.
Value Cropped(const Value& x, const Padding& by) {
  const auto crop = [](int64_t padding) { return padding < 0 ? -padding : 0; };
  return Slice(x, {0, crop(by.low[0]), crop(by.low[1]), 0},
               {x.shape()[0], kHeight - crop(by.high[0]), kWidth - crop(by.high[1]), x.shape()[3]});
}
WindowPadding WithoutCrop(Padding by) {
  for (auto* list : {&by.low, &by.high})
    for (int64_t& padding : *list) padding = std::max<int64_t>(padding, 0);
  return WindowPadding::Explicit(by.low, by.high);
}

using Make = Value (*)(const Value& x, const Value& w, const WindowPadding& padding);

// The results, a loss of them and its gradients, on numbers that differ by position.
std::map<std::string, std::vector<double>> Results(Make make, const Padding& padding, bool by_slice) {
  Graph graph{Mesh()};
  const Value x = graph.Input("x", F64, {2, kHeight, kWidth, 3}, LayoutSpec(4, UNSHARDED));
  const Value w = graph.Input("w", F64, {3, 2, 3, 4}, LayoutSpec(4, UNSHARDED));
  const Value y = by_slice ? make(Cropped(x, padding), w, WithoutCrop(padding))
                           : make(x, w, WindowPadding::Explicit(padding.low, padding.high));
  EXPECT_TRUE(graph.status().ok()) << MessageOf(graph.status());
  graph.Output("y", y);
  const std::vector<Value> of = {x, w};
  const std::vector<Value> grads = Gradients(ReduceSum(Mul(y, Sin(y)), {0, 1, 2, 3}), of);
  graph.Output("x_grad", grads[0]);
  graph.Output("w_grad", grads[1]);
  std::map<std::string, std::vector<double>> feeds, results;
  for (int64_t i = 0; i < x.type().num_elements(); ++i)
    feeds["x"].push_back(static_cast<double>(i * 37 % 101) / 50 - 1);
  for (int64_t i = 0; i < w.type().num_elements(); ++i)
    feeds["w"].push_back(static_cast<double>(i * 29 % 31) / 15 - 1);
  for (const auto& [name, tensor] : Interpret(graph, feeds).outputs) results[name] = tensor.Numbers();
  return results;
}

TEST(NegativePadding, IsASliceBefore) {
  const Make kOps[] = {
      [](const Value& x, const Value& w, const WindowPadding& padding) {
        return Conv(x, w, {.window = {.padding = padding}});
      },
      [](const Value& x, const Value& w, const WindowPadding& padding) {
        return Conv(x, w, {.window = {.strides = {2, 1}, .padding = padding, .dilation = {1, 2}}});
      },
      [](const Value& x, const Value&, const WindowPadding& padding) {
        return MaxPool(x, {3, 2}, {.strides = {2, 1}, .padding = padding});
      },
      [](const Value& x, const Value&, const WindowPadding& padding) {
        return AvgPool(x, {3, 2}, {.strides = {1, 2}, .padding = padding});
      },
      [](const Value& x, const Value&, const WindowPadding& padding) {
        return AvgPool(x, {2, 2}, {.padding = padding}, /*count_padding=*/true);
      },
  };
  const Padding kPaddings[] = {
      {{-1, 1}, {0, -2}}, {{0, -1}, {-3, 0}}, {{1, -1}, {0, -1}}, {{-2, -3}, {2, 1}}, {{-4, -1}, {-1, -5}}};
  for (size_t op = 0; op < std::size(kOps); ++op) {
    for (const Padding& padding : kPaddings) {
      const auto found = Results(kOps[op], padding, false), wanted = Results(kOps[op], padding, true);
      ASSERT_EQ(found.size(), 3u);
      for (const auto& [name, numbers] : wanted) {
        ASSERT_EQ(found.at(name).size(), numbers.size()) << name;
        for (size_t i = 0; i < numbers.size(); ++i)
          EXPECT_NEAR(found.at(name)[i], numbers[i], 1e-12) << name << " of op " << op << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::negative_padding_test
