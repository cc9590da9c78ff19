// Pooling, and images of other sizes. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"
#include "meshwork/ir/window_options.h"

namespace meshwork {

// Pooling of x: [n, spatial…, c] over windows of `window`: [size per spatial dim]. Without strides,
// windows lie side by side. Errors: as Conv's.

// NaN if an element is NaN. -inf counts as padding: a window that holds nothing else gives -inf and no
// gradient. Of equal elements the first takes the gradient.
Value MaxPool(const Operand& x, const std::vector<int64_t>& window, const WindowOptions& options = {});
// The mean of a window: over its elements, or, with count_padding, over all its places. A window of padding
// alone gives NaN, or, with count_padding, 0.
Value AvgPool(const Operand& x, const std::vector<int64_t>& window, const WindowOptions& options = {},
              bool count_padding = false);

enum class ResizeForm { kNearest, kBilinear };
// x: [n, spatial…, c] -> [n, sizes…, c]. Pixels are aligned by their centres; beyond its outermost pixels, x
// continues with their values. kNearest takes the nearest pixel, of two the higher one; kBilinear
// interpolates (along three dims trilinearly), also where it makes images smaller. Errors: not one size per
// spatial dim, sizes below 1.
Value Resize(const Operand& x, const std::vector<int64_t>& sizes, ResizeForm form);
// x: [n, spatial…, c] -> [n, spatial · factors…, c]: a Resize, as Keras' UpSampling2D and PyTorch's Upsample. Errors:
// not one factor per spatial dim, factors below 1.
//
//   Upsample(images, {2, 2})                  // [n, 32, 32, c] -> [n, 64, 64, c], each pixel four times
Value Upsample(const Operand& x, const std::vector<int64_t>& factors, ResizeForm form = ResizeForm::kNearest);

}  // namespace meshwork
