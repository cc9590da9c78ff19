#include "meshwork/session/saved/program_manifest.h"

#include <charconv>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/storage/hashed_json.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson JsonOf(const std::vector<SavedTensor>& tensors) {
  OrderedJson list = OrderedJson::array();
  for (const SavedTensor& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"type", tensor.type.ToString()}, {"batch", tensor.is_batch}});
  return list;
}

absl::StatusOr<std::string> ReadText(const JsonReader& json, const std::string& key) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader value, json.Get(key));
  return value.String();
}

absl::StatusOr<std::vector<std::string>> ReadTexts(const JsonReader& json, const std::string& key) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader value, json.Get(key));
  return value.Strings();
}

// The names; types are those of the program.
absl::StatusOr<std::vector<SavedTensor>> ReadTensors(const JsonReader& json, const std::string& key) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader list, json.Get(key));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, list.Items());
  std::vector<SavedTensor> tensors;
  for (const JsonReader& item : items) {
    MESHWORK_RETURN_IF_ERROR(item.ExpectKeys({"name", "type", "batch"}));
    MESHWORK_ASSIGN_OR_RETURN(std::string name, ReadText(item, "name"));
    tensors.push_back({std::move(name), {}});
  }
  return tensors;
}

absl::Status CheckFormat(const JsonReader& json, const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader format, json.Get("format"));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t number, format.Integer());
  if (number == ProgramManifest::kFormat) return absl::OkStatus();
  if (number < ProgramManifest::kFormat) return format.Expected("the number of a format, 1");
  const absl::StatusOr<std::string> version = ReadText(json, "meshwork");
  return absl::UnimplementedError(fmt::format(
      "{}: the saved program has format {}, of meshwork {}; this is meshwork {}, which reads format {}.",
      path, number, version.ok() ? Printable(*version) : "unknown", MESHWORK_VERSION,
      ProgramManifest::kFormat));
}

}  // namespace

absl::StatusOr<std::string> ToJson(const ProgramManifest& manifest) {
  OrderedJson json = {
      {"format", ProgramManifest::kFormat},
      {"meshwork", manifest.version},
      {"mesh", manifest.mesh},
      {"functions", OrderedJson::array()},
      {"places", manifest.places},
      {"plans", manifest.plans},
      {"weights", {{"folder", manifest.weights}, {"sha256", manifest.weights_sha256}}},
      {"files", OrderedJson::array()},
  };
  for (const SavedFunction& function : manifest.functions)
    json["functions"].push_back({{"name", function.name},
                                 {"inputs", JsonOf(function.inputs)},
                                 {"outputs", JsonOf(function.outputs)}});
  for (const HashedFile& file : manifest.files) json["files"].push_back(ToJson(file));
  try {
    return WithHash(json.dump());
  } catch (const OrderedJson::exception&) {
    return InvalidArgument("SaveProgram: a name is not UTF-8; program.json allows no other text.");
  }
}

absl::StatusOr<ProgramManifest> ManifestFromJson(std::string_view text, const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJson(text, path));
  const JsonReader json(parsed, path);
  MESHWORK_RETURN_IF_ERROR(CheckFormat(json, path));
  MESHWORK_RETURN_IF_ERROR(CheckHash(text, path));
  MESHWORK_RETURN_IF_ERROR(json.ExpectKeys(
      {"format", "meshwork", "mesh", "functions", "places", "plans", "weights", "files", "sha256"}));
  ProgramManifest manifest;
  MESHWORK_ASSIGN_OR_RETURN(manifest.version, ReadText(json, "meshwork"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.mesh, ReadText(json, "mesh"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.places, ReadTexts(json, "places"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.plans, ReadTexts(json, "plans"));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader functions, json.Get("functions"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, functions.Items());
  for (const JsonReader& item : items) {
    MESHWORK_RETURN_IF_ERROR(item.ExpectKeys({"name", "inputs", "outputs"}));
    SavedFunction function;
    MESHWORK_ASSIGN_OR_RETURN(function.name, ReadText(item, "name"));
    MESHWORK_ASSIGN_OR_RETURN(function.inputs, ReadTensors(item, "inputs"));
    MESHWORK_ASSIGN_OR_RETURN(function.outputs, ReadTensors(item, "outputs"));
    manifest.functions.push_back(std::move(function));
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader weights, json.Get("weights"));
  MESHWORK_RETURN_IF_ERROR(weights.ExpectKeys({"folder", "sha256"}));
  MESHWORK_ASSIGN_OR_RETURN(manifest.weights, ReadText(weights, "folder"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.weights_sha256, ReadText(weights, "sha256"));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader files, json.Get("files"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> listed, files.Items());
  for (const JsonReader& item : listed) {
    MESHWORK_ASSIGN_OR_RETURN(HashedFile file, ReadHashedFile(item));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

std::vector<std::string> PlacesOf(const Graph& graph) {
  std::vector<std::string> places;
  for (const Node& node : graph.nodes())
    places.push_back(fmt::format("{}:{}", std::string_view(node.location.file), node.location.line));
  return places;
}

void SetPlaces(const std::vector<std::string>& places, Graph& graph) {
  if (places.size() != graph.nodes().size()) return;
  for (size_t n = 0; n < places.size(); ++n) {
    const std::string& place = places[n];
    const size_t colon = place.rfind(':');
    int line = 0;
    if (colon == std::string::npos ||
        std::from_chars(place.data() + colon + 1, place.data() + place.size(), line).ec != std::errc())
      continue;
    SourceLocation& location = graph.mutable_node(static_cast<int>(n)).location;
    location.file = SharedText(place.substr(0, colon));
    location.line = line;
  }
}

}  // namespace meshwork
