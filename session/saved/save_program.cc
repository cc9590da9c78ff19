// SaveProgram.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/base/version.h"
#include "meshwork/ir/text.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/session/saved/function_graphs.h"
#include "meshwork/session/saved/program_manifest.h"
#include "meshwork/session/saved/saved_program.h"
#include "meshwork/session/saved/version_folder.h"
#include "meshwork/session/session_graphs.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/storage/hashed_json.h"
#include "meshwork/verify/certificate.h"

namespace meshwork {
namespace {

constexpr std::string_view kToSave = "the program to save";

// The functions' names, each with its outputs in the order of the program. Errors: there is no such output; there is
// none at all.
absl::StatusOr<std::vector<SavedFunction>> FunctionsOf(const Graph& graph,
                                                       const SaveProgramOptions& options) {
  std::vector<std::string> known;
  for (const OutputInfo& output : graph.outputs()) known.push_back(output.name);
  if (known.empty())
    return InvalidArgument("SaveProgram: the program has no output, so there is nothing to predict.");
  std::map<std::string, std::vector<std::string>> asked = options.functions;
  if (asked.empty()) asked["predict"] = known;
  std::vector<SavedFunction> functions;
  for (const auto& [name, outputs] : asked) {
    if (outputs.empty())
      return InvalidArgument("SaveProgram: function {} has no outputs; name some.", Quoted(name));
    for (const std::string& output : outputs)
      if (std::find(known.begin(), known.end(), output) == known.end())
        return absl::NotFoundError(fmt::format("SaveProgram: function {}: there is no output {}{}",
                                               Quoted(name), Quoted(output),
                                               DidYouMeanOneOf(output, known, "outputs")));
    SavedFunction& function = functions.emplace_back();
    function.name = name;
    for (const std::string& output : known)
      if (std::find(outputs.begin(), outputs.end(), output) != outputs.end())
        function.outputs.push_back({output, {}});
  }
  return functions;
}

// What the functions need of the session's program, outside of training, with the variables as they lie.
Graph ProgramOf(const Session& session, const std::vector<SavedFunction>& functions) {
  Graph graph = session.graph();
  LayOutVariables(session.program().body, graph);
  std::set<std::string> outputs;
  for (const SavedFunction& function : functions)
    for (const SavedTensor& output : function.outputs) outputs.insert(output.name);
  return WithoutUnreadVariables(EvaluationGraph(graph, {outputs.begin(), outputs.end()}));
}

// A version that is being written.
class VersionWriter {
 public:
  VersionWriter(const Session& session, const SaveProgramOptions& options, std::string folder)
      : session_(session), options_(options), folder_(std::move(folder)) {
    options_.compile.num_domains = 1;
    options_.compile.cut_mesh = false;
    options_.compile.shard_weight_update = false;
    options_.compile.dump = nullptr;
    options_.compile.verify = false;  // the certificate's proof is one
  }

  // Finds out what the version holds, and writes everything but the weights and the manifest if it `writes`.
  absl::Status WriteProgram(bool writes) {
    MESHWORK_ASSIGN_OR_RETURN(manifest_.functions, FunctionsOf(session_.graph(), options_));
    const Graph saved = ProgramOf(session_, manifest_.functions);
    manifest_.places = PlacesOf(saved);
    manifest_.mesh = saved.mesh().ToString();
    manifest_.version = MESHWORK_VERSION;
    const std::string text = PrintGraph(saved);
    // The plans are of what will be loaded.
    MESHWORK_ASSIGN_OR_RETURN(const Graph loaded, ParseGraph(text, kProgramName));
    variables_ = VariablesOf(loaded);
    if (!writes) return absl::OkStatus();
    SignFunctions(loaded, manifest_.functions);
    MESHWORK_RETURN_IF_ERROR(MakeFolders(folder_));
    MESHWORK_RETURN_IF_ERROR(Write(kProgramName, text));
    return ForEachProgram(loaded, manifest_.functions, [&](const Graph& global) -> absl::StatusOr<Program> {
      MESHWORK_ASSIGN_OR_RETURN(Program program, Compile(global, options_.compile));
      const VerifyOptions how = {.narrow_sums = options_.compile.narrow_sums};
      MESHWORK_ASSIGN_OR_RETURN(const Proof proof, Verify(global, program.body, how));
      const std::string name = fmt::format("plan-{}.json", manifest_.plans.size());
      manifest_.plans.push_back(name);
      MESHWORK_RETURN_IF_ERROR(Write(name, CertificateToJson(MakeCertificate(global, program.body, proof))));
      return program;
    });
  }

  // The variables that the program reads.
  DomainState StateOf(DomainState all) const {
    std::erase_if(all.variables, [&](const auto& entry) { return !variables_.contains(entry.first); });
    return all;
  }

  absl::Status WriteManifest(const std::string& weights) {
    manifest_.weights = weights;
    MESHWORK_ASSIGN_OR_RETURN(const std::string index,
                              ReadFile(fmt::format("{}/{}/index.json", folder_, weights)));
    manifest_.weights_sha256 = Sha256OfText(index);
    MESHWORK_ASSIGN_OR_RETURN(const std::string json, ToJson(manifest_));
    return WriteFileAtomically(fmt::format("{}/{}", folder_, kManifestName), json);
  }

 private:
  absl::Status Write(const std::string& name, const std::string& text) {
    manifest_.files.push_back({name, std::ssize(text), Sha256OfText(text)});
    return WriteFileAtomically(fmt::format("{}/{}", folder_, name), text);
  }

  const Session& session_;
  SaveProgramOptions options_;
  const std::string folder_;
  ProgramManifest manifest_;
  std::set<std::string> variables_;
};

// Gives the folder the next number that is free.
absl::StatusOr<std::string> Publish(const std::string& folder, const std::string& dir) {
  for (;;) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> versions, VersionsIn(dir));
    const int64_t next = versions.empty() ? 1 : versions.back() + 1;
    const std::string path = fmt::format("{}/{}", dir, next);
    const absl::Status status = RenameFolder(folder, path);
    if (status.ok()) return path;
    if (!absl::IsAlreadyExists(status)) return status;
  }
}

// The same text in all domains: that of domain 0, or its error.
absl::StatusOr<std::string> FromFirst(Transport* transport, const absl::StatusOr<std::string>& mine) {
  MESHWORK_RETURN_IF_ERROR(AllAgree(transport, kToSave, mine.status()));
  if (transport == nullptr) return mine;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, transport->AllGather(kToSave, *mine));
  return texts[0];
}

}  // namespace

absl::StatusOr<std::string> SaveProgram(const Session& session, const std::string& dir,
                                        const SaveProgramOptions& options) {
  const DomainState all = session.Here();
  const bool is_first = all.domain() == 0;
  MESHWORK_ASSIGN_OR_RETURN(const std::string job, NewJob(all.transport, kToSave));
  const std::string folder = UnfinishedVersion(dir, job);
  VersionWriter writer(session, options, folder);
  // Of domain 0, until the version has its name.
  std::optional<CheckpointLock> lock;
  const auto write = [&]() -> absl::Status {
    if (is_first) {
      MESHWORK_ASSIGN_OR_RETURN(lock, CheckpointLock::Take(dir));
      RemoveUnfinishedVersions(dir);
    }
    return writer.WriteProgram(is_first);
  };
  const std::string step = CheckpointName(session.steps_done());
  const auto save = [&]() -> absl::StatusOr<std::string> {
    MESHWORK_RETURN_IF_ERROR(AllAgree(all.transport, kToSave, write()));
    MESHWORK_RETURN_IF_ERROR(
        SaveState(writer.StateOf(all), folder + "/weights", {.step = session.steps_done()}));
    absl::StatusOr<std::string> path = "";
    if (is_first) {
      const absl::Status manifest = writer.WriteManifest("weights/" + step);
      path = manifest.ok() ? Publish(folder, dir) : absl::StatusOr<std::string>(manifest);
    }
    return FromFirst(all.transport, path);
  };
  absl::StatusOr<std::string> path = save();
  std::error_code ignored;
  if (!path.ok() && is_first) std::filesystem::remove_all(folder, ignored);
  return path;
}

}  // namespace meshwork
