// A Mesh arranges devices on a grid with named axes.
//
//   Mesh mesh = Mesh::Parse("batch=4,model=2").value();   // 8 devices
//   mesh.Coordinate(5)            -> {2, 1}               // row-major: the last axis is fastest
//   AxisGroup(mesh, {0}).Member(5, 3) -> 7                // device 5's peers along "batch": 1 3 5 7
//
// An axis may be *cut* into sub-axes, major to minor: "model=2*4" is an axis of 8 devices whose coordinate i
// is read as (i / 4, i % 4). The parts are axes like any other; "model:(2)4" names the part of size 4 that
// follows the first 2, "model" all parts in a row. Cutting changes no device's number.
//
//   Mesh cut = mesh.Cut("model:(1)2").value();
//
// A Mesh is an immutable value, cheap to copy and safe to share between threads. Nothing here (or
// in the compiler) ever lists the devices of an axis: groups are found by arithmetic, so a mesh of
// 2^20 devices costs what a mesh of 8 does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"

namespace meshwork {

struct Axis {
  std::string name;  // [A-Za-z][A-Za-z0-9_]*, or model:(2)4 for a part of a cut axis
  int64_t size;      // >= 1

  bool operator==(const Axis&) const = default;
};

using AxisList = absl::InlinedVector<int, 2>;  // positions in the mesh, major to minor
using Coordinates = absl::InlinedVector<int64_t, 4>;

// A set of mesh axes, one bit per position in the mesh.
class AxisSet {
 public:
  AxisSet() = default;
  explicit AxisSet(const AxisList& axes) {
    for (int axis : axes) Add(axis);
  }
  void Add(int axis) { bits_ |= uint32_t{1} << axis; }
  void Remove(int axis) { bits_ &= ~(uint32_t{1} << axis); }
  bool Contains(int axis) const { return (bits_ >> axis & 1) != 0; }
  bool empty() const { return bits_ == 0; }
  bool Intersects(AxisSet other) const { return (bits_ & other.bits_) != 0; }
  AxisSet Union(AxisSet other) const { return AxisSet(bits_ | other.bits_); }
  AxisSet Minus(AxisSet other) const { return AxisSet(bits_ & ~other.bits_); }
  AxisList ToList() const {  // in mesh order
    AxisList list;
    for (int axis = 0; axis < 32; ++axis)
      if (Contains(axis)) list.push_back(axis);
    return list;
  }
  bool operator==(const AxisSet&) const = default;

 private:
  explicit AxisSet(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

class Mesh {
 public:
  static constexpr int kMaxAxes = 16;   // as declared
  static constexpr int kMaxParts = 32;  // once cut

  // A mesh without axes: one device.
  Mesh();

  // Errors: an empty or malformed name, a size below 1, a repeated name, more than kMaxAxes axes,
  // more than 2^40 devices.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes);

  // Reads "batch=4,model=2" or "[batch=4, model=2*4]"; "" and "[]" are the mesh of one device.
  // Errors: those of Create; text of another form; a cut axis with a part below 2.
  static absl::StatusOr<Mesh> Parse(std::string_view text);

  // As Parse. The devices are shares of this process's cores.
  static absl::StatusOr<Mesh> VirtualCpus(std::string_view text) { return Parse(text); }

  // The axes; of a cut axis, its parts.
  const std::vector<Axis>& axes() const { return rep_->axes; }
  int num_axes() const { return static_cast<int>(rep_->axes.size()); }
  const Axis& axis(int i) const { return rep_->axes[i]; }
  int64_t num_devices() const { return rep_->num_devices; }
  // Distance in device numbers between neighbours along axis i.
  int64_t stride(int i) const { return rep_->strides[i]; }
  // Product of the sizes of `axes`; 1 for none.
  int64_t GroupSize(const AxisList& axes) const;

  // Positions of the axis called `name`: several for the whole or a longer part of a cut axis.
  // Errors: there is no such axis (with the nearest name); the axis is not cut there.
  absl::StatusOr<AxisList> FindAxes(std::string_view name) const;
  // The names of `axes`, major to minor; parts in a row are named as one. Law: FindAxes of each name, one
  // after the other, gives `axes`.
  std::vector<std::string> NamesOf(const AxisList& axes) const;

  // ---- Sub-axes.

  // This mesh, cut where the part `name` ("model:(2)4") begins and ends; this mesh itself if `name` is an
  // axis. Errors: there is no such axis; the axis's size cannot be divided so; a cut that does not fit the
  // cuts that are there (2 and 3 of 6); more than kMaxParts parts.
  absl::StatusOr<Mesh> Cut(std::string_view name) const;
  // This mesh with axis i cut once more, in a part of size `major` and the rest. Errors: Cut's.
  // REQUIRES: 1 < major < axis(i).size; `major` divides axis(i).size.
  absl::StatusOr<Mesh> CutAxis(int i, int64_t major) const;
  // Whether axis i is the part that follows axis i-1 of the same cut axis.
  bool Continues(int i) const { return rep_->parts[i].before > 1; }
  // The axes of `finer` that are the same as `axes` of this mesh. REQUIRES: `finer` is this mesh, cut further
  // or not at all.
  AxisList On(const Mesh& finer, const AxisList& axes) const;

  // REQUIRES: 0 <= device < num_devices(). Law: DeviceAt(Coordinate(d)) == d.
  Coordinates Coordinate(int64_t device) const;
  int64_t CoordinateOn(int axis, int64_t device) const {
    return device / stride(axis) % rep_->axes[axis].size;
  }
  int64_t DeviceAt(std::span<const int64_t> coordinate) const;

  std::string ToString() const;                          // "[batch=4, model=2*4]"; law: Parse reads it back
  std::string AxesToString(const AxisList& axes) const;  // "(batch,model:(2)4)"

  bool operator==(const Mesh& other) const { return rep_ == other.rep_ || rep_->axes == other.rep_->axes; }

 private:
  using Cuts = absl::InlinedVector<int64_t, 2>;  // sizes of the leading parts, each dividing the next
  struct Part {
    int axis;        // as declared
    int64_t before;  // product of the sizes of the parts before it
  };
  struct Rep {
    std::vector<Axis> declared;
    std::vector<Cuts> cuts;   // per declared axis
    std::vector<Axis> axes;   // the parts of all declared axes
    std::vector<Part> parts;  // per entry of `axes`
    std::vector<int64_t> strides;
    int64_t num_devices = 1;
  };
  struct SubAxis {
    int axis;  // as declared
    int64_t before, size;
  };
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes, std::vector<Cuts> cuts);
  absl::StatusOr<SubAxis> ReadName(std::string_view name) const;
  std::string NameOf(const SubAxis& sub) const;
  explicit Mesh(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  std::shared_ptr<const Rep> rep_;
};

// The groups of devices that differ only in their coordinates on `axes`; the order of `axes`
// (major to minor) gives the order of the members.
// Laws: Member(d, RankOf(d)) == d; RankOf(Member(d, i)) == i; Member(Member(d, i), j) == Member(d, j).
class AxisGroup {
 public:
  AxisGroup(const Mesh& mesh, const AxisList& axes);
  int64_t size() const { return size_; }
  int64_t RankOf(int64_t device) const;
  int64_t Member(int64_t device, int64_t rank) const;

 private:
  struct Part {
    int64_t size, stride;
  };
  absl::InlinedVector<Part, 2> parts_;
  int64_t size_ = 1;
};

}  // namespace meshwork
