#include "meshwork/layout/reshape.h"

#include <numeric>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// A part of an index, major to minor: cut evenly into one block per device of `axes`; cut unevenly, so that
// it cannot be told apart further; or counted by each device (no axes).
struct Digit {
  int64_t size;
  AxisList axes;
  bool is_even = true;
};

// The smallest number of leading axes that cut `size` elements evenly, into blocks that the other axes cut
// further; 0 if there is none.
size_t CountEven(const Mesh& mesh, const AxisList& axes, int64_t size) {
  int64_t blocks = 1;
  for (size_t n = 1; n <= axes.size(); ++n) {
    blocks *= mesh.axis(axes[n - 1]).size;
    if (size % blocks == 0 && Nests(mesh, axes, n, size)) return n;
  }
  return 0;
}

void Push(std::vector<Digit>& digits, Digit digit) {
  if (digit.size == 1 && digit.axes.empty()) return;
  if (digit.axes.empty() && !digits.empty() && digits.back().axes.empty()) digits.back().size *= digit.size;
  else digits.push_back(std::move(digit));
}

std::vector<Digit> DigitsOf(const Mesh& mesh, const FactorList& factors) {
  std::vector<Digit> digits;
  for (const Factor& factor : factors) {
    int64_t size = factor.size;
    AxisList axes = factor.axes;
    for (size_t n = CountEven(mesh, axes, size); n > 0; n = CountEven(mesh, axes, size)) {
      for (size_t i = 0; i < n; ++i) {
        if (mesh.axis(axes[i]).size == 1) continue;
        Push(digits, {mesh.axis(axes[i]).size, {axes[i]}});
        size /= mesh.axis(axes[i]).size;
      }
      axes.erase(axes.begin(), axes.begin() + static_cast<int64_t>(n));
    }
    const bool is_even = axes.empty();
    Push(digits, {size, std::move(axes), is_even});
  }
  return digits;
}

// Digits as factors, as few as there can be: axes before a count cut it.
class FactorWriter {
 public:
  explicit FactorWriter(const Mesh& mesh) : mesh_(mesh) {}

  void Add(const Digit& digit) {
    if (factors_.empty() || !Joins(digit)) factors_.push_back({1, {}});
    Factor& last = factors_.back();
    last.size *= digit.size;
    last.axes.insert(last.axes.end(), digit.axes.begin(), digit.axes.end());
    takes_axes_ = !digit.axes.empty() && digit.is_even;
    takes_count_ = digit.is_even;
  }

  FactorList Take() && {
    if (factors_.empty()) factors_.push_back({1, {}});
    return std::move(factors_);
  }

 private:
  bool Joins(const Digit& digit) const {
    if (digit.axes.empty()) return takes_count_;
    if (!takes_axes_) return false;
    if (digit.is_even) return true;
    // Parts of one axis cut as one, which short blocks show.
    AxisList axes = factors_.back().axes;
    const size_t count = axes.size();
    axes.insert(axes.end(), digit.axes.begin(), digit.axes.end());
    return Nests(mesh_, axes, count, factors_.back().size * digit.size);
  }

  const Mesh& mesh_;
  FactorList factors_;
  bool takes_axes_ = false, takes_count_ = false;
};

// A digit that lies across the end of a dim. `left`: the elements of the dim that are left for it.
struct Obstacle {
  Digit digit;
  int64_t left;
};

struct Reading {
  std::vector<FactorList> dims;  // up to the obstacle
  std::optional<Obstacle> obstacle;
};

// Deals the digits of `from` out to dims of these sizes.
Reading Read(const Mesh& mesh, const FactorList& from, std::span<const int64_t> sizes) {
  std::vector<Digit> digits = DigitsOf(mesh, from);
  Reading reading;
  size_t next = 0;
  for (int64_t size : sizes) {
    FactorWriter writer(mesh);
    while (size > 1) {
      MESHWORK_CHECK(next < digits.size(), "the sizes hold more elements");
      Digit& digit = digits[next];
      if (size % digit.size == 0) {
        writer.Add(digit);
        size /= digit.size;
        ++next;
        continue;
      }
      if (!digit.axes.empty() || digit.size % size != 0) {
        reading.obstacle = {digit, size};
        return reading;
      }
      writer.Add({size, {}});
      digit.size /= size;
      size = 1;
    }
    reading.dims.push_back(std::move(writer).Take());
  }
  if (next != digits.size()) reading.obstacle = {digits[next], 1};
  return reading;
}

}  // namespace

std::vector<ReshapeGroup> ReshapeGroups(const Shape& from, const Shape& to) {
  std::vector<ReshapeGroup> groups;
  const int from_rank = static_cast<int>(from.size()), to_rank = static_cast<int>(to.size());
  for (int i = 0, j = 0; i < from_rank && j < to_rank;) {
    if (from[i] == 1 && to[j] != 1) {
      ++i;
      continue;
    }
    if (to[j] == 1 && from[i] != 1) {
      ++j;
      continue;
    }
    ReshapeGroup group{i, i, j, j};
    int64_t a = from[i++], b = to[j++];
    while (a != b) {
      if (a < b) a *= from[i++];
      else b *= to[j++];
    }
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

std::optional<std::vector<FactorList>> ReshapeFactors(const Mesh& mesh, const FactorList& from,
                                                      std::span<const int64_t> sizes) {
  Reading reading = Read(mesh, from, sizes);
  if (reading.obstacle.has_value()) return std::nullopt;
  return std::move(reading.dims);
}

std::optional<AxisCut> CutForReshape(const Mesh& mesh, const FactorList& from,
                                     std::span<const int64_t> sizes) {
  const std::optional<Obstacle> obstacle = Read(mesh, from, sizes).obstacle;
  if (!obstacle.has_value() || obstacle->digit.axes.size() != 1 || !obstacle->digit.is_even)
    return std::nullopt;
  const int64_t size = std::gcd(obstacle->digit.size, obstacle->left);
  if (size == 1) return std::nullopt;
  return AxisCut{obstacle->digit.axes[0], size};
}

std::optional<Layout> Reshaped(const Layout& layout, const Shape& from, const Shape& shape) {
  if (from == shape) return layout;
  if (NumElements(from) == 0) return std::nullopt;
  FactorList factors;
  for (int d = 0; d < layout.rank(); ++d)
    for (const Factor& factor : layout.Factors(d, from[d])) factors.push_back(factor);
  std::optional<std::vector<FactorList>> dims = ReshapeFactors(layout.mesh(), factors, shape);
  if (!dims.has_value()) return std::nullopt;
  return Layout::Strided(layout.mesh(), *dims, layout.partials());
}

}  // namespace meshwork
