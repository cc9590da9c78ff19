// Evaluation: what a model is worth on a data set, as means over its examples.
//
//   Evaluation result{600, Evaluate(session, spec).value()};
//   result.ToString();                                             // ({"loss": 0.2231, "accuracy": 0.94, "global_step": 600})
//   AppendResult(ResultsFile("runs/a", ""), result);               // a line of JSON
//
// Thread safety: values; a function uses its session as the session's thread does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/session.h"
#include "meshwork/train/fit/history.h"
#include "meshwork/train/fit/train_spec.h"

namespace meshwork {

struct Evaluation {
  int64_t global_step = 0;
  Metrics metrics;

  // "loss" first, then the other metrics by name, then the step.
  std::string ToString() const;
  // "accuracy = 0.94, global_step = 600, loss = 0.2231".
  std::string ToDict() const;
  bool operator==(const Evaluation&) const = default;
};

// The program of a mode. Errors: the mistakes that were recorded in it; it has no scalar output "loss".
absl::StatusOr<Graph> BuildModel(const ModelFn& model, Mode mode);

// The scalars among the outputs of a step.
Metrics ScalarsOf(const StepResult& result);

// The mean of each scalar output over the examples of the spec; outputs of metrics (train/nn/metrics.h) are computed
// over all examples, and the metrics' sums are put back afterwards. All processes of the session must call it. Errors:
// those of Session::Accumulate and of Dataset::Batches.
absl::StatusOr<Metrics> Evaluate(Session& session, const EvalSpec& spec);

// `config`, with a default clock and log where these are null.
RunConfig WithDefaults(RunConfig config);

// The file of an evaluation's results: "runs/a/eval/results.jsonl", or "runs/a/eval_NAME/results.jsonl".
std::string ResultsFile(const std::string& model_dir, const std::string& name);
// Adds {"global_step":600,"accuracy":0.94,"loss":0.2231} to the file as a line; makes the file, and its folder, where
// they are missing. At every moment the file consists of whole lines. Errors: those of the system.
absl::Status AppendResult(const std::string& path, const Evaluation& result);
// Logs "Saving dict for global step 600: …" and appends the result to its file. A failure to write is logged, and is no
// error.
void SaveResult(const Evaluation& result, const EvalSpec& spec, const RunConfig& config);

// Evaluates what a session trains. If the model's programs of both modes compute the same outputs in the same way, the
// training session itself evaluates; else a second session does, and each evaluation begins with a copy of the
// training's variables.
class EvaluationHere {
 public:
  // `training` must outlive it. All processes call it and Run alike. Errors: a variable that the training does not
  // have, or has with another type or shape; those of BuildModel and Session::Create.
  static absl::StatusOr<EvaluationHere> Create(const ModelFn& model, const Graph& trained, Session& training,
                                               const SessionOptions& options);
  // Errors: those of Evaluate.
  absl::StatusOr<Metrics> Run(const EvalSpec& spec);
  bool has_own_session() const { return own_.has_value(); }

 private:
  explicit EvaluationHere(Session& training) : training_(&training) {}

  Session* training_;
  std::optional<Session> own_;
};

// Whether both programs compute their outputs in the same way; their updates may differ.
bool ComputeTheSame(const Graph& a, const Graph& b);

}  // namespace meshwork
