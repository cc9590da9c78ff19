// Windows that slide over the spatial dims of channels-last tensors [n,…,c], for convolution and pooling.
//
//   x: [n, 7, c], filter 3, stride 2, low 1, high 1  ->  4 results: x[-1..1], x[1..3], x[3..5], x[5..7]
//
// x[-1] and x[7] are padding. Negative padding crops: with low -1 the first window begins at x[1]. The
// attributes strides, low, high and dilation have one entry per spatial dim; an empty list is all ones
// (padding: zeros).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/rule.h"
#include "meshwork/ir/type.h"
#include "meshwork/ir/window_options.h"

namespace meshwork {

inline constexpr int kMaxSpatialDims = 3;

// Along one spatial dim. Result r sees x[r * stride - low + k * dilation], k < filter.
struct Sliding {
  int64_t filter = 1;
  int64_t stride = 1;
  int64_t low = 0, high = 0;
  int64_t dilation = 1;
  // In a gradient: the operand of y's shape is a window of it, which begins at WindowStart of the block of x.
  bool windowed = false;

  int64_t extent() const { return (filter - 1) * dilation + 1; }
  // The number of results for an x of `size` elements. REQUIRES: extent() <= size + low + high.
  int64_t Count(int64_t size) const { return (size + low + high - extent()) / stride + 1; }

  // The elements of x that results need, and the results that elements of x need.
  Window OfResults(double fill) const { return {stride, -low, extent(), 1, fill}; }
  Window OfElements() const { return {1, low - (extent() - 1), extent(), stride, 0}; }
  // The number of results that see a block of `block` elements of x; and the first result that sees a block
  // of x beginning at `start`.
  int64_t WindowCount(int64_t block) const { return (block - 1 + extent() - 1) / stride + 1; }
  int64_t WindowStart(int64_t start) const;
  // `low` for a block that begins at `start`, counted in the window of results that it sees.
  int64_t LowAt(int64_t start) const { return windowed ? start + low - WindowStart(start) * stride : low; }
};
using Slidings = absl::InlinedVector<Sliding, kMaxSpatialDims>;

// The attributes that AttrSpecs of such rows have: strides, low, high, dilation.
std::vector<AttrSpec> SlidingAttrs(std::vector<AttrSpec> more);

// Reads these attributes for x: [n,…,c] and filters of these sizes; also "windowed" if the row has it.
// Errors: x with no or more than three spatial dims, lists without one entry per dim, strides, dilations and
// filters below 1, numbers beyond 2^30, a filter that does not fit the padded x. `x_name`: the name of x in
// messages.
absl::StatusOr<Slidings> ReadSlidings(const Attrs& attrs, const Type& x, std::string_view x_name,
                                      const std::vector<int64_t>& filter);
// The same for attributes that inference has accepted.
Slidings SlidingsOf(const Attrs& attrs, size_t spatial_dims, const std::vector<int64_t>& filter);

// Checks that `results`: [n,…] has as many results along each spatial dim as x has; a windowed dim as many as
// a window has.
absl::Status CheckResults(const Slidings& dims, const Type& x, std::string_view x_name, const Type& results,
                          std::string_view results_name);

// The attributes strides, low, high and dilation for the user's options. Options that make no sense are left
// for inference to refuse.
Attrs AttrsOf(const WindowOptions& options, const Type& x, const std::vector<int64_t>& filter);
// For a transposed op on `results`: [n,…,c]: the attributes of the op that it transposes, and the sizes of
// the spatial dims of its result.
struct TransposedWindows {
  Attrs attrs;
  std::vector<int64_t> sizes;
};
TransposedWindows TransposedAttrsOf(const WindowOptions& options, const Type& results,
                                    const std::vector<int64_t>& filter);

// "dhw", "hw", "w": the letters of so many spatial dims.
std::string_view SpatialLetters(size_t dims);

// OpRow::on_windows of rows whose operand 0 is x: the windows contain the padding.
Attrs WithoutPadding(const Attrs& attrs, std::span<const WindowedDim> dims);
// OpRow::on_windows of rows with windows over the results: sets "windowed" for `dims`, except those where a
// block's windows lie in its own block; there no padding is seen.
Attrs WithWindowedDims(const Attrs& attrs, std::span<const WindowedDim> dims);

// Adds the windows of an operand's spatial dims to a rule.
void AddWindowsOfResults(Rule& rule, int operand, const Slidings& dims, double fill);
void AddWindowsOfElements(Rule& rule, int operand, const Slidings& dims);

}  // namespace meshwork
