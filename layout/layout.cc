#include "meshwork/layout/layout.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/divide.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {
namespace {

constexpr std::string_view kReduceOpNames[] = {"sum", "max", "min", "prod", "and", "or"};

// The number of axes from position i on that cut a dim as a single axis would: successive parts of one cut
// axis. Axes of size 1 between them are skipped.
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

const std::shared_ptr<const Layout::Rep>& Layout::Scalar() {
  static const auto* const scalar = new std::shared_ptr<const Rep>(std::make_shared<Rep>());
  return *scalar;
}

Layout::Layout() : rep_(Scalar()) {}

Layout::Layout(Mesh mesh, std::vector<AxisList> dims, PartialSet partials)
    : Layout(Rep{.mesh = std::move(mesh), .axes = std::move(dims), .partials = std::move(partials)}) {}

Layout::Layout(Rep rep) {
  std::sort(rep.partials.begin(), rep.partials.end(),
            [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
  auto use = [&](int axis, AxisSet& set) {
    MESHWORK_CHECK(axis >= 0 && axis < rep.mesh.num_axes() && !rep.sharded.Union(rep.owed).Contains(axis),
                   "axis {} of {}", axis, rep.mesh.ToString());
    set.Add(axis);
  };
  rep.sharded = rep.owed = AxisSet();
  for (const AxisList& axes : rep.axes)
    for (int axis : axes) use(axis, rep.sharded);
  for (const Partial& partial : rep.partials) use(partial.axis, rep.owed);
  rep_ = std::make_shared<const Rep>(std::move(rep));
  for (const Partial& partial : partials())
    MESHWORK_CHECK(partial.op == partials()[0].op, "{} owes reductions of two kinds", ToString());
}

Layout Layout::Strided(Mesh mesh, const std::vector<FactorList>& dims, PartialSet partials) {
  Rep rep{.mesh = std::move(mesh), .partials = std::move(partials)};
  rep.axes.reserve(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (IsPlain(dims[d])) {
      rep.axes.push_back(dims[d][0].axes);
      continue;
    }
    const FactorList factors = Canonical(dims[d]);
    for (const Factor& factor : factors) rep.axes.push_back(factor.axes);
    if (IsPlain(factors)) continue;
    rep.factors.resize(dims.size());
    for (const Factor& factor : factors) rep.factors[d].push_back(factor.size);
  }
  return Layout(std::move(rep));
}

Layout Layout::Replicated(const Mesh& mesh, int rank) { return Layout(mesh, std::vector<AxisList>(rank)); }

const std::vector<AxisList>& Layout::dims() const {
  MESHWORK_CHECK(!is_strided(), "{}", ToString());
  return rep_->axes;
}

const AxisList& Layout::dim(int d) const {
  MESHWORK_CHECK(!IsStrided(d), "dim {} of {}", d, ToString());
  return rep_->axes[FirstFactor(d)];
}

Layout Layout::Flat() const {
  return is_strided() ? Layout(Rep{.mesh = mesh(), .axes = rep_->axes, .partials = partials()}) : *this;
}

bool Layout::operator==(const Layout& other) const {
  if (rep_ == other.rep_) return true;
  const Rep &a = *rep_, &b = *other.rep_;
  return a.sharded == b.sharded && a.owed == b.owed && a.axes == b.axes && a.factors == b.factors &&
         a.partials == b.partials && a.mesh == b.mesh;
}

// ---- Factors.

int Layout::FirstFactor(int d) const {
  if (!is_strided()) return d;
  int first = 0;
  for (int e = 0; e < d; ++e)
    first += rep_->factors[e].empty() ? 1 : static_cast<int>(rep_->factors[e].size());
  return first;
}

FactorList Layout::Factors(int d, int64_t size) const {
  size_t f = FirstFactor(d);
  if (!IsStrided(d)) return {{size, rep_->axes[f]}};
  FactorList factors;
  for (int64_t factor : rep_->factors[d]) factors.push_back({factor, rep_->axes[f++]});
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
    if (IsStrided(d) && NumElements(rep_->factors[d]) != global[d])
      return InvalidArgument(
          "layout {}: the factors of dim {} make {}, the shape {} has {} there; their product must be its size.",
          ToString(), d, Count(NumElements(rep_->factors[d]), "element"), ShapeToString(global), global[d]);
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
  if (mesh() == finer) return *this;
  Rep rep = *rep_;
  rep.mesh = finer;
  for (AxisList& axes : rep.axes) axes = mesh().On(finer, axes);
  rep.partials.clear();
  for (const Partial& partial : partials())
    for (int axis : mesh().On(finer, {partial.axis})) rep.partials.push_back({axis, partial.op});
  return Layout(std::move(rep));
}

Layout Layout::WithDim(int d, AxisList axes) const {
  if (IsStrided(d)) {
    std::vector<FactorList> dims;
    for (int e = 0; e < rank(); ++e) dims.push_back(Factors(e, 1));
    dims[d] = {{1, std::move(axes)}};
    return Strided(mesh(), dims, partials());
  }
  if (dim(d) == axes) return *this;
  Rep rep = *rep_;
  rep.axes[FirstFactor(d)] = std::move(axes);
  return Layout(std::move(rep));
}

Layout Layout::WithPartials(PartialSet partials) const {
  if (this->partials() == partials) return *this;
  Rep rep = *rep_;
  rep.partials = std::move(partials);
  return Layout(std::move(rep));
}

Layout Layout::WithoutTrivialAxes() const {
  auto is_trivial = [&](int a) { return mesh().axis(a).size == 1; };
  const AxisList used = ShardedAxes().Union(PartialAxes()).ToList();
  if (std::none_of(used.begin(), used.end(), is_trivial)) return *this;
  std::vector<FactorList> dims;
  for (int d = 0; d < rank(); ++d) {
    dims.push_back(Factors(d, 1));
    for (Factor& factor : dims.back())
      factor.axes.erase(std::remove_if(factor.axes.begin(), factor.axes.end(), is_trivial),
                        factor.axes.end());
  }
  PartialSet partials;
  for (const Partial& partial : rep_->partials)
    if (!is_trivial(partial.axis)) partials.push_back(partial);
  return Strided(mesh(), dims, std::move(partials));
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
  size_t f = 0;
  for (int d = 0; d < rank(); ++d) {
    if (!IsStrided(d)) {
      local[d] = BlockSize(mesh(), rep_->axes[f++], global[d]);
      continue;
    }
    for (int64_t size : rep_->factors[d]) local[d] *= BlockSize(mesh(), rep_->axes[f++], size);
  }
  return local;
}

Block Layout::BlockOf(const Shape& global, int64_t device) const {
  const Shape shape = FactorShape(global);
  Block block(shape.size());
  for (size_t f = 0; f < shape.size(); ++f) block[f] = ExtentOf(mesh(), rep_->axes[f], shape[f], device);
  return block;
}

bool Layout::IsPadded(const Shape& global, int d) const {
  auto has_padding = [&](const AxisList& axes, int64_t size) {
    return BlockSize(mesh(), axes, size) * mesh().GroupSize(axes) != size;
  };
  size_t f = FirstFactor(d);
  if (!IsStrided(d)) return has_padding(rep_->axes[f], global[d]);
  for (int64_t size : rep_->factors[d])
    if (has_padding(rep_->axes[f++], size)) return true;
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
    ForEachRun(mesh(), rep_->axes[f], [&](int64_t shards, int64_t stride) {
      blocks[f] = CeilDiv(blocks[f], shards);
      device += offset[f] / blocks[f] * stride;
      offset[f] %= blocks[f];
    });
  }
  return {device, Join(blocks, offset)};
}

}  // namespace meshwork
