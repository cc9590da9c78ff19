// A Layout says where each element of a global tensor lives on a mesh.
//
//   Mesh mesh = Mesh::Parse("batch=4,model=2").value();
//   Layout l = Layout::Create(mesh, {"batch", UNSHARDED}).value();   // {batch, _}
//   l.LocalShape({10, 7})          -> {3, 7}       blocks of ceil(10/4) rows
//   l.BlockOf({10, 7}, 6)          -> start {9, 0}, size {1, 7}: the last block is short
//
// Per dim, an ordered list of axes (major to minor), empty where the dim is UNSHARDED; beside them
// the axes on which the value is *partial*: a reduction over them is still owed, so the value is
// the sum (max, …) of what the devices of such a group hold.
//
// Axes on a dim nest: with sizes k1, k2 and n elements, b1 = ⌈n/k1⌉, b2 = ⌈b1/k2⌉, device (i,j)
// owns [i·b1 + j·b2, min(i·b1 + (j+1)·b2, (i+1)·b1, n)). So gathering the minor axis of
// {(batch,model)} gives exactly {batch}. Local buffers have block shape; a short block's tail is
// padding, whose content is arbitrary.
//
// Layout is an immutable value; all functions are const and thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "mesh/mesh.h"

namespace meshwork {

using Shape = absl::InlinedVector<int64_t, 4>;

int64_t NumElements(const Shape& shape);
std::string ShapeToString(const Shape& shape);  // "[128,784]"

enum class ReduceOp { kSum, kMax, kMin, kProd, kAnd, kOr };  // and, or: of bools
inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum,  ReduceOp::kMax, ReduceOp::kMin,
                                             ReduceOp::kProd, ReduceOp::kAnd, ReduceOp::kOr};
std::string_view ReduceOpName(ReduceOp op);                        // "sum", "max", …
absl::StatusOr<ReduceOp> ReduceOpFromName(std::string_view name);  // error: unknown name

struct Unsharded {};
inline constexpr Unsharded UNSHARDED;

// How a user names the sharding of one dim: UNSHARDED, "batch", or {"batch", "model"}.
class DimSpec {
 public:
  DimSpec(Unsharded) {}                                  // NOLINT: implicit by design
  DimSpec(const char* axis) : axes_{axis} {}             // NOLINT
  DimSpec(std::string axis) : axes_{std::move(axis)} {}  // NOLINT
  DimSpec(std::initializer_list<const char*> axes) : axes_(axes.begin(), axes.end()) {}
  explicit DimSpec(std::vector<std::string> axes) : axes_(std::move(axes)) {}
  const std::vector<std::string>& axes() const { return axes_; }

 private:
  std::vector<std::string> axes_;
};
using LayoutSpec = std::vector<DimSpec>;
std::string LayoutSpecToString(const LayoutSpec& spec);

// A reduction owed over one axis.
struct Partial {
  int axis;
  ReduceOp op;
  bool operator==(const Partial&) const = default;
};
using PartialSet = absl::InlinedVector<Partial, 2>;  // sorted by axis, each axis once

// What a device holds of each dim: elements [start, start + size) of the global dim.
struct Extent {
  int64_t start = 0;
  int64_t size = 0;  // 0 for an empty shard
  bool operator==(const Extent&) const = default;
};
using Block = absl::InlinedVector<Extent, 4>;

class Layout {
 public:
  // The layout of a scalar, on the mesh of one device.
  Layout() = default;

  // REQUIRES: axes are positions in `mesh`, each used at most once over dims and partials.
  Layout(Mesh mesh, std::vector<AxisList> dims, PartialSet partials = {});

  // Errors: an axis the mesh does not have (with the nearest name), an axis used twice.
  static absl::StatusOr<Layout> Create(const Mesh& mesh, const LayoutSpec& spec);
  // Everything on every device.
  static Layout Replicated(const Mesh& mesh, int rank);
  // Reads the text form: {batch, _}, {(batch,model), _}, {_ | sum:model}, {| sum:(batch,model)}.
  static absl::StatusOr<Layout> Parse(const Mesh& mesh, std::string_view text);

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  const std::vector<AxisList>& dims() const { return dims_; }
  const AxisList& dim(int d) const { return dims_[d]; }
  const PartialSet& partials() const { return partials_; }
  bool is_partial() const { return !partials_.empty(); }
  AxisSet ShardedAxes() const;
  AxisSet PartialAxes() const;
  bool IsReplicated() const { return ShardedAxes().empty() && !is_partial(); }

  // Copies with one thing changed.
  Layout WithDim(int d, AxisList axes) const;
  Layout WithPartials(PartialSet partials) const;
  Layout WithoutPartials() const { return WithPartials({}); }
  // Axes of size 1 shard nothing and owe nothing; the compiler works on layouts without them.
  Layout WithoutTrivialAxes() const;

  // Number of blocks of dim d, empty ones included.
  int64_t NumShards(int d) const { return mesh_.GroupSize(dims_[d]); }
  // Block shape: what every device allocates. REQUIRES: global.size() == rank().
  Shape LocalShape(const Shape& global) const;
  // What `device` holds. Law: the blocks of the devices with equal coordinates on the axes that
  // shard nothing are the same; over the others they partition the tensor.
  Block BlockOf(const Shape& global, int64_t device) const;
  // True if some device's block is shorter than LocalShape on dim d.
  bool IsPadded(const Shape& global, int d) const;

  // (device, local index) -> global index. REQUIRES: local lies in BlockOf(global, device).
  Shape GlobalIndex(const Shape& global, int64_t device, const Shape& local) const;
  // The inverse: the lowest device that holds `index`, and where.
  // Law: GlobalIndex(g, Locate(g, i).device, Locate(g, i).local) == i.
  struct Location {
    int64_t device;
    Shape local;
  };
  Location Locate(const Shape& global, const Shape& index) const;

  std::string ToString() const;  // "{(batch,model),_ | sum:x}"; law: Parse(ToString(l)) == l
  bool operator==(const Layout&) const = default;

 private:
  Mesh mesh_;
  std::vector<AxisList> dims_;
  PartialSet partials_;
};

// The spec that Layout::Create makes this whole layout of.
LayoutSpec SpecOf(const Layout& layout);

// Extent of a dim of `size` elements for `device`, by the nesting rule.
Extent ExtentOf(const Mesh& mesh, const AxisList& axes, int64_t size, int64_t device);
// Block size of a dim: ⌈⌈n/k1⌉/k2⌉….
int64_t BlockSize(const Mesh& mesh, const AxisList& axes, int64_t size);

}  // namespace meshwork
