// How fast the devices of a mesh compute and reach each other. This is all that the compiler's cost model
// knows about the machine.
//
//   {"axes": {"host":   {"bandwidth": 12.5e9, "latency": 2e-5},
//             "device": {"bandwidth": 150e9,  "latency": 3e-6}},
//    "flops": 1e14}
//
// The α–β model (Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994): a message of b
// bytes takes latency + b / bandwidth. A collective over several axes is as slow as the slowest of them,
// since its ring or tree passes over all of them. An axis may be described by its parts instead: "x:(1)2" and
// "x:(2)4" for an axis of 8 that consists of two hosts of four devices.
//
// A Topology is an immutable value, cheap to copy and safe to share between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/mesh/mesh.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

struct Link {
  double bandwidth = 0;  // bytes per second that one device sends along the axis while all devices do
  double latency = 0;    // seconds until a message of no bytes has arrived

  double Seconds(int64_t messages, double bytes) const {
    return static_cast<double>(messages) * latency + bytes / bandwidth;
  }
  bool operator==(const Link&) const = default;
};

// The smaller bandwidth and the longer latency of the two.
Link Slowest(const Link& a, const Link& b);

class Topology {
 public:
  static constexpr double kAssumedFlops = 1e11;
  static constexpr Link kAssumedLink = {.bandwidth = 1e10, .latency = 1e-5};

  struct AxisLink {
    std::string axis;  // a name as Mesh::Cut reads it
    Link link;
  };

  // The assumed topology: 10 GB/s and 10 µs on every axis of every mesh, 100 GFLOP/s. Nothing is measured:
  // its times compare programs and predict nothing.
  Topology() = default;

  // The links of `mesh`, by axes or by all parts of an axis. Errors: an axis or part that the mesh does not
  // have, or that is named twice; devices that differ only along an axis or part that no link names; a
  // bandwidth or `flops` that is not positive, a latency that is negative, or any of them not finite.
  static absl::StatusOr<Topology> Create(const Mesh& mesh, const std::vector<AxisLink>& links,
                                         double flops = kAssumedFlops);

  // Reads the form above; "flops" may be left out. Errors: those of Create; JSON of another form, with the
  // place.
  static absl::StatusOr<Topology> FromJson(const Mesh& mesh, const nlohmann::json& json);
  // As FromJson, for a text. Errors: also, the text is no JSON.
  static absl::StatusOr<Topology> Parse(const Mesh& mesh, std::string_view text);

  // Errors: this is the topology of another mesh.
  absl::Status CheckDescribes(const Mesh& mesh) const;

  // The link of each axis of `mesh`. REQUIRES: `mesh` is the mesh given to Create, cut in any way
  // (CheckDescribes).
  std::vector<Link> LinksOf(const Mesh& mesh) const;

  double flops() const { return rep_ == nullptr ? kAssumedFlops : rep_->flops; }  // of one device, per second
  bool is_assumed() const { return rep_ == nullptr; }

  bool operator==(const Topology& other) const;

 private:
  struct Rep {
    Mesh mesh;                // cut where the links' names ask for it
    std::vector<Link> links;  // per axis
    double flops;
  };
  std::shared_ptr<const Rep> rep_;  // null: the assumed topology
};

}  // namespace meshwork
