// MetricTotals: the metrics (train/nn/metrics.h) of steps that several workers made.
//
//   MetricTotals totals(graph);
//   SplitTraining(totals.Counting(), …)            // a step of a worker also returns what it adds to the metrics' sums
//   totals.Add(result);                            // in the chief, of each step
//   totals.Values(options)                         // {"accuracy": 0.94}
//
// The sums on the servers do not help: a worker has those of the moment when it pulled, and a server that continues
// from a checkpoint has those of the checkpoint. What steps add can be added in any order.
//
// Thread safety: one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/session.h"
#include "meshwork/train/fit/history.h"
#include "meshwork/train/nn/metrics.h"

namespace meshwork {

class MetricTotals {
 public:
  // `graph` must outlive it.
  explicit MetricTotals(const Graph& graph);

  // The graph with the outputs names().
  Graph Counting() const;
  // By sum: the output that gives the amount that a step adds to it.
  const std::vector<std::string>& names() const { return names_; }

  // Error: an output is missing, or of another type.
  absl::Status Add(const StepResult& result);
  void Clear() { totals_.clear(); }
  // The scalar outputs that are computed of the sums alone, at the totals; none if nothing was added. Outputs that also
  // read something else, such as the product of a metric with a weight, are left out. Errors: those of Session::Create
  // and Session::Evaluate.
  absl::StatusOr<Metrics> Values(const SessionOptions& options);
  // The totals by variable; none if nothing was added.
  const std::map<std::string, Tensor>& totals() const { return totals_; }

 private:
  // A program with the outputs, whose variables are the sums.
  Graph OutputsOfSums() const;

  const Graph& graph_;
  std::vector<MetricSum> sums_;
  std::vector<std::string> names_, variables_;  // by sum
  std::map<std::string, Tensor> totals_;
  std::unique_ptr<Session> session_;  // of OutputsOfSums; null until it is needed
};

}  // namespace meshwork
