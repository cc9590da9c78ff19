// Reads the program texts of the commands: from a named file, or from standard input for "-".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/base/flags.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/tools/simulate/machine.h"

namespace meshwork::tools {

// The description of FILE in each command's help.
inline constexpr const char* kFileHelp = "a program as text (docs/text-format.md); - reads standard input";

inline constexpr const char* kTopologyHelp =
    "a JSON file: bandwidth and latency of each axis (docs/tools.md); with it, time decides";

inline constexpr const char* kShardWeightUpdateHelp =
    "keeps optimizer state in blocks over the axes that gradients are summed over (ZeRO stage 1)";

inline constexpr const char* kNarrowSumsHelp =
    "sends parts of bf16 sums as bf16: half of the bytes, and a rounding for each device";

// The name in messages: "step.mw", "standard input".
std::string NameOf(const std::string& file);

// The message of `status` as INVALID_ARGUMENT: a file that cannot be read or written is bad input, whatever
// the system's reason.
absl::Status BadInput(const absl::Status& status);

// Errors: the file cannot be read.
absl::StatusOr<std::string> ReadText(const std::string& file);

// A file of a command line. `path` is empty if it is not given; "-" is standard input, or standard output.
struct GivenFile {
  std::string flag;  // "FILE", "--machine"
  std::string path;
  std::string other = {};  // for an output: ending of the name that an error proposes, "trace.json"
};

// Errors: two inputs are standard input; an output is the same file as an input or as another output, even by another
// name.
absl::Status CheckFiles(const std::vector<GivenFile>& inputs, const std::vector<GivenFile>& outputs);

// The program that a command is about, as its arguments say.
struct ProgramChoice {
  std::string file;
  std::string mesh;                  // empty: that of the file
  std::vector<std::string> layouts;  // "w*={batch,_}"
};

// Adds FILE, --mesh and --layout, for all commands that read a program.
void AddProgram(FlagTable& flags, ProgramChoice& program);

// Adds --devices and --workers, for the commands that compute.
void AddDevices(FlagTable& flags, std::string* devices, int64_t* workers);

// The program, on the given mesh and with the given layouts (OnOtherMesh, session/remesh.h). Errors: those of
// ReadText, of ParseGraph and of OnOtherMesh; a program that neither returns nor updates anything.
absl::StatusOr<Graph> ReadProgram(const ProgramChoice& program);
// The same for the text of FILE.
absl::StatusOr<Graph> ParseProgram(const std::string& text, const ProgramChoice& program);

// The assumed topology for an empty name. Errors: those of ReadText and of Topology::Parse.
absl::StatusOr<Topology> ReadTopology(const Mesh& mesh, const std::string& file);
// The same for the text of the file; the assumed topology if `file` is empty.
absl::StatusOr<Topology> ParseTopology(const Mesh& mesh, const std::string& text, const std::string& file);

// The machine of the file that --machine names, with the assumed links; the assumed machine for an empty name.
// Errors: those of ReadText and of ParseMachine.
absl::StatusOr<Machine> ReadMachine(const std::string& file);

}  // namespace meshwork::tools
