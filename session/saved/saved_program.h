// Saved programs: a folder from which another program predicts, without the C++ of the model.
//
//   SaveProgram(session, "models/digits", {.functions = {{"predict", {"logits"}}}}).value();  // in the training
//
//   SavedProgram digits = SavedProgram::Load("models/digits").value();                       // in the other program
//   Tensor logits = digits.Predict({{"x", images}})->Get("logits").value();
//
// A folder has versions, 1, 2, 3, …, and the newest is loaded:
//
//   models/digits/2/program.json                  what is there, with hashes of all files; written last
//   models/digits/2/program.mw                    the program outside of training, as text (docs/text-format.md): what
//                                                 the functions' outputs need, and nothing of the optimizer
//   models/digits/2/plan-0.json                   what each device runs, with its proof (verify/certificate.h)
//   models/digits/2/weights/step-000000000300/    the variables that the program reads: a checkpoint (docs/checkpoints.md)
//
// A version is written under another name and renamed when it is complete. docs/saving.md is about all of this.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/layout_rules.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/session/session.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

struct SaveProgramOptions {
  // The outputs that each function gives. None: one function "predict", which gives all of them, and needs all inputs
  // that they need: labels, too, if one is the loss.
  std::map<std::string, std::vector<std::string>> functions = {};
  // For the plans that are saved; none: those of the session. Variables stay as they lie, and the plans are of one
  // domain: num_domains, cut_mesh and shard_weight_update are left out, as is dump.
  std::optional<CompileOptions> compile = {};
};

// Writes the next version into the folder `dir`, made where it is missing, and returns its path: what the functions
// compute outside of training, as Session::Predict does. Older versions stay. With several domains all call it alike;
// all must see the folder, and it succeeds in all or in none. If it fails, or the process is killed, no version is
// there in part.
// Errors: there is no such output, or none with a name; no input that is needed has the rows of the program's batch before
// all others; another job writes there; those of Compile; those of CheckpointWriter; the folder cannot be written.
// A call of the session, as those of its own functions are.
absl::StatusOr<std::string> SaveProgram(const Session& session, const std::string& dir,
                                        const SaveProgramOptions& options = {});

// An input or output of a function.
struct SavedTensor {
  std::string name;
  Type type;
  bool is_batch = false;  // dim 0 is the batch: any number of rows may be fed
  bool operator==(const SavedTensor&) const = default;
};
struct SavedFunction {
  std::string name;
  std::vector<SavedTensor> inputs, outputs;
  bool operator==(const SavedFunction&) const = default;
};

struct LoadOptions {
  // Nothing: the newest.
  std::optional<int64_t> version = {};
  // Another mesh and other layouts than the saved ones, as OnOtherMesh takes them (session/remesh.h). The program is then
  // compiled anew.
  std::optional<Mesh> mesh = {};
  NamedLayouts layouts = {};
  // The hardware, threads and domains. With several domains the program is compiled anew. `compile` is for what is compiled
  // here; a saved plan stays as it was saved.
  SessionOptions session = {};
};

class SavedProgram {
 public:
  // `path`: a folder of versions, or a version. Nothing is searched, and nothing is trusted: each plan is proven again
  // to compute the program, and each file is checked by its hash. Plans that another version of meshwork made, and that
  // do not fit what this one would make, are left out, and the program is compiled anew.
  // Errors: there is no version; a file is missing, damaged or of a newer library; an op that this process does not
  // have; a plan does not compute the program; those of OnOtherMesh and Session::Create.
  static absl::StatusOr<SavedProgram> Load(const std::string& path, const LoadOptions& options = {});

  // As Session::Predict. Any number of threads may call it: one waits for the other. With several domains all call it
  // alike, in one order. Errors: there is no such function; those of Session::Predict.
  absl::StatusOr<StepResult> Predict(const Feeds& feeds, std::string_view function = "predict");

  const std::string& path() const { return path_; }  // of the version
  int64_t version() const { return version_; }       // 0: the folder's name is no number
  const std::vector<SavedFunction>& functions() const { return functions_; }
  // Error: there is no such function, with the nearest name.
  absl::StatusOr<SavedFunction> Find(std::string_view function) const;
  // Whether the saved plans are run; else the program was compiled anew.
  bool runs_as_saved() const { return runs_as_saved_; }
  // The program and its variables. Its functions may be called while no Predict runs. REQUIRES: this was not moved from.
  const Session& session() const { return *session_; }

 private:
  SavedProgram() = default;
  static absl::StatusOr<SavedProgram> TryLoad(const std::string& path, const LoadOptions& options);

  std::string path_;
  int64_t version_ = 0;
  std::vector<SavedFunction> functions_;
  bool runs_as_saved_ = false;
  std::unique_ptr<Session> session_;
  std::unique_ptr<std::mutex> one_at_a_time_ = std::make_unique<std::mutex>();
};

}  // namespace meshwork
