#include "meshwork/layout/layout.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {
namespace {

constexpr std::string_view kReduceOpNames[] = {"sum", "max", "min", "prod", "and", "or"};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many axes from position i on cut a dim as one: the parts of a cut axis that follow each other, axes of
// size 1 aside.
size_t RunLength(const Mesh& mesh, const AxisList& axes, size_t i) {
  size_t length = 1;
  int last = axes[i];
  for (size_t k = i + 1; k < axes.size(); ++k) {
    if (mesh.axis(axes[k]).size == 1) continue;
    if (axes[k] != last + 1 || !mesh.Continues(axes[k])) break;
    last = axes[k];
    length = k + 1 - i;
  }
  return length;
}

// Calls f(number of blocks, device stride) per run: the run's coordinate is device / stride % blocks, because
// its parts are neighbours in the mesh.
template <typename F>
void ForEachRun(const Mesh& mesh, const AxisList& axes, F&& f) {
  for (size_t i = 0; i < axes.size();) {
    const size_t n = RunLength(mesh, axes, i);
    int64_t shards = 1;
    for (size_t k = i; k < i + n; ++k) shards *= mesh.axis(axes[k]).size;
    f(shards, mesh.stride(axes[i + n - 1]));
    i += n;
  }
}

bool IsPlain(const FactorList& factors) { return factors.size() == 1; }

// Drops what says nothing: factors of one element, unsharded factors side by side. The product stays.
FactorList Canonical(const FactorList& factors) {
  FactorList result;
  for (const Factor& factor : factors) {
    if (factor.size == 1 && factor.axes.empty() && factors.size() > 1) continue;
    if (!result.empty() && result.back().axes.empty() && factor.axes.empty())
      result.back().size *= factor.size;
    else result.push_back(factor);
  }
  if (result.empty()) result.push_back({1, {}});
  return result;
}

}  // namespace

int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

std::string ShapeToString(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string_view ReduceOpName(ReduceOp op) { return kReduceOpNames[static_cast<int>(op)]; }

absl::StatusOr<ReduceOp> ReduceOpFromName(std::string_view name) {
  std::vector<std::string> names;
  for (ReduceOp op : kAllReduceOps) {
    if (ReduceOpName(op) == name) return op;
    names.emplace_back(ReduceOpName(op));
  }
  return InvalidArgument("unknown reduction \"{}\"{}", name, DidYouMeanOneOf(name, names, "reductions"));
}

PartialSet UnionOf(PartialSet a, const PartialSet& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end(), [](const Partial& x, const Partial& y) { return x.axis < y.axis; });
  return a;
}

Layout::Layout(Mesh mesh, std::vector<AxisList> dims, PartialSet partials)
    : mesh_(std::move(mesh)), axes_(std::move(dims)), partials_(std::move(partials)) {
  std::sort(partials_.begin(), partials_.end(),
            [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
  AxisSet used;
  auto use = [&](int axis) {
    MESHWORK_CHECK(axis >= 0 && axis < mesh_.num_axes() && !used.Contains(axis), "axis {} of {}", axis,
                   mesh_.ToString());
    used.Add(axis);
  };
  for (const AxisList& axes : axes_)
    for (int axis : axes) use(axis);
  for (const Partial& partial : partials_) {
    use(partial.axis);
    MESHWORK_CHECK(partial.op == partials_[0].op, "{} owes reductions of two kinds", ToString());
  }
}

Layout Layout::Strided(Mesh mesh, const std::vector<FactorList>& dims, PartialSet partials) {
  std::vector<AxisList> axes;
  std::vector<Shape> sizes;
  bool is_strided = false;
  for (const FactorList& dim : dims) {
    const FactorList factors = Canonical(dim);
    is_strided |= !IsPlain(factors);
    sizes.emplace_back();
    for (const Factor& factor : factors) {
      axes.push_back(factor.axes);
      if (!IsPlain(factors)) sizes.back().push_back(factor.size);
    }
  }
  Layout layout(std::move(mesh), std::move(axes), std::move(partials));
  if (is_strided) layout.factors_ = std::move(sizes);
  return layout;
}

Layout Layout::Replicated(const Mesh& mesh, int rank) { return Layout(mesh, std::vector<AxisList>(rank)); }

const std::vector<AxisList>& Layout::dims() const {
  MESHWORK_CHECK(!is_strided(), "{}", ToString());
  return axes_;
}

const AxisList& Layout::dim(int d) const {
  MESHWORK_CHECK(!IsStrided(d), "dim {} of {}", d, ToString());
  return axes_[FirstFactor(d)];
}

AxisSet Layout::ShardedAxes() const {
  AxisSet set;
  for (const AxisList& axes : axes_) set = set.Union(AxisSet(axes));
  return set;
}

AxisSet Layout::PartialAxes() const {
  AxisSet set;
  for (const Partial& partial : partials_) set.Add(partial.axis);
  return set;
}

// ---- Factors.

int Layout::FirstFactor(int d) const {
  if (!is_strided()) return d;
  int first = 0;
  for (int e = 0; e < d; ++e) first += factors_[e].empty() ? 1 : static_cast<int>(factors_[e].size());
  return first;
}

FactorList Layout::Factors(int d, int64_t size) const {
  size_t f = FirstFactor(d);
  if (!IsStrided(d)) return {{size, axes_[f]}};
  FactorList factors;
  for (int64_t factor : factors_[d]) factors.push_back({factor, axes_[f++]});
  return factors;
}

Shape Layout::FactorShape(const Shape& global) const {
  if (!is_strided()) return global;
  Shape shape;
  for (int d = 0; d < rank(); ++d)
    for (const Factor& factor : Factors(d, global[d])) shape.push_back(factor.size);
  return shape;
}

absl::Status Layout::Fits(const Shape& global) const {
  if (static_cast<int>(global.size()) != rank())
    return InvalidArgument("layout {} has {}, the shape {} has {}; give one entry per dim.", ToString(),
                           Count(rank(), "dim"), ShapeToString(global), global.size());
  for (int d = 0; d < rank(); ++d) {
    if (IsStrided(d) && NumElements(factors_[d]) != global[d])
      return InvalidArgument(
          "layout {}: the factors of dim {} make {}, the shape {} has {} there; their product must be its size.",
          ToString(), d, Count(NumElements(factors_[d]), "element"), ShapeToString(global), global[d]);
  }
  return absl::OkStatus();
}

Shape Layout::Split(const Shape& sizes, const Shape& index) const {
  if (!is_strided()) return index;
  Shape split(sizes.size());
  for (int d = 0; d < rank(); ++d) {
    const int first = FirstFactor(d);
    int64_t rest = index[d];
    for (int f = FirstFactor(d + 1) - 1; f > first; --f) {
      split[f] = rest % sizes[f];
      rest /= sizes[f];
    }
    split[first] = rest;
  }
  return split;
}

Shape Layout::Join(const Shape& sizes, const Shape& index) const {
  if (!is_strided()) return index;
  Shape joined(rank(), 0);
  for (int d = 0; d < rank(); ++d)
    for (int f = FirstFactor(d); f < FirstFactor(d + 1); ++f) joined[d] = joined[d] * sizes[f] + index[f];
  return joined;
}

// ---- Copies.

Layout Layout::On(const Mesh& finer) const {
  if (mesh_ == finer) return *this;
  Layout result = *this;
  result.mesh_ = finer;
  for (AxisList& axes : result.axes_) axes = mesh_.On(finer, axes);
  result.partials_.clear();
  for (const Partial& partial : partials_)
    for (int axis : mesh_.On(finer, {partial.axis})) result.partials_.push_back({axis, partial.op});
  return result;
}

Layout Layout::WithDim(int d, AxisList axes) const {
  MESHWORK_CHECK(!IsStrided(d), "dim {} of {}", d, ToString());
  std::vector<AxisList> all = axes_;
  all[FirstFactor(d)] = std::move(axes);
  Layout result(mesh_, std::move(all), partials_);
  result.factors_ = factors_;
  return result;
}

Layout Layout::WithPartials(PartialSet partials) const {
  Layout result(mesh_, axes_, std::move(partials));
  result.factors_ = factors_;
  return result;
}

Layout Layout::WithoutTrivialAxes() const {
  auto is_trivial = [&](int a) { return mesh_.axis(a).size == 1; };
  std::vector<FactorList> dims;
  for (int d = 0; d < rank(); ++d) {
    dims.push_back(Factors(d, 1));
    for (Factor& factor : dims.back())
      factor.axes.erase(std::remove_if(factor.axes.begin(), factor.axes.end(), is_trivial),
                        factor.axes.end());
  }
  PartialSet partials;
  for (const Partial& partial : partials_)
    if (!is_trivial(partial.axis)) partials.push_back(partial);
  return Strided(mesh_, dims, std::move(partials));
}

// ---- Arithmetic.

int64_t BlockSize(const Mesh& mesh, const AxisList& axes, int64_t size) {
  ForEachRun(mesh, axes, [&](int64_t shards, int64_t) { size = CeilDiv(size, shards); });
  return size;
}

Extent ExtentOf(const Mesh& mesh, const AxisList& axes, int64_t size, int64_t device) {
  int64_t start = 0, end = size, block = size;
  ForEachRun(mesh, axes, [&](int64_t shards, int64_t stride) {
    block = CeilDiv(block, shards);
    start += device / stride % shards * block;
    end = std::min(end, start + block);
  });
  // A block that begins at or past the end of its enclosing block is empty.
  return {std::min(start, end), std::max<int64_t>(end - start, 0)};
}

bool Nests(const Mesh& mesh, const AxisList& axes, size_t count, int64_t size) {
  size_t begin = 0, end = 0;  // of the run that position `count` lies in or begins
  while (end < count) {
    begin = end;
    end += RunLength(mesh, axes, begin);
  }
  if (end == count) return true;
  auto slice = [&](size_t from, size_t to) { return AxisList(axes.begin() + from, axes.begin() + to); };
  // One element, or none, lies in the first block however often it is cut.
  if (BlockSize(mesh, slice(0, begin), size) <= 1) return true;
  return BlockSize(mesh, slice(0, count), size) ==
         BlockSize(mesh, slice(0, end), size) * mesh.GroupSize(slice(count, end));
}

Shape Layout::LocalShape(const Shape& global) const {
  MESHWORK_CHECK(Fits(global).ok(), "{} for {}", ShapeToString(global), ToString());
  Shape local(global.size(), 1);
  for (int d = 0; d < rank(); ++d)
    for (const Factor& factor : Factors(d, global[d])) local[d] *= BlockSize(mesh_, factor.axes, factor.size);
  return local;
}

Block Layout::BlockOf(const Shape& global, int64_t device) const {
  const Shape shape = FactorShape(global);
  Block block(shape.size());
  for (size_t f = 0; f < shape.size(); ++f) block[f] = ExtentOf(mesh_, axes_[f], shape[f], device);
  return block;
}

bool Layout::IsPadded(const Shape& global, int d) const {
  for (const Factor& factor : Factors(d, global[d]))
    if (BlockSize(mesh_, factor.axes, factor.size) * mesh_.GroupSize(factor.axes) != factor.size) return true;
  return false;
}

bool Layout::IsHeld(const Shape& global, int64_t device, const Shape& local) const {
  const Block block = BlockOf(global, device);
  const Shape at = Split(Flat().LocalShape(FactorShape(global)), local);
  for (size_t f = 0; f < at.size(); ++f)
    if (at[f] < 0 || at[f] >= block[f].size) return false;
  return true;
}

Shape Layout::GlobalIndex(const Shape& global, int64_t device, const Shape& local) const {
  MESHWORK_CHECK(IsHeld(global, device, local), "local {} of {} {}", ShapeToString(local),
                 ShapeToString(global), ToString());
  const Block block = BlockOf(global, device);
  const Shape shape = FactorShape(global);
  Shape index = Split(Flat().LocalShape(shape), local);
  for (size_t f = 0; f < index.size(); ++f) index[f] += block[f].start;
  return Join(shape, index);
}

Layout::Location Layout::Locate(const Shape& global, const Shape& index) const {
  const Shape shape = FactorShape(global);
  Shape offset = Split(shape, index), blocks = shape;
  int64_t device = 0;
  for (size_t f = 0; f < shape.size(); ++f) {
    ForEachRun(mesh_, axes_[f], [&](int64_t shards, int64_t stride) {
      blocks[f] = CeilDiv(blocks[f], shards);
      device += offset[f] / blocks[f] * stride;
      offset[f] %= blocks[f];
    });
  }
  return {device, Join(blocks, offset)};
}

}  // namespace meshwork
