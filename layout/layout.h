// A Layout says where each element of a global tensor lives on a mesh.
//
//   Mesh mesh = Mesh::Parse("batch=4,model=2").value();
//   Layout l = Layout::Create(mesh, {"batch", UNSHARDED}).value();   // {batch, _}
//   l.LocalShape({10, 7})          -> {3, 7}       blocks of ceil(10/4) rows
//   l.BlockOf({10, 7}, 6)          -> start {9, 0}, size {1, 7}: the last block is short
//
// A layout has, for each dim, an ordered list of axes (major to minor), empty if the dim is UNSHARDED. It
// also has the axes on which the value is *partial*: a reduction over them is still owed, so the value is the
// sum (max, …) of what the devices of a group along these axes hold. A value owes reductions of one kind
// only.
//
// Axes on a dim nest: with sizes k1, k2 and n elements, b1 = ⌈n/k1⌉, b2 = ⌈b1/k2⌉, device (i,j)
// owns [i·b1 + j·b2, min(i·b1 + (j+1)·b2, (i+1)·b1, n)). So gathering the minor axis of
// {(batch,model)} gives exactly {batch}. Consecutive parts of one cut axis cut a dim as a single axis of
// their joint size would, so that a layout means the same on a mesh that is cut further; see Nests. Local
// buffers have block shape; a short block's tail is padding, whose content is arbitrary.
//
// A *strided* dim is written as factors, major to minor: element i of a dim {8@x*4} is element
// (i / 4, i % 4) of an 8 by 4 array, whose dims are cut separately. Strided dims come from reshapes without
// communication: [8,8] {x,y} read as [64] is {8@x*8@y}. A device's part of a strided dim is not an interval
// but still a box, in the space of factors (FactorShape, Flat).
//
// Layout is an immutable value, cheap to copy and safe to share between threads; all functions are const and
// thread-safe. Copies share what they hold, which is why they are compared by address first. Moving a Layout copies it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

using Shape = absl::InlinedVector<int64_t, 4>;

int64_t NumElements(const Shape& shape);
std::string ShapeToString(const Shape& shape);  // "[128,784]"

enum class ReduceOp { kSum, kMax, kMin, kProd, kAnd, kOr };  // and, or: of bools
inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum,  ReduceOp::kMax, ReduceOp::kMin,
                                             ReduceOp::kProd, ReduceOp::kAnd, ReduceOp::kOr};
std::string_view ReduceOpName(ReduceOp op);                        // "sum", "max", …
absl::StatusOr<ReduceOp> ReduceOpFromName(std::string_view name);  // error: unknown name

// The type of UNSHARDED: the dim is whole.
struct Unsharded {};
inline constexpr Unsharded UNSHARDED;
// Only in pins (see LayoutPin). OPEN: the compiler chooses. MATCH: the dim keeps the axes that the operand
// has.
struct Open {};
inline constexpr Open OPEN;
struct Match {};
inline constexpr Match MATCH;

// How a user names one factor of a strided dim: its size and its axes.
struct FactorSpec {
  int64_t size;
  std::vector<std::string> axes = {};
};

// Whether a pin fixes a dim, leaves it to the compiler, or keeps the axes that are there.
enum class DimMode : uint8_t { kLocked, kOpen, kMatch };

// How a user names the sharding of one dim: UNSHARDED, "batch", {"batch", "model"}, a part "model:(2)4" of
// an axis, OPEN, MATCH, or DimSpec::Factors({{8, {"x"}}, {8}}).
class DimSpec {
 public:
  DimSpec(Unsharded) {}                                  // NOLINT: implicit by design
  DimSpec(Open) : mode_(DimMode::kOpen) {}               // NOLINT
  DimSpec(Match) : mode_(DimMode::kMatch) {}             // NOLINT
  DimSpec(const char* axis) : axes_{axis} {}             // NOLINT
  DimSpec(std::string axis) : axes_{std::move(axis)} {}  // NOLINT
  DimSpec(std::initializer_list<const char*> axes) : axes_(axes.begin(), axes.end()) {}
  explicit DimSpec(std::vector<std::string> axes) : axes_(std::move(axes)) {}
  static DimSpec Factors(std::vector<FactorSpec> factors);
  const std::vector<std::string>& axes() const { return axes_; }
  const std::vector<FactorSpec>& factors() const { return factors_; }
  DimMode mode() const { return mode_; }

 private:
  std::vector<std::string> axes_;
  std::vector<FactorSpec> factors_;  // empty: the dim is one factor, on axes_
  DimMode mode_ = DimMode::kLocked;
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
// The reductions owed in a or in b. REQUIRES: no axis is in both.
PartialSet UnionOf(PartialSet a, const PartialSet& b);

// The part of a dim that a device holds: elements [start, start + size) of the global dim.
struct Extent {
  int64_t start = 0;
  int64_t size = 0;  // 0 for an empty shard
  bool operator==(const Extent&) const = default;
};
using Block = absl::InlinedVector<Extent, 4>;

// One factor of a dim: its size, and the axes that cut it.
struct Factor {
  int64_t size;
  AxisList axes;
  bool operator==(const Factor&) const = default;
};
using FactorList = absl::InlinedVector<Factor, 1>;  // major to minor

class Layout {
 public:
  // The layout of a scalar, on the mesh of one device.
  Layout();
  // Without moves, so that no layout is ever without its Rep.
  Layout(const Layout&) = default;
  Layout& operator=(const Layout&) = default;

  // REQUIRES: axes are positions in `mesh`, each used at most once over dims and partials; partials are of
  // one kind.
  Layout(Mesh mesh, std::vector<AxisList> dims, PartialSet partials = {});
  // As above with factors; a dim of one factor is a plain dim. REQUIRES: sizes are at least 1.
  static Layout Strided(Mesh mesh, const std::vector<FactorList>& dims, PartialSet partials = {});

  // The layout is on `mesh`, cut where the sub-axes of the spec begin and end.
  // Errors: an axis the mesh does not have (with the nearest name), an axis used twice, a sub-axis that
  // cannot be cut, OPEN or MATCH.
  static absl::StatusOr<Layout> Create(const Mesh& mesh, const LayoutSpec& spec);
  // Everything on every device.
  static Layout Replicated(const Mesh& mesh, int rank);
  // Reads the text form: {batch, _}, {(batch,model), _}, {_ | sum:model}, {| sum:(batch,model)},
  // {model:(2)4}, {8@x*4@(y,z)*2, _}. Errors: text of another form; those of Create.
  static absl::StatusOr<Layout> Parse(const Mesh& mesh, std::string_view text);

  const Mesh& mesh() const { return rep_->mesh; }
  int rank() const { return static_cast<int>(is_strided() ? rep_->factors.size() : rep_->axes.size()); }
  // REQUIRES: !is_strided().
  const std::vector<AxisList>& dims() const;
  // REQUIRES: !IsStrided(d).
  const AxisList& dim(int d) const;
  const PartialSet& partials() const { return rep_->partials; }
  bool is_partial() const { return !rep_->partials.empty(); }
  AxisSet ShardedAxes() const { return rep_->sharded; }
  AxisSet PartialAxes() const { return rep_->owed; }
  bool IsReplicated() const { return ShardedAxes().empty() && !is_partial(); }

  // ---- Strided dims.
  bool is_strided() const { return !rep_->factors.empty(); }
  bool IsStrided(int d) const { return is_strided() && !rep_->factors[d].empty(); }
  // The factors of dim d of `size` elements: one, unless it is strided.
  FactorList Factors(int d, int64_t size) const;
  // The layout in which each factor is a dim; this layout itself if no dim is strided. It lays out the tensor
  // reshaped to FactorShape, of which each device holds a box.
  Layout Flat() const;
  Shape FactorShape(const Shape& global) const;

  // Whether a tensor of this shape can have this layout. Errors: another rank; factors whose product is not
  // the size of their dim.
  absl::Status Fits(const Shape& global) const;

  // The same layout on this mesh cut further. REQUIRES: `finer` is mesh(), cut further or not at all.
  Layout On(const Mesh& finer) const;

  // Copies with one thing changed. A dim that was strided is plain then.
  Layout WithDim(int d, AxisList axes) const;
  Layout WithPartials(PartialSet partials) const;
  Layout WithoutPartials() const { return WithPartials({}); }
  // Axes of size 1 shard nothing and owe nothing; the compiler works on layouts without them.
  Layout WithoutTrivialAxes() const;

  // Number of blocks of dim d, empty ones included. REQUIRES: !IsStrided(d).
  int64_t NumShards(int d) const { return mesh().GroupSize(dim(d)); }
  // Block shape: what every device allocates. REQUIRES: Fits(global).
  Shape LocalShape(const Shape& global) const;
  // The block of `device`, a box in FactorShape(global). Law: devices with equal coordinates on the axes that
  // shard have the same block; the blocks of the devices with equal coordinates on all other axes partition
  // the tensor.
  Block BlockOf(const Shape& global, int64_t device) const;
  // True if some device's block is shorter than LocalShape on dim d.
  bool IsPadded(const Shape& global, int d) const;

  // (device, local index) -> global index. REQUIRES: IsHeld(global, device, local).
  Shape GlobalIndex(const Shape& global, int64_t device, const Shape& local) const;
  // Whether this element of the device's buffer is an element of the tensor; otherwise it is padding.
  bool IsHeld(const Shape& global, int64_t device, const Shape& local) const;
  // The inverse: the lowest device that holds `index`, and where. REQUIRES: `index` lies in `global`.
  // Law: GlobalIndex(g, Locate(g, i).device, Locate(g, i).local) == i.
  struct Location {
    int64_t device;
    Shape local;
  };
  Location Locate(const Shape& global, const Shape& index) const;

  std::string ToString() const;  // "{(batch,model),_ | sum:x}"; law: Parse(mesh(), ToString()) == *this
  bool operator==(const Layout& other) const;

 private:
  struct Rep {
    Mesh mesh;
    std::vector<AxisList> axes = {};  // per factor
    // Per dim the sizes of its factors, none for a plain dim; empty if all dims are plain.
    std::vector<Shape> factors = {};
    PartialSet partials = {};
    AxisSet sharded = {}, owed = {};  // of `axes` and `partials`
  };
  // Checks `rep`, and fills in its sets.
  explicit Layout(Rep rep);
  static const std::shared_ptr<const Rep>& Scalar();

  // Position in Rep::axes of the first factor of dim d; for d == rank(), the end.
  int FirstFactor(int d) const;
  // Turn an index per dim into an index per factor, and back. `sizes`: of the factors.
  Shape Split(const Shape& sizes, const Shape& index) const;
  Shape Join(const Shape& sizes, const Shape& index) const;

  std::shared_ptr<const Rep> rep_;  // never null
};

// A pin: the layout that a user asks for. It has locked dims, dims that the compiler chooses (OPEN, "?"), and
// dims that a relayout takes as they are (MATCH).
struct LayoutPin {
  Layout layout;                            // whole along dims that are not locked
  absl::InlinedVector<DimMode, 4> modes{};  // per dim; empty if all are locked

  // Errors: those of Layout::Create and Layout::Parse, except that OPEN and MATCH are allowed.
  static absl::StatusOr<LayoutPin> Create(const Mesh& mesh, const LayoutSpec& spec);
  static absl::StatusOr<LayoutPin> Parse(const Mesh& mesh, std::string_view text);

  DimMode mode(int d) const { return modes.empty() ? DimMode::kLocked : modes[d]; }
  bool is_locked() const { return modes.empty(); }
  bool Has(DimMode mode) const;
  std::string ToString() const;  // "{batch,?,MATCH}"; law: Parse(layout.mesh(), ToString()) == *this
  bool operator==(const LayoutPin&) const = default;
};

// The spec from which Layout::Create makes `layout` (whose partials, if any, are left out).
LayoutSpec SpecOf(const Layout& layout);
// The spec of a pin, with its OPEN and MATCH dims.
LayoutSpec SpecOf(const LayoutPin& pin);
// `spec` by the axes, and parts of axes, that the mesh has; those that it lacks shard nothing.
LayoutSpec WithoutMissingAxes(const Mesh& mesh, const LayoutSpec& spec);

// `axes` cut a dim of `size` elements into blocks. Whether each of these lies in one block of the first
// `count` axes alone: always, unless position `count` lies between parts of one mesh axis and the dim is
// uneven there.
bool Nests(const Mesh& mesh, const AxisList& axes, size_t count, int64_t size);

// Extent of a dim of `size` elements for `device`, by the nesting rule.
Extent ExtentOf(const Mesh& mesh, const AxisList& axes, int64_t size, int64_t device);
// Block size of a dim: ⌈⌈n/k1⌉/k2⌉….
int64_t BlockSize(const Mesh& mesh, const AxisList& axes, int64_t size);

}  // namespace meshwork
