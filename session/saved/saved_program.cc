#include "meshwork/session/saved/saved_program.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/base/version.h"
#include "meshwork/ir/text.h"
#include "meshwork/session/compiled_programs.h"
#include "meshwork/session/remesh.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/session/saved/function_graphs.h"
#include "meshwork/session/saved/program_manifest.h"
#include "meshwork/session/saved/version_folder.h"
#include "meshwork/session/without_exceptions.h"
#include "meshwork/storage/hashed_json.h"
#include "meshwork/verify/certificate.h"

namespace meshwork {
namespace {

// A version's files, read and checked.
class VersionReader {
 public:
  explicit VersionReader(std::string path) : path_(std::move(path)) {}

  absl::Status ReadManifest() {
    const std::string path = PathOf(kManifestName);
    MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    MESHWORK_ASSIGN_OR_RETURN(manifest_, ManifestFromJson(text, path));
    return absl::OkStatus();
  }

  // The program as it was saved.
  absl::StatusOr<Graph> ReadProgram() const {
    MESHWORK_ASSIGN_OR_RETURN(const std::string text, Read(kProgramName));
    MESHWORK_ASSIGN_OR_RETURN(Graph program, ParseGraph(text, PathOf(kProgramName)));
    if (program.mesh().ToString() != manifest_.mesh)
      return absl::DataLossError(fmt::format("{}: the program is on mesh {}, and the manifest says {}.",
                                             PathOf(kProgramName), program.mesh().ToString(),
                                             Printable(manifest_.mesh)));
    for (const SavedFunction& function : manifest_.functions)
      for (const SavedTensor& output : function.outputs)
        if (std::none_of(program.outputs().begin(), program.outputs().end(),
                         [&](const OutputInfo& known) { return known.name == output.name; }))
          return absl::DataLossError(fmt::format("{}: the program has no output {}, which function {} gives.",
                                                 PathOf(kManifestName), Quoted(output.name),
                                                 Quoted(function.name)));
    return WithPlaces(program, manifest_.places);
  }

  // What the functions were compiled to, proven again; null if another version of meshwork wrote plans that do not fit
  // what this one would make. Error, besides: a plan of this version does not fit, or one is missing.
  absl::StatusOr<std::shared_ptr<const CompiledPrograms>> ReadPlans(const Graph& program) const {
    Plans plans;
    for (const std::string& name : manifest_.plans) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string text, Read(name));
      MESHWORK_ASSIGN_OR_RETURN(Certificate plan, CertificateFromJson(text, PathOf(name)));
      std::string of = plan.global;
      plans.insert_or_assign(std::move(of), std::move(plan));
    }
    absl::StatusOr<std::shared_ptr<const CompiledPrograms>> proven = Proven(program, plans);
    if (!proven.ok() && manifest_.version != MESHWORK_VERSION) return nullptr;
    return proven;
  }

  // What no other version has: the hashes of the weights' index and of the program.
  std::string Identity() const {
    return fmt::format("{} {}", manifest_.weights_sha256,
                       manifest_.files.empty() ? "" : manifest_.files[0].sha256);
  }

  // The folder of the weights. Errors: it is none of this version, or was changed.
  absl::StatusOr<std::string> Weights() const {
    const std::string folder = PathOf(manifest_.weights), index = folder + "/index.json";
    MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(index));
    if (Sha256OfText(text) == manifest_.weights_sha256) return folder;
    return absl::DataLossError(
        fmt::format("{}: its SHA-256 is not the one in {}; the weights are damaged, or of another version.",
                    index, kManifestName));
  }

  const ProgramManifest& manifest() const { return manifest_; }

 private:
  using Plans = std::map<std::string, Certificate>;  // by the fingerprint of what they compute

  // Error: a plan is missing, or does not hold.
  absl::StatusOr<std::shared_ptr<const CompiledPrograms>> Proven(const Graph& program,
                                                                 const Plans& plans) const {
    auto compiled = std::make_shared<CompiledPrograms>();
    MESHWORK_RETURN_IF_ERROR(
        ForEachProgram(program, manifest_.functions,
                       [&](const Graph& global, const std::string& fingerprint) -> absl::StatusOr<Program> {
                         const auto plan = plans.find(fingerprint);
                         if (plan == plans.end())
                           return absl::DataLossError(fmt::format(
                               "{}: no plan computes the program {}; save it again.", path_, fingerprint));
                         absl::StatusOr<Graph> local = ReadCertified(global, plan->second);
                         if (!local.ok()) return Annotate(local.status(), fmt::format("{}: ", path_));
                         compiled->Add(fingerprint, {.body = *local});
                         return Program{.body = *std::move(local)};
                       }));
    return compiled;
  }

  std::string PathOf(const std::string& name) const { return fmt::format("{}/{}", path_, name); }

  // The text of a file that the manifest lists. Errors: it is not listed; it is not what was written.
  absl::StatusOr<std::string> Read(const std::string& name) const {
    const auto file = std::find_if(manifest_.files.begin(), manifest_.files.end(),
                                   [&](const HashedFile& listed) { return listed.file == name; });
    if (file == manifest_.files.end())
      return absl::DataLossError(fmt::format("{}: its files lack {}.", PathOf(kManifestName), Quoted(name)));
    const std::string path = PathOf(name);
    MESHWORK_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    if (Sha256OfText(text) == file->sha256) return text;
    return absl::DataLossError(fmt::format(
        "{}: its SHA-256 is not the one in {}; the file is damaged, or was edited.", path, kManifestName));
  }

  const std::string path_;
  ProgramManifest manifest_;
};

}  // namespace

absl::StatusOr<SavedProgram> SavedProgram::Load(const std::string& path, const LoadOptions& options) {
  return WithoutExceptions(options.session.executor.transport, [&] { return TryLoad(path, options); });
}

absl::StatusOr<SavedProgram> SavedProgram::TryLoad(const std::string& path, const LoadOptions& options) {
  SessionOptions session_options = options.session;
  Transport* const transport = session_options.executor.transport;
  SavedProgram loaded;
  Graph program{Mesh()};
  std::string weights;
  // Returns what has to be the same in all domains.
  const auto read = [&]() -> absl::StatusOr<std::string> {
    MESHWORK_ASSIGN_OR_RETURN(loaded.path_, FindVersion(path, options.version));
    VersionReader reader(loaded.path_);
    MESHWORK_RETURN_IF_ERROR(reader.ReadManifest());
    MESHWORK_ASSIGN_OR_RETURN(program, reader.ReadProgram());
    MESHWORK_ASSIGN_OR_RETURN(weights, reader.Weights());
    const Mesh mesh = options.mesh.value_or(program.mesh());
    if (!options.layouts.empty() || !(mesh == program.mesh())) {
      MESHWORK_ASSIGN_OR_RETURN(program, OnOtherMesh(program, mesh, options.layouts));
    } else if (transport == nullptr) {
      MESHWORK_ASSIGN_OR_RETURN(session_options.compiled, reader.ReadPlans(program));
    }
    loaded.version_ = VersionOf(loaded.path_);
    loaded.runs_as_saved_ = session_options.compiled != nullptr;
    loaded.functions_ = reader.manifest().functions;
    SignFunctions(program, loaded.functions_);
    return fmt::format("version {}, {}", loaded.version_, reader.Identity());
  };
  MESHWORK_RETURN_IF_ERROR(AllAgree(transport, "the saved program", read()));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(program, std::move(session_options)));
  MESHWORK_RETURN_IF_ERROR(session.Restore(weights).status());
  loaded.session_ = std::make_unique<Session>(std::move(session));
  return loaded;
}

absl::StatusOr<SavedFunction> SavedProgram::Find(std::string_view function) const {
  std::vector<std::string> known;
  for (const SavedFunction& one : functions_) {
    if (one.name == function) return one;
    known.push_back(one.name);
  }
  return absl::NotFoundError(fmt::format("{}: there is no function {}{}", path_, Quoted(function),
                                         DidYouMeanOneOf(std::string(function), known, "functions")));
}

absl::StatusOr<StepResult> SavedProgram::Predict(const Feeds& feeds, std::string_view function) {
  MESHWORK_ASSIGN_OR_RETURN(const SavedFunction found, Find(function));
  std::vector<std::string> outputs;
  for (const SavedTensor& output : found.outputs) outputs.push_back(output.name);
  const std::scoped_lock lock(*one_at_a_time_);
  return session_->Predict(feeds, outputs);
}

}  // namespace meshwork
