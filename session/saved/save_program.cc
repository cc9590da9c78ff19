// SaveProgram.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "fmt/ranges.h"
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
#include "meshwork/session/without_exceptions.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/storage/hashed_json.h"
#include "meshwork/verify/certificate.h"

namespace meshwork {
namespace {

constexpr std::string_view kToSave = "the program to save";

// The functions' names, each with its outputs in the order of the program. Outputs without a name cannot be asked for.
// Errors: there is no such output; there is none at all.
absl::StatusOr<std::vector<SavedFunction>> FunctionsOf(const Graph& graph,
                                                       const SaveProgramOptions& options) {
  std::vector<std::string> known;
  for (const OutputInfo& output : graph.outputs())
    if (!output.name.empty()) known.push_back(output.name);
  if (known.empty())
    return InvalidArgument(
        "SaveProgram: the program has no output with a name, so there is nothing to predict.");
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

std::vector<std::string> NamesOf(const std::vector<SavedFunction>& functions) {
  std::vector<std::string> names;
  for (const SavedFunction& function : functions) names.push_back(function.name);
  return names;
}

bool HasInputs(const Graph& graph) {
  return std::any_of(graph.arguments().begin(), graph.arguments().end(),
                     [](const Argument& argument) { return !argument.is_variable; });
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
      : session_(session),
        options_(options),
        compile_(options.compile.value_or(session.compile_options())),
        folder_(std::move(folder)) {
    compile_.num_domains = 1;
    compile_.cut_mesh = false;
    compile_.shard_weight_update = false;
    compile_.dump = nullptr;
  }

  // Finds out what the version holds. Returns a hash that is the same in all domains if they save the same.
  absl::StatusOr<std::string> Plan() {
    MESHWORK_ASSIGN_OR_RETURN(manifest_.functions, FunctionsOf(session_.graph(), options_));
    const Graph saved = ProgramOf(session_, manifest_.functions);
    manifest_.places = PlacesOf(saved);
    manifest_.mesh = saved.mesh().ToString();
    manifest_.version = MESHWORK_VERSION;
    text_ = PrintGraph(saved);
    // The plans are of what will be loaded.
    MESHWORK_ASSIGN_OR_RETURN(const Graph loaded, ParseGraph(text_, kProgramName));
    const int64_t rows = BatchRowsOf(loaded), wanted = BatchRowsOf(session_.graph());
    if (rows != wanted && HasInputs(loaded))
      return InvalidArgument(
          "SaveProgram: the first input that the functions need has {} rows, and the program's batch {}; declare an "
          "input of the batch first.",
          rows, wanted);
    program_ = WithPlaces(loaded, manifest_.places);
    variables_ = VariablesOf(*program_);
    SignFunctions(*program_, manifest_.functions);
    return Sha256OfText(fmt::format("{}{}", text_, fmt::join(NamesOf(manifest_.functions), ",")));
  }

  // Writes everything but the weights and the manifest.
  absl::Status WriteProgram() {
    MESHWORK_RETURN_IF_ERROR(MakeFolders(folder_));
    MESHWORK_RETURN_IF_ERROR(Write(kProgramName, text_));
    return ForEachProgram(*program_, manifest_.functions,
                          [&](const Graph& global, const std::string&) -> absl::StatusOr<Program> {
                            MESHWORK_ASSIGN_OR_RETURN(Program program, Compile(global, compile_));
                            const VerifyOptions how = {.narrow_sums = compile_.narrow_sums};
                            MESHWORK_ASSIGN_OR_RETURN(const Proof proof, Verify(global, program.body, how));
                            const std::string name = fmt::format("plan-{}.json", manifest_.plans.size());
                            manifest_.plans.push_back(name);
                            MESHWORK_RETURN_IF_ERROR(
                                Write(name, CertificateToJson(MakeCertificate(global, program.body, proof))));
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
  const SaveProgramOptions& options_;
  CompileOptions compile_;
  const std::string folder_;
  ProgramManifest manifest_;
  std::string text_;
  std::optional<Graph> program_;
  std::set<std::string> variables_;
};

// Gives the folder the next number that is free.
absl::StatusOr<std::string> Publish(const std::string& folder, const std::string& dir) {
  for (;;) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> versions, NumbersIn(dir));
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

// Removes the folder at the end, unless it has got another name.
class Unfinished {
 public:
  explicit Unfinished(std::string path) : path_(std::move(path)) {}
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  const std::string path_;
};

// All domains call it alike.
absl::StatusOr<std::string> Save(const Session& session, const std::string& dir,
                                 const SaveProgramOptions& options) {
  const DomainState all = session.Here();
  const bool is_first = all.domain() == 0;
  const int64_t step = session.steps_done();
  MESHWORK_ASSIGN_OR_RETURN(const std::string job, NewJob(all.transport, kToSave));
  const std::string folder = UnfinishedVersion(dir, job);
  VersionWriter writer(session, options, folder);
  absl::StatusOr<std::string> plan = writer.Plan();
  if (plan.ok() && step < 0)
    plan =
        InvalidArgument("SaveProgram: the session says that it has done {} steps; set another number.", step);
  MESHWORK_RETURN_IF_ERROR(AllAgree(all.transport, kToSave, plan));
  std::optional<CheckpointLock> lock;  // of domain 0, until the version has its name
  std::optional<Unfinished> unfinished;
  const auto write = [&]() -> absl::Status {
    if (!is_first) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(lock, CheckpointLock::Take(dir));
    RemoveUnfinishedVersions(dir);
    unfinished.emplace(folder);
    return writer.WriteProgram();
  };
  MESHWORK_RETURN_IF_ERROR(AllAgree(all.transport, kToSave, write()));
  const std::string weights = folder + "/weights";
  MESHWORK_RETURN_IF_ERROR(SaveState(writer.StateOf(all), weights, {.step = step}));
  absl::StatusOr<std::string> path = "";
  if (is_first) {
    std::error_code ignored;
    std::filesystem::remove(weights + "/lock", ignored);
    const absl::Status manifest = writer.WriteManifest("weights/" + CheckpointName(step));
    path = manifest.ok() ? Publish(folder, dir) : absl::StatusOr<std::string>(manifest);
  }
  return FromFirst(all.transport, path);
}

}  // namespace

absl::StatusOr<std::string> SaveProgram(const Session& session, const std::string& dir,
                                        const SaveProgramOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, session.Begin("SaveProgram"));
  return WithoutExceptions(session.Here().transport, [&] { return Save(session, dir, options); });
}

}  // namespace meshwork
