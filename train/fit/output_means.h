// OutputMeans: the outputs of many steps as one number each.
//
//   OutputMeans means(session.graph());
//   for (…) means.Add(session.Run(feeds).value(), rows);
//   means.Values();                                        // {"accuracy": 0.94, "loss": 0.31}
//
// A scalar output is averaged over the examples, so that a short batch counts as much as it has rows. An output that
// depends on the sums of metrics (train/nn/metrics.h) is already a value over all batches: the last one stays.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/session.h"
#include "meshwork/train/fit/history.h"

namespace meshwork {

// The outputs of a program that depend on the sums of metrics.
std::set<std::string> MetricOutputs(const Graph& graph);

// The first input of a program that has dims: its dim 0 is the size of a batch. Empty, and 0: there is none.
struct LeadingInput {
  std::string name;
  int64_t rows = 0;
};
LeadingInput LeadingInputOf(const Graph& graph);
// How many examples the feeds of a step have: dim 0 of the first input that has dims and is fed; 1 if there is none.
int64_t ExamplesIn(const Graph& graph, const Feeds& feeds);

class OutputMeans {
 public:
  // `outputs`: which scalars; all if there are none.
  explicit OutputMeans(const Graph& graph, std::vector<std::string> outputs = {});

  void Add(const StepResult& result, int64_t examples);
  Metrics Values() const;
  int64_t examples() const { return examples_; }
  void Clear();

  // The sums so far, exactly, as a line of text.
  std::string Save() const;
  // Error: the text is not from Save.
  absl::Status Restore(std::string_view text);

 private:
  std::set<std::string> metrics_;
  std::vector<std::string> outputs_;
  int64_t examples_ = 0;
  Metrics sums_, last_;
};

// The sums of a session's metrics, set to 0 for an evaluation, and put back by End, or by the destructor.
class MetricsAside {
 public:
  // Errors: those of Session::Get and Session::Set.
  static absl::StatusOr<std::unique_ptr<MetricsAside>> Begin(Session& session);
  MetricsAside(const MetricsAside&) = delete;
  MetricsAside& operator=(const MetricsAside&) = delete;
  ~MetricsAside() { End().IgnoreError(); }
  absl::Status End();

 private:
  explicit MetricsAside(Session& session) : session_(session) {}

  Session& session_;
  Feeds sums_;  // by variable
};

}  // namespace meshwork
