#include "layout/layout.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/status.h"
#include "base/suggest.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace meshwork {
namespace {

constexpr std::string_view kReduceOpNames[] = {"sum", "max", "min", "prod", "and", "or"};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string RenderDim(const std::vector<std::string>& names) {
  if (names.empty()) return "_";
  if (names.size() == 1) return names[0];
  return fmt::format("({})", fmt::join(names, ","));
}

std::vector<std::string> Names(const Mesh& mesh, const AxisList& axes) {
  std::vector<std::string> names;
  for (int axis : axes) names.push_back(mesh.axis(axis).name);
  return names;
}

// Finds the axes called `names`, marking them in `used`; `where` opens the error.
absl::StatusOr<AxisList> Resolve(const Mesh& mesh, const std::vector<std::string>& names,
                                 std::string_view where, AxisSet& used) {
  AxisList axes;
  for (const std::string& name : names) {
    absl::StatusOr<int> axis = mesh.FindAxis(name);
    if (!axis.ok()) return Annotate(axis.status(), fmt::format("Layout {}: ", where));
    if (used.Contains(*axis)) {
      return InvalidArgument("Layout {}: axis \"{}\" appears twice; an axis shards one dim, once.", where,
                             name);
    }
    used.Add(*axis);
    axes.push_back(*axis);
  }
  return axes;
}

// Recursive-descent reader of the text form.
class LayoutReader {
 public:
  LayoutReader(const Mesh& mesh, std::string_view text) : mesh_(mesh), text_(text) {}

  absl::StatusOr<Layout> Read() {
    if (!Take('{')) return Expected("{");
    std::vector<AxisList> dims;
    PartialSet partials;
    if (Peek() != '}' && Peek() != '|') {
      do {
        std::vector<std::string> names;
        RETURN_IF_ERROR(ReadNames(/*allow_unsharded=*/true, names));
        ASSIGN_OR_RETURN(AxisList axes, Resolve(mesh_, names, text_, used_));
        dims.push_back(axes);
      } while (Take(','));
    }
    if (Take('|')) {
      do {
        std::string op_name = ReadName();
        absl::StatusOr<ReduceOp> op = ReduceOpFromName(op_name);
        if (!op.ok()) return Annotate(op.status(), fmt::format("Layout {}: ", text_));
        if (!Take(':')) return Expected(":");
        std::vector<std::string> names;
        RETURN_IF_ERROR(ReadNames(/*allow_unsharded=*/false, names));
        ASSIGN_OR_RETURN(AxisList axes, Resolve(mesh_, names, text_, used_));
        for (int axis : axes) partials.push_back({axis, *op});
      } while (Take(','));
    }
    if (!Take('}')) return Expected("}");
    if (Peek() != '\0') return Expected("the end");
    return Layout(mesh_, std::move(dims), std::move(partials));
  }

 private:
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string ReadName() {
    Peek();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }
  absl::Status ReadNames(bool allow_unsharded, std::vector<std::string>& names) {
    const bool list = Take('(');
    do {
      std::string name = ReadName();
      if (name.empty()) return Expected("an axis name");
      if (name == "_") {
        if (list || !allow_unsharded) return Expected("an axis name");
        return absl::OkStatus();
      }
      names.push_back(std::move(name));
    } while (list && Take(','));
    if (list && !Take(')')) return Expected(")");
    return absl::OkStatus();
  }
  absl::Status Expected(std::string_view what) {
    return InvalidArgument(
        "Layout {}: expected {} at column {}; a layout looks like {{batch, _}} or {{(a,b), _ | sum:c}}.",
        text_, what, at_ + 1);
  }

  const Mesh& mesh_;
  std::string_view text_;
  size_t at_ = 0;
  AxisSet used_;
};

}  // namespace

int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

std::string ShapeToString(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string_view ReduceOpName(ReduceOp op) { return kReduceOpNames[static_cast<int>(op)]; }

absl::StatusOr<ReduceOp> ReduceOpFromName(std::string_view name) {
  for (ReduceOp op : kAllReduceOps)
    if (ReduceOpName(op) == name) return op;
  return InvalidArgument("unknown reduction \"{}\"; one of {}.", name, fmt::join(kReduceOpNames, ", "));
}

std::string LayoutSpecToString(const LayoutSpec& spec) {
  std::vector<std::string> dims;
  for (const DimSpec& dim : spec) dims.push_back(RenderDim(dim.axes()));
  return fmt::format("{{{}}}", fmt::join(dims, ","));
}

LayoutSpec SpecOf(const Layout& layout) {
  LayoutSpec spec;
  for (const AxisList& axes : layout.dims()) spec.push_back(DimSpec(Names(layout.mesh(), axes)));
  return spec;
}

Layout::Layout(Mesh mesh, std::vector<AxisList> dims, PartialSet partials)
    : mesh_(std::move(mesh)), dims_(std::move(dims)), partials_(std::move(partials)) {
  std::sort(partials_.begin(), partials_.end(),
            [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
  AxisSet used;
  auto use = [&](int axis) {
    MESHWORK_CHECK(axis >= 0 && axis < mesh_.num_axes() && !used.Contains(axis), "axis {} in {}", axis,
                   ToString());
    used.Add(axis);
  };
  for (const AxisList& axes : dims_)
    for (int axis : axes) use(axis);
  for (const Partial& partial : partials_) use(partial.axis);
}

absl::StatusOr<Layout> Layout::Create(const Mesh& mesh, const LayoutSpec& spec) {
  const std::string where = LayoutSpecToString(spec);
  AxisSet used;
  std::vector<AxisList> dims;
  for (const DimSpec& dim : spec) {
    ASSIGN_OR_RETURN(AxisList axes, Resolve(mesh, dim.axes(), where, used));
    dims.push_back(std::move(axes));
  }
  return Layout(mesh, std::move(dims));
}

Layout Layout::Replicated(const Mesh& mesh, int rank) { return Layout(mesh, std::vector<AxisList>(rank)); }

absl::StatusOr<Layout> Layout::Parse(const Mesh& mesh, std::string_view text) {
  return LayoutReader(mesh, text).Read();
}

AxisSet Layout::ShardedAxes() const {
  AxisSet set;
  for (const AxisList& axes : dims_) set = set.Union(AxisSet(axes));
  return set;
}

AxisSet Layout::PartialAxes() const {
  AxisSet set;
  for (const Partial& partial : partials_) set.Add(partial.axis);
  return set;
}

Layout Layout::WithDim(int d, AxisList axes) const {
  std::vector<AxisList> dims = dims_;
  dims[d] = std::move(axes);
  return Layout(mesh_, std::move(dims), partials_);
}

Layout Layout::WithPartials(PartialSet partials) const { return Layout(mesh_, dims_, std::move(partials)); }

Layout Layout::WithoutTrivialAxes() const {
  std::vector<AxisList> dims = dims_;
  PartialSet partials;
  for (AxisList& axes : dims) {
    axes.erase(std::remove_if(axes.begin(), axes.end(), [&](int a) { return mesh_.axis(a).size == 1; }),
               axes.end());
  }
  for (const Partial& partial : partials_)
    if (mesh_.axis(partial.axis).size > 1) partials.push_back(partial);
  return Layout(mesh_, std::move(dims), std::move(partials));
}

int64_t BlockSize(const Mesh& mesh, const AxisList& axes, int64_t size) {
  for (int axis : axes) size = CeilDiv(size, mesh.axis(axis).size);
  return size;
}

Extent ExtentOf(const Mesh& mesh, const AxisList& axes, int64_t size, int64_t device) {
  int64_t start = 0, end = size, block = size;
  for (int axis : axes) {
    block = CeilDiv(block, mesh.axis(axis).size);
    start += mesh.CoordinateOn(axis, device) * block;
    end = std::min(end, start + block);
  }
  // A block that begins at or past the end of its enclosing block is empty.
  return {std::min(start, end), std::max<int64_t>(end - start, 0)};
}

Shape Layout::LocalShape(const Shape& global) const {
  MESHWORK_CHECK(static_cast<int>(global.size()) == rank(), "{} for {}", ShapeToString(global), ToString());
  Shape local(global.size());
  for (int d = 0; d < rank(); ++d) local[d] = BlockSize(mesh_, dims_[d], global[d]);
  return local;
}

Block Layout::BlockOf(const Shape& global, int64_t device) const {
  Block block(global.size());
  for (int d = 0; d < rank(); ++d) block[d] = ExtentOf(mesh_, dims_[d], global[d], device);
  return block;
}

bool Layout::IsPadded(const Shape& global, int d) const {
  return BlockSize(mesh_, dims_[d], global[d]) * NumShards(d) != global[d];
}

Shape Layout::GlobalIndex(const Shape& global, int64_t device, const Shape& local) const {
  Shape index(local.size());
  for (int d = 0; d < rank(); ++d) {
    const Extent extent = ExtentOf(mesh_, dims_[d], global[d], device);
    MESHWORK_CHECK(local[d] >= 0 && local[d] < extent.size, "local {} on dim {}", local[d], d);
    index[d] = extent.start + local[d];
  }
  return index;
}

Layout::Location Layout::Locate(const Shape& global, const Shape& index) const {
  Location location{0, Shape(index.size())};
  for (int d = 0; d < rank(); ++d) {
    int64_t offset = index[d], block = global[d];
    for (int axis : dims_[d]) {
      block = CeilDiv(block, mesh_.axis(axis).size);
      location.device += offset / block * mesh_.stride(axis);
      offset %= block;
    }
    location.local[d] = offset;
  }
  return location;
}

std::string Layout::ToString() const {
  std::vector<std::string> dims;
  for (const AxisList& axes : dims_) dims.push_back(RenderDim(Names(mesh_, axes)));
  std::string out = fmt::format("{{{}", fmt::join(dims, ","));
  std::vector<std::string> owed;
  for (ReduceOp op : kAllReduceOps) {
    std::vector<std::string> names;
    for (const Partial& partial : partials_)
      if (partial.op == op) names.push_back(mesh_.axis(partial.axis).name);
    if (!names.empty()) owed.push_back(fmt::format("{}:{}", ReduceOpName(op), RenderDim(names)));
  }
  if (!owed.empty()) out += fmt::format("{}| {}", dims.empty() ? "" : " ", fmt::join(owed, ", "));
  return out + "}";
}

}  // namespace meshwork
