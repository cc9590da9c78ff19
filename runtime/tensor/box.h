// Copies of boxes between dense buffers that each hold a block of one tensor.
//
//   // Rows 2..3 of a [4,6] tensor, from the buffer that holds it whole to one that holds rows 2..4:
//   BoxCopy copy({{2, 2}, {0, 6}}, /*from=*/{{0, 0}, {4, 6}}, /*to=*/{{2, 0}, {3, 6}});
//   copy.Copy(whole, part, sizeof(float), 0, copy.elements());
//
// Packing, unpacking and every collective that moves data are made of such copies: a relayout is the list of
// the intersections of source and target blocks. A BoxCopy is an immutable value, made once when a program is
// prepared; running it allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "meshwork/layout/block.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// A dense, row-major buffer of `shape` whose element 0 has global index `start`.
struct BoxBuffer {
  Shape start;
  Shape shape;

  // The buffer that a device allocates for its block of a tensor: it has the full block shape, even if the
  // block is short.
  static BoxBuffer OfDevice(const Layout& layout, const Shape& global, int64_t device);
  static BoxBuffer Whole(const Shape& global) { return {Shape(global.size(), 0), global}; }
  // A buffer that holds one box.
  static BoxBuffer OfBox(const Block& box);
  // OfDevice's buffer with one dim per dim of the tensor, also if the layout is strided: element i of the dims, if it
  // lies in `part`, is element i - start of the buffer. REQUIRES: `part` lies in one plain part (layout/plain_parts.h)
  // of the device's block.
  static BoxBuffer OfPart(const Layout& layout, const Shape& global, int64_t device, const Block& part);
};

// `count` elements along one dim of two buffers: in the target every to_step-th from `to` on, in the source
// every from_step-th from `from` on. from_step may be negative; to_step is at least 1.
struct BoxSteps {
  int64_t count = 0;
  int64_t from = 0, from_step = 1;
  int64_t to = 0, to_step = 1;
};

class BoxCopy {
 public:
  BoxCopy() = default;
  // REQUIRES: region lies in both buffers. An empty region copies nothing.
  BoxCopy(const Block& region, const BoxBuffer& from, const BoxBuffer& to);
  // The elements that the steps of all dims select, between dense buffers of these shapes.
  // REQUIRES: the elements lie in both buffers.
  BoxCopy(std::span<const BoxSteps> dims, const Shape& from, const Shape& to);
  // `count` runs of `size` elements, every from_step-th element from `from` on, to every to_step-th from `to`
  // on.
  static BoxCopy Runs(int64_t count, int64_t size, int64_t from, int64_t from_step, int64_t to,
                      int64_t to_step);
  // The first `elements` elements of a buffer to the same place in another buffer.
  static BoxCopy Linear(int64_t elements);

  bool operator==(const BoxCopy&) const = default;

  int64_t elements() const { return elements_; }
  // A dim of which the region has `count` rows, so many elements apart.
  struct Dim {
    int64_t count, from_stride, to_stride;
    bool operator==(const Dim&) const = default;
  };
  // The region is runs of run() contiguous elements, the first one at these offsets, repeated along these dims, major
  // to minor. REQUIRES: elements() > 0.
  std::span<const Dim> dims() const { return outer_; }
  int64_t run() const { return run_; }
  int64_t from_offset() const { return from_offset_; }
  int64_t to_offset() const { return to_offset_; }
  // True if the elements lie side by side in both buffers.
  bool contiguous() const { return outer_.empty(); }

  // Calls f(from_offset, to_offset, count), in elements, for the runs that make up elements
  // [begin, end) of the region in row-major order. Runs are contiguous on both sides.
  // Law: cutting [0, elements()) into ranges visits the same elements.
  template <typename F>
  void ForRuns(int64_t begin, int64_t end, F&& f) const;

  // Copies elements [begin, end) of the region; `size` is the bytes of one.
  void Copy(const std::byte* from, std::byte* to, int64_t size, int64_t begin, int64_t end) const;

 private:
  absl::InlinedVector<Dim, 4> outer_;  // major to minor; empty: one run
  int64_t run_ = 0;                    // elements per run
  int64_t elements_ = 0;
  int64_t from_offset_ = 0, to_offset_ = 0;
};

template <typename F>
void BoxCopy::ForRuns(int64_t begin, int64_t end, F&& f) const {
  if (outer_.empty()) {
    if (begin < end) f(from_offset_ + begin, to_offset_ + begin, end - begin);
    return;
  }
  while (begin < end) {
    int64_t row = begin / run_;
    const int64_t column = begin % run_;
    int64_t from = from_offset_ + column, to = to_offset_ + column;
    for (size_t d = outer_.size(); d-- > 0;) {
      const Dim& dim = outer_[d];
      const int64_t index = row % dim.count;
      from += index * dim.from_stride;
      to += index * dim.to_stride;
      row /= dim.count;
    }
    // The innermost outer dim is walked without finding the place anew for each of its rows.
    const int64_t rows_left = outer_.back().count - begin / run_ % outer_.back().count;
    int64_t offset = column;
    for (int64_t r = 0; r < rows_left && begin < end; ++r) {
      const int64_t count = std::min(run_ - offset, end - begin);
      f(from, to, count);
      begin += count;
      from += outer_.back().from_stride - offset;
      to += outer_.back().to_stride - offset;
      offset = 0;
    }
  }
}

}  // namespace meshwork
