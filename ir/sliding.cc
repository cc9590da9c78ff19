#include "meshwork/ir/sliding.h"

#include <algorithm>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/divide.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMost = int64_t{1} << 30;  // so that sums and products do not overflow

absl::Status CheckList(std::string_view name, const Ints& list, int64_t least, const Type& x,
                       std::string_view x_name) {
  const size_t dims = x.shape.size() - 2;
  if (!list.empty() && list.size() != dims)
    return InvalidArgument("{}=[{}] has {} entr{}; {} is {}, which has {} spatial dim{}.", name,
                           fmt::join(list, ","), list.size(), list.size() == 1 ? "y" : "ies", x_name,
                           x.ToString(), dims, dims == 1 ? "" : "s");
  for (int64_t entry : list)
    if (entry < least || entry > kMost)
      return InvalidArgument("{}=[{}]: entries go from {} to 2^30.", name, fmt::join(list, ","),
                             least < 0 ? "-2^30" : fmt::to_string(least));
  return absl::OkStatus();
}

absl::Status CheckLists(const Attrs& attrs, const Type& x, std::string_view x_name, const Ints& filter) {
  if (x.rank() < 3 || x.rank() > 2 + kMaxSpatialDims)
    return InvalidArgument("{} is {}; it has a batch dim, one to three spatial dims, and a channel dim.",
                           x_name, x.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckList("window", filter, 1, x, x_name));
  MESHWORK_RETURN_IF_ERROR(CheckList("strides", attrs.Get<Ints>("strides"), 1, x, x_name));
  MESHWORK_RETURN_IF_ERROR(CheckList("low", attrs.Get<Ints>("low"), -kMost, x, x_name));
  MESHWORK_RETURN_IF_ERROR(CheckList("high", attrs.Get<Ints>("high"), -kMost, x, x_name));
  return CheckList("dilation", attrs.Get<Ints>("dilation"), 1, x, x_name);
}

// Checks the attribute "windowed": the compiler sets it, but a text may state anything.
absl::Status CheckWindowed(const Attrs& attrs, const Type& x, std::string_view x_name) {
  if (attrs.Find("windowed") == nullptr) return absl::OkStatus();
  for (int64_t d : attrs.Get<Ints>("windowed"))
    if (d < 0 || d >= x.rank() - 2)
      return InvalidArgument("windowed names spatial dim {}; those of {} {} count from 0 to {}.", d, x_name,
                             x.ToString(), x.rank() - 3);
  return absl::OkStatus();
}

// The entries of these dims become 0.
Ints Without(Ints list, std::span<const WindowedDim> dims) {
  for (const WindowedDim& w : dims)
    if (!list.empty()) list[static_cast<size_t>(w.dim) - 1] = 0;
  return list;
}

}  // namespace

int64_t Sliding::WindowStart(int64_t start) const { return CeilDiv(start + low - (extent() - 1), stride); }

std::vector<AttrSpec> SlidingAttrs(std::vector<AttrSpec> more) {
  for (std::string_view name : {"strides", "low", "high", "dilation"})
    more.push_back({name, AttrKind::kInts, Ints{}});
  return more;
}

absl::StatusOr<Slidings> ReadSlidings(const Attrs& attrs, const Type& x, std::string_view x_name,
                                      const Ints& filter) {
  MESHWORK_RETURN_IF_ERROR(CheckLists(attrs, x, x_name, filter));
  MESHWORK_RETURN_IF_ERROR(CheckWindowed(attrs, x, x_name));
  Slidings dims = SlidingsOf(attrs, x.shape.size() - 2, filter);
  for (size_t d = 0; d < dims.size(); ++d) {
    const Sliding& s = dims[d];
    if (!s.windowed && s.extent() > x.shape[1 + d] + s.low + s.high)
      return InvalidArgument(
          "dim {} of {} {} has size {}, with low={} high={} it has {}: a window of {} with dilation {} spans "
          "{} and does not fit; dim 0 is the batch, the last one the channels.",
          1 + d, x_name, x.ToString(), x.shape[1 + d], s.low, s.high, x.shape[1 + d] + s.low + s.high,
          s.filter, s.dilation, s.extent());
  }
  return dims;
}

Slidings SlidingsOf(const Attrs& attrs, size_t spatial_dims, const Ints& filter) {
  const Ints &strides = attrs.Get<Ints>("strides"), &low = attrs.Get<Ints>("low");
  const Ints &high = attrs.Get<Ints>("high"), &dilation = attrs.Get<Ints>("dilation");
  Slidings dims(spatial_dims);
  for (size_t d = 0; d < spatial_dims; ++d)
    dims[d] = {EntryOr(filter, d, 1), EntryOr(strides, d, 1),  EntryOr(low, d, 0),
               EntryOr(high, d, 0),   EntryOr(dilation, d, 1), false};
  if (attrs.Find("windowed") != nullptr)
    for (int64_t d : attrs.Get<Ints>("windowed")) dims[static_cast<size_t>(d)].windowed = true;
  return dims;
}

absl::Status CheckResults(const Slidings& dims, const Type& x, std::string_view x_name, const Type& results,
                          std::string_view results_name) {
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t size = x.shape[1 + d];
    const int64_t count = dims[d].windowed ? dims[d].WindowCount(size) : dims[d].Count(size);
    if (results.shape[1 + d] != count)
      return InvalidArgument("{} is {}, but along dim {} {} {} has {} windows, not {}.", results_name,
                             results.ToString(), 1 + d, x_name, x.ToString(), count, results.shape[1 + d]);
  }
  return absl::OkStatus();
}

namespace {

Attrs PlainAttrs(const WindowOptions& options) {
  return {{"strides", options.strides},
          {"low", options.padding.low},
          {"high", options.padding.high},
          {"dilation", options.dilation}};
}

// Spreads `total` padding over both ends of each dim.
void SetPadding(const Ints& total, Attrs& attrs) {
  Ints low, high;
  for (int64_t sum : total) {
    low.push_back(sum / 2);
    high.push_back(sum - sum / 2);
  }
  attrs.Set("low", std::move(low));
  attrs.Set("high", std::move(high));
}

// Whether every list has an entry for each spatial dim, and no number is so large that sums overflow.
bool MakesSense(const Attrs& attrs, const Type& x, const Ints& filter) {
  return CheckLists(attrs, x, "x", filter).ok() &&
         std::all_of(x.shape.begin(), x.shape.end(), [](int64_t size) { return size <= kMost; });
}

}  // namespace

Attrs AttrsOf(const WindowOptions& options, const Type& x, const Ints& filter) {
  Attrs attrs = PlainAttrs(options);
  if (options.padding.kind != WindowPadding::Kind::kSame || !MakesSense(attrs, x, filter)) return attrs;
  const Slidings dims = SlidingsOf(attrs, x.shape.size() - 2, filter);
  Ints total;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t size = x.shape[1 + d], count = CeilDiv(size, dims[d].stride);
    total.push_back(std::max<int64_t>((count - 1) * dims[d].stride + dims[d].extent() - size, 0));
  }
  SetPadding(total, attrs);
  return attrs;
}

TransposedWindows TransposedAttrsOf(const WindowOptions& options, const Type& results, const Ints& filter) {
  TransposedWindows made{PlainAttrs(options), {}};
  for (int d = 1; d + 1 < results.rank(); ++d)
    made.sizes.push_back(results.shape[d]);  // until it makes sense
  if (!MakesSense(made.attrs, results, filter)) return made;
  made.sizes.clear();
  const Slidings dims = SlidingsOf(made.attrs, results.shape.size() - 2, filter);
  const bool same = options.padding.kind == WindowPadding::Kind::kSame;
  Ints total;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Sliding& s = dims[d];
    const int64_t count = results.shape[1 + d];
    total.push_back(std::max<int64_t>(s.extent() - s.stride, 0));
    made.sizes.push_back(same ? count * s.stride : (count - 1) * s.stride + s.extent() - s.low - s.high);
  }
  if (same) SetPadding(total, made.attrs);
  return made;
}

std::string_view SpatialLetters(size_t dims) {
  return std::string_view("dhw").substr(kMaxSpatialDims - dims);
}

Attrs WithoutPadding(const Attrs& attrs, std::span<const WindowedDim> dims) {
  Attrs padded = attrs;
  for (std::string_view name : {"low", "high"}) padded.Set(name, Without(attrs.Get<Ints>(name), dims));
  return padded;
}

Attrs WithWindowedDims(const Attrs& attrs, std::span<const WindowedDim> dims) {
  Ints windowed = attrs.Get<Ints>("windowed");
  std::vector<WindowedDim> own;
  for (const WindowedDim& w : dims) {
    if (w.is_own) own.push_back(w);
    else if (w.operand == 0) windowed.push_back(w.dim - 1);
  }
  // `low` stays: the first window of a block crops as much as the first one of the whole.
  Attrs set = attrs;
  if (!own.empty()) set.Set("high", Without(attrs.Get<Ints>("high"), own));
  set.Set("windowed", std::move(windowed));
  return set;
}

void AddWindowsOfResults(Rule& rule, int operand, const Slidings& dims, double fill) {
  for (size_t d = 0; d < dims.size(); ++d)
    rule.AddWindow(operand, static_cast<int>(d) + 1, SpatialLetters(dims.size())[d], dims[d].OfResults(fill));
}

void AddWindowsOfElements(Rule& rule, int operand, const Slidings& dims) {
  for (size_t d = 0; d < dims.size(); ++d)
    rule.AddWindow(operand, static_cast<int>(d) + 1, SpatialLetters(dims.size())[d], dims[d].OfElements());
}

}  // namespace meshwork
