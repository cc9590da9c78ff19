// The manifest of a saved program: program.json, which says what the folder holds. Internal to this room.
//
//   {"format":1,"meshwork":"0.1.0","mesh":"[batch=4]",
//    "functions":[{"name":"predict",
//                  "inputs":[{"name":"x","type":"f32[32,784]","batch":true}],
//                  "outputs":[{"name":"logits","type":"f32[32,10]","batch":true}]}],
//    "places":["model.cc:12","model.cc:14 in Resize",…],
//    "plans":["plan-0.json"],
//    "weights":{"folder":"weights/step-000000000000","sha256":"9f2c…"},
//    "files":[{"file":"program.mw","bytes":512,"sha256":"ba78…"},…],
//    "sha256":"04e1…"}
//
// It is written last, and ends with its own hash (storage/hashed_json.h). Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/saved/saved_program.h"
#include "meshwork/storage/hashed_file.h"

namespace meshwork {

struct ProgramManifest {
  static constexpr int64_t kFormat = 1;

  std::string version;  // of the meshwork that wrote it
  std::string mesh;
  std::vector<SavedFunction> functions;  // by name
  std::vector<std::string> places;       // PlacesOf the program
  std::vector<std::string> plans;        // files
  std::string weights, weights_sha256;   // a checkpoint's folder, and the hash of its index
  std::vector<HashedFile> files;         // the program and the plans
};

inline constexpr const char* kManifestName = "program.json";
inline constexpr const char* kProgramName = "program.mw";
inline constexpr std::string_view kWeightsPrefix = "weights/step-";

// Error: a name is not UTF-8.
absl::StatusOr<std::string> ToJson(const ProgramManifest& manifest);
// `path` names the text in errors. Errors: no JSON; another form; DATA_LOSS, the hash is another; UNIMPLEMENTED, a
// format of a newer library.
absl::StatusOr<ProgramManifest> ManifestFromJson(std::string_view text, const std::string& path);

// Where the nodes of `graph` were written, those of its bodies first, and for what (SourceLocation::within), which the
// program's text does not say; and the inverse. A list of another length changes nothing.
std::vector<std::string> PlacesOf(const Graph& graph);
Graph WithPlaces(const Graph& graph, const std::vector<std::string>& places);

}  // namespace meshwork
