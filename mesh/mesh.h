// A Mesh arranges devices on a grid with named axes.
//
//   Mesh mesh = Mesh::Parse("batch=4,model=2").value();   // 8 devices
//   mesh.Coordinate(5)            -> {2, 1}               // row-major: the last axis is fastest
//   AxisGroup(mesh, {0}).Member(5, 3) -> 7                // device 5's peers along "batch": 1 3 5 7
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
  std::string name;  // [A-Za-z][A-Za-z0-9_]*
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
  static constexpr int kMaxAxes = 16;

  // A mesh without axes: one device.
  Mesh();

  // Errors: an empty or malformed name, a size below 1, a repeated name, more than kMaxAxes axes,
  // more than 2^40 devices.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes);

  // Reads "batch=4,model=2" or "[batch=4, model=2]"; "" and "[]" are the mesh of one device.
  static absl::StatusOr<Mesh> Parse(std::string_view text);

  // The mesh as Parse reads it, its devices being threads' shares of this process's cores.
  static absl::StatusOr<Mesh> VirtualCpus(std::string_view text) { return Parse(text); }

  const std::vector<Axis>& axes() const { return rep_->axes; }
  int num_axes() const { return static_cast<int>(rep_->axes.size()); }
  const Axis& axis(int i) const { return rep_->axes[i]; }
  int64_t num_devices() const { return rep_->num_devices; }
  // Distance in device numbers between neighbours along axis i.
  int64_t stride(int i) const { return rep_->strides[i]; }
  // Product of the sizes of `axes`; 1 for none.
  int64_t GroupSize(const AxisList& axes) const;

  // Position of the axis called `name`. Error: there is none (with the nearest name).
  absl::StatusOr<int> FindAxis(std::string_view name) const;

  // REQUIRES: 0 <= device < num_devices(). Law: DeviceAt(Coordinate(d)) == d.
  Coordinates Coordinate(int64_t device) const;
  int64_t CoordinateOn(int axis, int64_t device) const {
    return device / stride(axis) % rep_->axes[axis].size;
  }
  int64_t DeviceAt(std::span<const int64_t> coordinate) const;

  std::string ToString() const;                          // "[batch=4, model=2]"
  std::string AxesToString(const AxisList& axes) const;  // "(batch,model)"

  bool operator==(const Mesh& other) const { return rep_ == other.rep_ || rep_->axes == other.rep_->axes; }

 private:
  struct Rep {
    std::vector<Axis> axes;
    std::vector<int64_t> strides;
    int64_t num_devices = 1;
  };
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
