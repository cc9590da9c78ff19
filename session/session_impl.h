// The parts of a session: its programs, compiled and ready to run, and the variables that they share. Only this room
// uses it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/base/exceptions.h"
#include "meshwork/base/fork.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/exec/state_move.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/session/session.h"
#include "meshwork/session/step_agreement.h"

namespace meshwork {

struct Session::Impl {
  // The backend is not there yet.
  Impl(const Graph& graph, SessionOptions options);

  // One compiled program, ready to run.
  struct Ready {
    Program program;
    std::unique_ptr<Executor> executor;
    int64_t used = 0;  // the larger, the later
  };

  enum class Mode : uint8_t {
    kTrain,
    kEvaluate,    // EvaluationGraph (session/session_graphs.h)
    kAccumulate,  // the same, and metrics count the batch
  };

  // Names one of the programs.
  struct Kind {
    int64_t rows = 0;  // the leading size
    Mode mode = Mode::kTrain;
    std::vector<std::string> outputs = {};  // of an evaluation, sorted; empty: all

    std::string ToString() const;  // "a step of 32 rows"
    auto operator<=>(const Kind&) const = default;
  };

  // Error: the GPU, if it is on one, belongs to the process that forked this one.
  absl::Status CheckGpuIsHere() const;
  // Error: other domains know only the process that forked this one.
  absl::Status CheckIsHere() const;
  // OK if this domain and all others can go on, with the same `value`.
  absl::Status AllGoOn(std::string_view what, const absl::Status& mine, std::string_view value) const;

  // OK if all domains can take this step, and are at one place of their data if they have places.
  absl::Status AllTakeStep(const absl::Status& mine, const Kind& kind) const;

  // ---- Programs.

  // The global program of all rows, and the same for `rows` of them.
  const Graph& GraphOf(Mode mode, const std::vector<std::string>& outputs);
  absl::StatusOr<Graph> GraphOf(const Kind& kind);
  absl::StatusOr<Program> CompileInAll(const Graph& global, const CompileOptions& compile, bool atomic) const;
  absl::StatusOr<Ready> Make(const Kind& kind);
  absl::StatusOr<Ready> Prepare(const Graph& global, const CompileOptions& compile,
                                const ExecutorOptions& executor_options);
  absl::StatusOr<Ready> Prepare(Program program, const ExecutorOptions& executor_options);
  // Whether the program of this kind is the full step's, as it is for an evaluation of all rows if the program updates
  // nothing and does nothing else in training.
  bool IsFullStep(const Kind& kind);
  // Leaves one program less than options.max_programs, besides the full step. A BoundStep keeps alive what it needs.
  void DropLeastUsed();
  // The full step.
  const Ready& full() const { return ready.at({.rows = BatchSize()}); }

  // The options for programs other than the full step. Only the full step is dumped; it decides how the mesh is cut and
  // which layout state has.
  CompileOptions ForOthers() const;
  ExecutorOptions ForStep() const;
  // For an evaluation, which may lack inputs and outputs of the step.
  ExecutorOptions ForEvaluation(const Graph& global) const;
  // For programs without the inputs and outputs of the step.
  ExecutorOptions Whole() const;

  // Sets the variables to their initial values; with `chosen`, only those of these names. Most are computed on the
  // session's backend, some on the host, which is faster for them (WhereToInitialize).
  absl::Status Initialize(const std::set<std::string>* chosen = nullptr);
  // Computes the values on the host, and copies them to the variables. The host holds them meanwhile.
  absl::Status InitializeOnHost(const Graph& init);

  // Lets the program gather the outputs that lie in several domains.
  absl::Status GatherOutputs();

  // ---- Batches.

  int64_t BatchSize() const;  // BatchRowsOf(graph)
  // Whether an argument of a program of all rows is an input of a batch.
  bool IsBatch(const Graph& global, const Argument& argument) const;
  // The leading size that the feeds of the program's batches agree on; 0 if they do not.
  int64_t FedRows(const Graph& global, const Feeds& feeds) const;
  // Errors: two feeds that are right otherwise have different numbers of rows.
  absl::Status CheckRowsAgree(const Graph& global, const Feeds& feeds) const;

  // ---- Steps.

  // A step on this memory, for the rows that are fed, with all outputs. Its program is compiled at the first such step.
  // Succeeds in all domains or in none.
  absl::StatusOr<BoundStep> Bind(StepMemory memory, Kind kind);
  absl::StatusOr<StepResult> Run(StepMemory memory);
  absl::StatusOr<StepResult> Evaluate(const Feeds& feeds, std::vector<std::string> outputs,
                                      Mode mode = Mode::kEvaluate);

  // ---- Predictions (session/predict.cc).

  absl::StatusOr<StepResult> Predict(const Feeds& feeds, std::vector<std::string> outputs);
  // How outputs are predicted in batches of other sizes than the rows that are fed.
  struct ApartRows {
    std::vector<int64_t> sizes = {};               // of the batches; empty: rows may depend on each other
    std::map<std::string, int64_t> elements = {};  // per output, as IndependentRows gives them
  };
  const ApartRows& ApartRowsOf(const std::vector<std::string>& outputs);
  // Whether each feed of a batch has the type that the program takes, but for the number of rows. REQUIRES: they have
  // rows.
  bool FitsButForRows(const Graph& global, const Feeds& feeds) const;
  // OK if a batch of more rows may be fed in parts: every output of the program has rows of its own for those of the
  // batch.
  absl::Status CheckHasRows(const Graph& global) const;
  // The feeds that an evaluation needs, without those that only the step needs.
  Feeds NeededFeeds(const Graph& global, const Feeds& feeds) const;
  // Error: there is no such output.
  absl::StatusOr<std::vector<std::string>> CheckOutputs(std::vector<std::string> outputs) const;

  // Copies of a tensor share its elements. Error: there is no such variable.
  absl::StatusOr<DTensor> Find(std::string_view variable) const;
  // A whole variable whose blocks lie in several domains, gathered by a program of its own.
  absl::StatusOr<Tensor> Gather(const std::string& name);

  // ---- Where things are.

  // Where this domain's devices are, on the mesh of the full step.
  Domain here() const { return HereOn(full().program.body.mesh()); }
  // REQUIRES: a program was compiled to this mesh.
  Domain HereOn(const Mesh& mesh) const;
  // The move of the variables to their layouts in `next`, whose full step is `program`. Errors: `next` cannot make that
  // step, as far as that is known before; more memory than options.memory_budget.
  absl::StatusOr<StateMove> PlanMove(const Impl& next, const Program& program,
                                     const RemeshOptions& remesh) const;

  const Graph asked;  // as the user wrote it
  Graph graph;        // its open variables as they lie
  SessionOptions options;
  Transport* const transport;  // null: there is one domain
  const std::shared_ptr<StepRecord> record;
  const ForkMark made;
  std::shared_ptr<Backend> backend;
  std::map<std::string, DTensor> variables;
  // Held by all sessions that share variables: whether the steps of the first one take effect as a whole
  // (options.executor.atomic).
  std::shared_ptr<const bool> family;
  std::map<std::pair<Mode, std::vector<std::string>>, Graph> evaluations;  // by their outputs
  std::map<std::vector<std::string>, bool> full_steps;  // whether evaluations are, by their outputs
  std::map<std::vector<std::string>, ApartRows> apart;  // by the outputs
  std::map<Kind, Ready> ready;
  int64_t uses = 0, programs_made = 0;
  std::map<std::string, Ready> gathers;  // by variable
  InputWaits input;                      // of the steps
  StepAgreement* agreement = nullptr;  // says to other domains where the steps' data are; null: nothing does
};

template <typename T>
std::vector<std::string> KeysOf(const std::map<std::string, T>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

// `Session: there is no output "losss"; did you mean "loss"?`
absl::Status NoSuchOfSession(std::string_view kind, std::string_view name,
                             const std::vector<std::string>& known);

}  // namespace meshwork
