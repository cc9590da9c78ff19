// The data that a collective moves between domains (mesh/placement.h).
//
// Every domain plans the transfers of all domains, so that sender and receiver know what is in a message
// without asking. An element of an instance (runtime/sharing.h) goes to another domain at most once, however
// many devices there read it, and for however many results.
//
//   all_gather on [x=2*2], 2 domains, of f32[2] of f32[8] {x}:
//   domain 0 receives the instances of devices 2 and 3, whole; its result reads these and its own two
//
// Received data lies in *ghosts*: copies of instances that devices of other domains hold, with only the
// elements that are needed. Pure functions of the program; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/buffers.h"
#include "meshwork/runtime/transfer.h"

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
  int64_t device = 0;                  // the lowest one that holds the instance; from_domain holds it
  std::vector<ElementRange> elements;  // ascending, apart from each other

  int64_t num_elements() const;
};

// One collective, as one domain sees it.
struct Crossing {
  // The transfers that fill the results here. A source of -1 - k is the ghost of received[k].
  std::vector<Transfer> transfers;
  std::vector<int64_t> devices;         // per transfer: the device that it is for
  std::vector<Crossed> received, sent;  // by the other domain, ascending; then in an order that both know
};

class CrossingPlanner {
 public:
  // `axes`: per value, the axes that it varies over (VaryingAxes).
  CrossingPlanner(const Graph& local, const Domain& domain, std::vector<AxisSet> axes);

  // Plans collective `node`. `values`: where the instances of this domain lie. Errors: those of
  // PlanCollective; every domain gets the same error.
  absl::StatusOr<Crossing> Plan(int node, const std::vector<ValueBuffers>& values);

 private:
  struct Source {
    ValueId value;
    int64_t instance;  // of all domains
  };

  // The transfers that fill result r of `node` in a domain; sources are numbered as in everywhere_.
  absl::StatusOr<std::vector<Transfer>> PlanFor(int64_t domain, int node, int r);
  // The data of `transfers` that comes from other domains.
  std::vector<Crossed> MovedTo(int64_t domain, int node, const std::vector<Transfer>& transfers) const;
  Source SourceOf(int node, BufferId id) const;
  // The device of `domain` that holds the same instance as `device`; -1 if there is none.
  int64_t HolderIn(int64_t domain, ValueId value, int64_t device) const;
  // The buffer of `source` in this domain, or that of its ghost.
  BufferId Here(const Source& source, const std::vector<ValueBuffers>& values,
                const std::vector<Crossed>& received) const;

  const Graph& local_;
  const Domain domain_;
  const std::vector<AxisSet> axes_;
  std::vector<ValueBuffers> everywhere_;  // per value: all its instances, numbered through
};

}  // namespace meshwork
