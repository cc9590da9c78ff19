// Convolutions. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"
#include "meshwork/ir/window_options.h"

namespace meshwork {

// Convolution. Images are channels-last, x: [n, spatial…, c] with one to three spatial dims, and filters
// w: [spatial…, c / groups, o]: oneDNN computes on these as fast as on its own blocked layouts, and twice as
// fast as on [n, c, spatial…]. bf16 is multiplied and summed in float and rounded once.

struct ConvOptions {
  WindowOptions window = {};
  // The channels of x and of the result are cut into this many groups; a group of the result sees only its
  // own group of x. c groups: depthwise.
  int64_t groups = 1;
};
// x: [n, spatial…, c], w: [filter…, c / groups, o] -> [n, spatial…, o]. If x is sharded along a spatial dim,
// devices exchange the rows that windows of several devices need. Errors: sizes that do not fit, strides and
// dilations below 1, a filter that does not fit into an image and its padding.
Value Conv(const Operand& x, const Operand& w, const ConvOptions& options = {});
// The transpose of Conv with the same w and options, x: [n, spatial…, o] -> [n, spatial…, c]. Along each
// spatial dim it has (size - 1) stride + (filter - 1) dilation + 1 - low - high results, with
// WindowPadding::Same() size · stride. Errors: as Conv's.
Value ConvTranspose(const Operand& x, const Operand& w, const ConvOptions& options = {});

}  // namespace meshwork
