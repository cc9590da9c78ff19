// Pooling, and images of other sizes. Part of ops/ops.h, which says what holds of all.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"
#include "meshwork/ir/window_options.h"

namespace meshwork {

// Pooling of x: [n, spatial…, c] over windows of `window`: [size per spatial dim]. Without strides,
// windows lie side by side. Errors: as Conv's.

// NaN if an element is. -inf counts as padding: a window that holds nothing else is -inf and has no gradient.
// Of equal elements the first takes the gradient.
Value MaxPool(const Operand& x, const std::vector<int64_t>& window, const WindowOptions& options = {});
// The mean of a window: of its elements, or, with count_padding, of all its places. Of padding alone: NaN, or
// 0.
Value AvgPool(const Operand& x, const std::vector<int64_t>& window, const WindowOptions& options = {},
              bool count_padding = false);

enum class ResizeForm { kNearest, kBilinear };
// x: [n, spatial…, c] -> [n, sizes…, c]: the middles of pixels lie where they lie in x, and beyond the outer
// ones x goes on as it ends. kNearest takes the nearest pixel, of two the higher one; kBilinear interpolates
// (along three dims trilinearly), also where it makes images smaller. Errors: no size for each spatial dim,
// sizes below 1.
Value Resize(const Operand& x, const std::vector<int64_t>& sizes, ResizeForm form);

}  // namespace meshwork
