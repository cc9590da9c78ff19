// A Placement says which domain holds which devices of a mesh.
//
// A *domain* is one memory and the processors that use it: the CPUs of a process, or one GPU. The domains of
// a placement hold equally many devices each, with consecutive numbers: a box of the mesh. Where a domain
// ends inside an axis, the mesh is cut there. Then every axis lies *within* domains or *across* them:
//
//   Mesh mesh = Mesh::Parse("batch=4,model=2").value();
//   Placement halves = Placement::Create(mesh, 2).value();   // devices 0 to 3 and 4 to 7
//   halves.mesh()      [batch=2*2, model=2]
//   halves.across()    (batch:(1)2)                          // the first axes, as devices are row-major
//   halves.within()    (batch:(2)2,model)
//
// A placement is an immutable value; it may be shared between threads.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

class Cluster;

class Placement {
 public:
  // One domain, which holds all devices.
  explicit Placement(Mesh mesh = Mesh()) : mesh_(std::move(mesh)) { FindAcross(); }

  // `num_domains` domains, in the order of the devices. Errors: `num_domains` is below 1; a domain would not
  // be a box of devices; the mesh is cut in a way that does not fit; Mesh::Cut's.
  static absl::StatusOr<Placement> Create(const Mesh& mesh, int64_t num_domains);
  // One domain per process that holds devices (mesh/cluster.h): process p has domain p. Errors: the processes cannot
  // share the devices evenly; else as above.
  static absl::StatusOr<Placement> Create(const Mesh& mesh, const Cluster& cluster);

  // The mesh, cut where domains end inside an axis.
  const Mesh& mesh() const { return mesh_; }
  int64_t num_domains() const { return num_domains_; }
  int64_t devices_per_domain() const { return mesh_.num_devices() / num_domains_; }
  // across(): the axes along which the domain changes. within(): the others. Axes of size 1 are in neither.
  AxisSet across() const { return across_; }
  AxisSet within() const { return within_; }

  // The domain that holds `device`, and the first device of a domain.
  // Laws: DomainOf(d) == DomainOf(e) if and only if d and e have the same coordinates on across();
  // DomainOf(FirstDevice(i)) == i.
  int64_t DomainOf(int64_t device) const { return device / devices_per_domain(); }
  int64_t FirstDevice(int64_t domain) const { return domain * devices_per_domain(); }

  std::string ToString() const;  // "2 domains of 4 devices on [batch=2*2, model=2]"

  bool operator==(const Placement& other) const {
    return num_domains_ == other.num_domains_ && mesh_ == other.mesh_;
  }

 private:
  Placement(Mesh mesh, int64_t num_domains) : mesh_(std::move(mesh)), num_domains_(num_domains) {
    FindAcross();
  }
  void FindAcross();

  Mesh mesh_;
  int64_t num_domains_ = 1;
  AxisSet across_, within_;
};

// One domain of a placement: which devices are here.
class Domain {
 public:
  // The only domain, with all devices of the mesh.
  explicit Domain(const Mesh& mesh = Mesh()) : Domain(Placement(mesh), 0) {}
  // REQUIRES: 0 <= index < placement.num_domains().
  Domain(Placement placement, int64_t index) : placement_(std::move(placement)), index_(index) {}

  const Placement& placement() const { return placement_; }
  const Mesh& mesh() const { return placement_.mesh(); }
  int64_t index() const { return index_; }
  bool is_only() const { return placement_.num_domains() == 1; }
  int64_t first_device() const { return placement_.FirstDevice(index_); }
  int64_t num_devices() const { return placement_.devices_per_domain(); }
  bool Holds(int64_t device) const { return placement_.DomainOf(device) == index_; }

  bool operator==(const Domain&) const = default;

 private:
  Placement placement_;
  int64_t index_ = 0;
};

}  // namespace meshwork
