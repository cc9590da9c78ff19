// Session: a compiled program with its variables.
//
//   Session session = Session::Create(graph).value();      // partition, plan memory, initialize
//   fmt::print("{}", session.Explain());                   // every collective, and why it is there
//   double loss = session.Run({{"x", images}, {"y", labels}})->scalar("loss").value();
//
// Run accepts a shorter leading batch than the program was written for: the program is compiled for this
// batch size (see ops/control/rebatch.h) and kept, as long as it is among the last ones that were used
// (SessionOptions::max_programs). Predict needs programs for a few sizes only.
//
// If the devices lie in several domains (SessionOptions::executor.transport), each domain has a session of
// its own, made from the same graph and options. All of them call Create, Run, Evaluate, Predict, Bind, Save and
// Restore in the same order, with tensors of the same shapes, and Get of a variable whose blocks lie in several
// domains. Each domain reads from a whole feed the rows that its devices take, and RowsHere says which rows these are.
// If one domain cannot go on, for example because a feed is missing, or if two domains give different batch sizes, the
// call fails in all of them and may be made again. Set acts on one domain only.
//
// A session that was moved from, or whose Remesh failed halfway, gives errors, empty programs and no names. If a
// process forks between two steps, the child's session goes on with threads and memory of its own; unless there are
// several domains: then Run, Evaluate, Predict, Bind, Get and Set fail in the child, as do its steps (base/fork.h). A
// session on a GPU fails there in every call: the GPU is the parent's.
//
// Thread safety: a session serves one call at a time, of any thread; its programs run on worker threads of its own. A
// call that begins while another one runs, in another thread or in a kernel of a user's op, fails with
// FailedPrecondition and does nothing; so does the Run of a BoundStep. Functions that return no status are not watched,
// and have to be called while no other call runs, too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/base/one_caller.h"
#include "meshwork/base/random.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/program.h"
#include "meshwork/runtime/exec/bound_step.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor_options.h"
#include "meshwork/runtime/exec/profile.h"
#include "meshwork/runtime/exec/row_range.h"
#include "meshwork/runtime/exec/step_record.h"
#include "meshwork/runtime/exec/trace.h"
#include "meshwork/runtime/plan/predict.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/session/remesh.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_index.h"

namespace meshwork {

class Backend;
class CompiledPrograms;
class DataAgreement;
class StagedFeeds;
struct DomainState;
struct LoadedWeights;
struct LoadWeightsOptions;
struct SavedWeights;
struct SaveProgramOptions;
struct SaveWeightsOptions;

struct SessionOptions {
  // The hardware that computes and holds the variables: "cpu", the cores of this process; "cuda" or "cuda:0", a GPU of
  // this machine (docs/gpu.md); "pjrt:PATH" or "tpu", the devices of a PJRT plugin (docs/tpu.md). All devices of this
  // domain are there; with one domain, these are all of the mesh, which stays as the program says.
  std::string devices = "cpu";
  // A backend of the caller's (runtime/exec/backend.h), which several sessions may share; null: a new one, as `devices`
  // says. If it is given, `devices`, `workers` and `own_cores` mean nothing.
  std::shared_ptr<Backend> backend = nullptr;
  int workers = 0;  // threads of a CPU, at most 1024; 0: one per core this process may use
  // If there are as many workers as cores, each worker except the caller is bound to a core of its own
  // (see runtime/cpu/worker_pool.h).
  bool own_cores = true;
  int64_t seed = DefaultSeed();  // of the initializers
  // With several domains: gather the outputs that lie in several of them and that executor.distributed does not name.
  // Otherwise a program with such outputs is refused.
  bool gather_outputs = false;
  // At most so many programs are kept besides the full step: for other numbers of rows, and for outputs outside of training.
  // The one that was not used for the longest time makes room for a new one, and is compiled again when it is needed.
  // Each takes the memory of its values (Session::kept_programs) and some hundred bytes to kilobytes per op. At least 1.
  int max_programs = 16;
  CompileOptions compile = {};
  ExecutorOptions executor = {};
  // Taken where a program is among them; null: all programs are compiled.
  std::shared_ptr<const CompiledPrograms> compiled = nullptr;
};

struct ExplainOptions {
  // Also looks for single changes of a layout that would make the step cheaper: compiles some other programs
  // (spmd/auto/cheaper_layouts.h).
  bool search = false;
};

using Feeds = std::map<std::string, Tensor>;

// What a session has compiled for its steps.
struct KeptPrograms {
  int64_t made = 0;   // since it was created or remeshed: the full step, and each program when it is compiled
  int64_t kept = 0;   // of these
  int64_t bytes = 0;  // that the kept ones hold for values and constants: ExecutorMemory without variables
};

// The outputs of a step.
class StepResult {
 public:
  explicit StepResult(std::map<std::string, Tensor> outputs,
                      std::map<std::string, DTensor> distributed_outputs = {})
      : outputs_(std::move(outputs)), distributed_outputs_(std::move(distributed_outputs)) {}
  // Errors: there is no such output (with the nearest name); scalar: it has more than one element.
  absl::StatusOr<Tensor> Get(std::string_view name) const;
  absl::StatusOr<double> scalar(std::string_view name) const;
  const std::map<std::string, Tensor>& outputs() const { return outputs_; }
  // The outputs that options.executor.distributed names: this domain's blocks of them.
  const std::map<std::string, DTensor>& distributed_outputs() const { return distributed_outputs_; }

 private:
  std::map<std::string, Tensor> outputs_;
  std::map<std::string, DTensor> distributed_outputs_;
};

class Session {
 public:
  // Compiles `graph`, plans its memory and runs the initializers. `graph` need not outlive the session. Errors: those
  // of Compile; a program that has nodes but neither gives an output nor updates a variable; too many devices or
  // workers for one process; not enough memory; those of MakeBackend (session/session_backend.h), and of the
  // backend, for what it does not have. Throws std::system_error if the system refuses a thread.
  static absl::StatusOr<Session> Create(const Graph& graph, SessionOptions options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // A session of another program over this session's variables: sampling beside training, a cache that one program fills
  // and another one reads. Variables of `graph` that have a name of this session's are the same memory, and stay where
  // they lie, whatever layouts `graph` gives them; its other variables are new, and initialized. Backend, domains and
  // options are this session's, but for those that name inputs and outputs (executor.distributed, executor.in_place) and
  // those of a training's step: executor.atomic, so that there is no Undo, executor.record, and in `compile` dump,
  // cut_mesh and shard_weight_update. Either session may end first. Together they serve one call at a time, as one
  // session does (thread safety above), BoundSteps included. As long as both live, Remesh of either fails. All domains
  // call Share alike. Errors: those of Create; a variable that has another type here; another mesh than this program's;
  // a `graph` that updates shared variables, where the session that made them has options.executor.atomic.
  //
  //   Session sampler = session.Share(SamplerGraph(mesh)).value();
  absl::StatusOr<Session> Share(const Graph& graph) const;

  // One step: computes the outputs and updates the variables. Errors, which leave the variables as they were:
  // a feed that is missing, unknown, or of another type or shape; those of Compile, if a shorter batch comes
  // for the first time and its program exceeds the budgets of options.compile. Other errors come within a step: memory
  // runs out (ResourceExhausted), or another domain is lost. With options.executor.atomic the variables are as they
  // were after these, too; without, they hold no usable values.
  absl::StatusOr<StepResult> Run(const Feeds& feeds);
  // The same step, and the same numbers. Tensors of `feeds` that `staged` holds (session/staged_feeds.h) are not
  // copied to the device again, so they must not have changed since. Errors, besides: `staged` is of a session with
  // another backend.
  absl::StatusOr<StepResult> Run(const Feeds& feeds, const StagedFeeds& staged);
  // Makes an empty object to stage feeds of this session in, also after Remesh.
  absl::StatusOr<StagedFeeds> NewStagedFeeds() const;
  // The outputs as they are outside of training: nothing is updated, and WhenTraining (ops/cast.h) gives its second
  // operand. `outputs`: their names; all outputs if there are none. Only what they need is computed, and only the
  // inputs that they need have to be fed: predictions need no labels. Other inputs of the program may be fed, too; they
  // are ignored. Errors: there is no such output; those of Run.
  //
  //   session.Evaluate({{"x", images}}, {"logits"})
  absl::StatusOr<StepResult> Evaluate(const Feeds& feeds, const std::vector<std::string>& outputs = {});
  // Like Evaluate, but the metrics that the outputs depend on (train/nn/metrics.h) count this batch, as in Run: their
  // sums, the variables "metrics/…", are updated, and no other variable is. So metrics are right over a data set that
  // is only evaluated: ResetMetrics first, then the outputs of the last batch are those of all batches. Errors: those
  // of Evaluate.
  absl::StatusOr<StepResult> Accumulate(const Feeds& feeds, const std::vector<std::string>& outputs = {});
  // Like Evaluate, for any number of rows: more than the program was written for are fed in parts, and the outputs are
  // joined along dim 0. Inputs whose dim 0 is not the batch are the same for all parts. Errors, with more rows than the
  // program's: an output without a row of its own for each of the batch's, such as a mean; one that stays distributed
  // (options.executor.distributed); that of Rebatch (ops/control/rebatch.h).
  // If the outputs keep the rows of the batch apart (ops/control/independent_rows.h), only programs for a few sizes are
  // compiled, for 100 rows 100, 25, 7, 2 and 1. Other numbers of rows are fed in batches of these sizes, which have room
  // for less than twice the rows; copies of the last row fill the rest. So the numbers are those of Evaluate, but for
  // rounding. Otherwise, and with several domains, each number of rows has a program of its own.
  absl::StatusOr<StepResult> Predict(const Feeds& feeds, const std::vector<std::string>& outputs = {});

  // The same as Run, bound to this memory: the step may be run many times, each time on the current contents of the
  // feeds, and allocates nothing. The session must outlive it. Errors: those of Run.
  absl::StatusOr<BoundStep> Bind(const Feeds& feeds);
  // The same, bound also to DTensors: the inputs and outputs that options.executor.distributed names. Missing
  // outputs get new memory. An output of one step may be the input of the next, without a copy. Errors: those
  // of Executor::Bind.
  absl::StatusOr<BoundStep> Bind(StepMemory memory);
  // The rows of a batch of `rows` rows that this domain reads: the smallest range that covers them in every
  // input whose dim 0 is the batch. The other rows of a feed are not read and may hold anything
  // (BatchesOptions::rows). All rows if there is one domain; if dim 0 of such an input is OPEN, or is not sharded
  // between domains; if the program takes fewer rows. Costs little, and does not communicate.
  // Law: the ranges of all domains cover all rows.
  RowRange RowsHere(int64_t rows) const;
  // Zeros for the distributed input, or output, of this name in a full step. Error: there is no such input or output.
  absl::StatusOr<DTensor> NewFeed(std::string_view name) const;
  absl::StatusOr<DTensor> NewOutput(std::string_view name) const;

  // The whole value of a variable, whatever its layout. Errors: there is no such variable; those of Run, if
  // other domains hold blocks of it.
  absl::StatusOr<Tensor> Get(std::string_view variable) const;
  // Errors: there is no such variable; another type or shape.
  absl::Status Set(std::string_view variable, const Tensor& value);
  std::vector<std::string> variable_names() const;
  // The layout of a variable: the one that it was pinned to, or that the compiler chose. SpecOf (layout/layout.h) makes
  // it an argument for Var or Input of another program. Error: there is no such variable.
  absl::StatusOr<Layout> LayoutOf(std::string_view variable) const;
  // The part of a variable that each device of this domain holds: its box in the whole tensor, and a copy of its
  // elements.
  //
  //   for (const Shard& shard : session.Shards("w").value())
  //     fmt::print("device {}: w{} =\n{}\n", shard.device, BlockToString(shard.box), shard.tensor.ToString());
  //
  // Error: there is no such variable.
  absl::StatusOr<std::vector<Shard>> Shards(std::string_view variable) const;
  // All variables by name, those of optimizers, too: the blocks that this domain holds, in the session's own memory,
  // which is a GPU's if the session is on one (DTensor::memory). A value that is written there between two steps is the
  // variable's new value. Keeps the memory alive. With options.executor.atomic the values lie elsewhere after each
  // step; the tensors follow them.
  std::map<std::string, DTensor> State() const;

  // The number of steps that have updated the variables, by Run or bound, added to the number given to set_steps_done.
  // So a session that is restored from step 300 counts on from there.
  int64_t steps_done() const;
  void set_steps_done(int64_t steps);
  // Sets the variables back to their values before the last step (runtime/exec/step_record.h), and steps_done() back by
  // one; in this domain only. Error: FailedPrecondition, if these values are not there: without
  // options.executor.atomic, after another step that failed, or after another Undo.
  absl::Status Undo();
  // The record that counts the steps, for holders of State() that outlive the session. Remesh makes another one. Null
  // if the session was moved from.
  std::shared_ptr<StepRecord> record() const;

  // Writes a checkpoint of all variables into the folder `dir`, made where it is missing, and waits for it
  // (storage/checkpoint_writer.h). Checkpoints of other steps stay. It succeeds in all domains, which must see the same
  // folder, or in none. CheckpointManager (train/fit/checkpoints.h) writes checkpoints while a training goes on.
  // Errors: those of CheckpointWriter.
  absl::Status Save(const std::string& dir, const CheckpointNote& note = {}) const;
  // Sets all variables, whatever their layouts were when they were saved: each domain reads the blocks that it holds.
  // `path`: a checkpoint, or a folder of checkpoints, of which the newest usable one is taken; the reasons why newer
  // ones are not usable go to standard error. Domain 0 chooses, so all domains restore the same one. Returns its note.
  // Errors, in all domains: there is no checkpoint; a hash is not that of the file; that of Checkpoint::CheckFits.
  // After these errors the variables are as they were. If a file cannot be read after all, they have no usable values.
  absl::StatusOr<CheckpointNote> Restore(const std::string& path, const RestoreOptions& options = {});
  // The variables of this domain, and its transport to the others (session/save_restore.h).
  DomainState Here() const;
  // Moves this state to another mesh and other layouts, without disk:
  //   session.Remesh(Mesh::Parse("batch=4,model=2").value(), {{"*/kernel", {UNSHARDED, "model"}}});
  // The mesh may have more or fewer devices; the domains stay the same, and each has to hold some. The program is that
  // of the session, written for `mesh` by OnOtherMesh (session/remesh.h), and compiled anew. No initializer is
  // run. Variables move one after the other, and an old one is freed as soon as its new one is there
  // (RemeshReport::peak_bytes). BoundSteps and DTensors that the session gave out are of the old mesh: they are of no
  // more use, and keep their memory.
  // All domains call it alike. Errors, after which the session is as it was, in all domains: those of OnOtherMesh and
  // of Create; another session shares the variables; the domains cannot share the mesh; more memory than
  // options.memory_budget is needed. Errors after which the state is lost: memory runs out, or another domain fails,
  // while the state moves.
  absl::StatusOr<RemeshReport> Remesh(const Mesh& mesh, const NamedLayouts& layouts = {},
                                      const RemeshOptions& options = {});
  // The same with a program of the user's, which may differ in all but the names and types of its variables. Error,
  // besides, which leaves the session as it was: variables are missing, new or of another type; it names them all.
  absl::StatusOr<RemeshReport> Remesh(const Graph& graph, const RemeshOptions& options = {});

  // The program as Create or Remesh was given it.
  const Graph& graph() const;
  // The options that Create or Remesh was given for it, with the number of domains.
  const CompileOptions& compile_options() const;
  // The local program of a full step, and the memory that it needs.
  const Program& program() const;
  const ExecutorMemory& memory() const;
  KeptPrograms kept_programs() const;
  // Every collective of a full step: the user's line, why it is there, bytes; and the ops whose tensors disagree about
  // a layout. program().decisions says which op gave each tensor its layout.
  std::string Explain(const ExplainOptions& options = {}) const;
  // The time of a full step as a topology predicts it (runtime/plan/predict.h). Error: the topology is of another mesh.
  absl::StatusOr<StepPrediction> PredictTime(const Topology& topology) const;
  // Where the time of the full steps went (runtime/exec/profile.h), if options.executor.profile asks for it.
  meshwork::Profile Profile() const;
  // When each instruction ran in the last full steps (runtime/exec/trace.h), as many as
  // options.executor.trace_steps.
  meshwork::Trace Trace() const;

 private:
  friend class DataAgreement;  // adds to the message that domains exchange before each step
  // Calls of the session (session/load_weights.h, session/save_weights.h, session/saved/saved_program.h).
  friend absl::StatusOr<LoadedWeights> LoadWeights(Session& session, const std::string& path,
                                                   const LoadWeightsOptions& options);
  friend absl::StatusOr<SavedWeights> SaveWeights(const Session& session, const std::string& path,
                                                  const SaveWeightsOptions& options);
  friend absl::StatusOr<std::string> SaveProgram(const Session& session, const std::string& dir,
                                                 const SaveProgramOptions& options);
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  // A call of the public function `call`. Errors: another one runs; there is no session any more.
  absl::StatusOr<OneCaller::Call> Begin(const char* call) const;
  // Get, within a call.
  absl::StatusOr<Tensor> TryGet(std::string_view variable) const;
  static absl::StatusOr<Session> TryCreate(const Graph& graph, SessionOptions options);
  absl::StatusOr<Session> TryShare(const Graph& graph) const;
  absl::StatusOr<RemeshReport> TryRemesh(const absl::StatusOr<Graph>& graph, const RemeshOptions& options);
  std::shared_ptr<OneCaller> caller_;  // null once the session was moved from
  std::unique_ptr<Impl> impl_;         // null as well, and after a Remesh that failed
};

}  // namespace meshwork
