// The data that a collective moves between domains (mesh/placement.h).
//
// Every domain plans the transfers of all domains, so that sender and receiver know what is in a message
// without asking. An element of an instance (runtime/plan/sharing.h) goes to another domain at most once, even if
// several devices there read it or several results need it.
//
//   all_gather on [x=2*2], 2 domains, of f32[2] of f32[8] {x}:
//   domain 0 receives the instances of devices 2 and 3, whole; its result reads these and its own two
//
// Received data lies in *ghosts*: copies of instances that devices of other domains hold, with only the
// elements that are needed.
//
// An all_reduce of one term from each of D >= 3 domains is made in two rounds, unless it is small: each domain adds up
// one D-th of it, and sends that to the others. A domain then sends 2 (D - 1) / D of a term instead of D - 1 (Thakur,
// Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005, section 4.5). Each
// element is added up in one place, in the order of the devices: the bits are those of one round. Pure functions of the
// program; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/transfer.h"

namespace meshwork {

// Elements [begin, end) of a buffer.
struct ElementRange {
  int64_t begin = 0, end = 0;
  bool operator==(const ElementRange&) const = default;
};

// `count` ranges of `size` elements, each `step` elements after the one before.
struct ElementRuns {
  int64_t begin = 0, size = 0, count = 0, step = 0;
};
// The ranges, in order, as few runs. Law: they have the same elements in the same order.
std::vector<ElementRuns> RunsOf(const std::vector<ElementRange>& ranges);

// The elements of one instance of a value that one domain sends to another.
struct Crossed {
  int64_t from_domain = 0, to_domain = 0;
  ValueId value = kNoValue;
  int64_t device = 0;                  // a device that holds the instance; of an operand, the lowest
  std::vector<ElementRange> elements;  // ascending, apart from each other

  int64_t num_elements() const;
};

// One collective, as one domain sees it.
struct Crossing {
  // The transfers that fill the results here. A source of -1 - k is the ghost of received[k].
  std::vector<Transfer> transfers;
  std::vector<int64_t> devices;         // per transfer: the device that it is for
  std::vector<Crossed> received, sent;  // sorted by the other domain, then in an order that both know
  // Whether this is a sum in two rounds. In the second round parts of results cross, in the same order; their `device`
  // is a device of this domain. Every domain takes part in both rounds, even if nothing crosses to it or from it.
  bool takes_two_rounds = false;
  std::vector<Crossed> received_parts, sent_parts;
};

class CrossingPlanner {
 public:
  // `axes`: per value, the axes that it varies over (VaryingAxes). `latency_bytes`: of the transport.
  CrossingPlanner(const Graph& local, const Domain& domain, std::vector<AxisSet> axes, int64_t latency_bytes);

  // Plans collective `node`. `values`: where the instances of this domain lie. Errors: those of
  // PlanCollective; every domain gets the same error.
  absl::StatusOr<Crossing> Plan(int node, const std::vector<ValueBuffers>& values);

 private:
  struct Source {
    ValueId value;
    int64_t instance;  // numbered over all domains
  };

  // A transfer that fills an instance of result r; sources are numbered as in everywhere_.
  struct Filling {
    int r = 0;
    Transfer transfer;
  };
  using Fillings = std::vector<Filling>;

  // The transfers that fill result r of `node` in a domain.
  absl::StatusOr<std::vector<Transfer>> PlanFor(int64_t domain, int node, int r);
  // The data of `fillings` that comes from other domains.
  std::vector<Crossed> MovedTo(int64_t domain, int node, const Fillings& fillings) const;
  // The sum fillings[i] as another domain makes it; nothing if it is made of other terms there.
  static const Filling* SameIn(const Fillings& other, const Fillings& fillings, size_t i);
  // The domain that source `from` belongs to.
  int64_t MakerOf(int node, BufferId from) const;
  // The index of the only source of the filling that the domain holds; -1 if it holds none or several.
  int64_t OwnSource(int64_t domain, int node, const Filling& filling) const;
  // Whether the sums of `node` are made in two rounds. `fillings`: per domain.
  bool TakesTwoRounds(int node, const std::vector<Fillings>& fillings) const;
  // Adds the second round.
  void PlanParts(int node, const std::vector<Fillings>& fillings, const std::vector<ValueBuffers>& values,
                 Crossing& crossing) const;
  // Of each sum of the domain, the part that the domain adds up itself.
  Fillings PartsOf(int64_t domain, int node, const Fillings& fillings) const;
  Source SourceOf(int node, BufferId id) const;
  int64_t DeviceOf(const Source& source) const;  // the lowest that holds it
  // The device of `domain` that holds the same instance as `device`; -1 if there is none.
  int64_t HolderIn(int64_t domain, ValueId value, int64_t device) const;
  // The buffer of `source` in this domain, or that of its ghost.
  BufferId Here(const Source& source, const std::vector<ValueBuffers>& values,
                const std::vector<Crossed>& received) const;

  const Graph& local_;
  const Domain domain_;
  const std::vector<AxisSet> axes_;
  const int64_t latency_bytes_;
  std::vector<ValueBuffers> everywhere_;  // per value: all its instances, numbered through
};

}  // namespace meshwork
