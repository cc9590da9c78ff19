#include "meshwork/session/saved/program_manifest.h"

#include <charconv>
#include <mutex>
#include <set>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/ir/regions.h"
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
    MESHWORK_ASSIGN_OR_RETURN(std::string name, item.StringOf("name"));
    tensors.push_back({std::move(name), {}});
  }
  return tensors;
}

constexpr std::string_view kWithin = " in ";

// The text for as long as the process runs, as SourceLocation::within needs it.
const char* Interned(std::string text) {
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string>();
  const std::scoped_lock lock(mutex);
  return texts->insert(std::move(text)).first->c_str();
}

// "model.cc:12", "model.cc:12 in Resize". Another text changes nothing.
void SetPlace(const std::string& place, SourceLocation& location) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return;
  int line = 0;
  const char* const end = place.data() + place.size();
  const auto [rest, error] = std::from_chars(place.data() + colon + 1, end, line);
  if (error != std::errc()) return;
  location.file = SharedText(place.substr(0, colon));
  location.line = line;
  const std::string_view within(rest, static_cast<size_t>(end - rest));
  if (within.starts_with(kWithin)) location.within = Interned(std::string(within.substr(kWithin.size())));
}

absl::Status CheckFormat(const JsonReader& json, const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader format, json.Get("format"));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t number, format.Integer());
  if (number == ProgramManifest::kFormat) return absl::OkStatus();
  if (number < ProgramManifest::kFormat) return format.Expected("the number of a format, 1");
  const absl::StatusOr<std::string> version = json.StringOf("meshwork");
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
  MESHWORK_ASSIGN_OR_RETURN(manifest.version, json.StringOf("meshwork"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.mesh, json.StringOf("mesh"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.places, ReadTexts(json, "places"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.plans, ReadTexts(json, "plans"));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader functions, json.Get("functions"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, functions.Items());
  for (const JsonReader& item : items) {
    MESHWORK_RETURN_IF_ERROR(item.ExpectKeys({"name", "inputs", "outputs"}));
    SavedFunction function;
    MESHWORK_ASSIGN_OR_RETURN(function.name, item.StringOf("name"));
    MESHWORK_ASSIGN_OR_RETURN(function.inputs, ReadTensors(item, "inputs"));
    MESHWORK_ASSIGN_OR_RETURN(function.outputs, ReadTensors(item, "outputs"));
    if (function.outputs.empty()) return item.Expected("a function with outputs");
    for (const SavedFunction& other : manifest.functions)
      if (other.name == function.name) return item.Expected("a function with a name of its own");
    manifest.functions.push_back(std::move(function));
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader weights, json.Get("weights"));
  MESHWORK_RETURN_IF_ERROR(weights.ExpectKeys({"folder", "sha256"}));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader folder, weights.Get("folder"));
  MESHWORK_ASSIGN_OR_RETURN(manifest.weights, folder.String());
  if (!manifest.weights.starts_with(kWeightsPrefix) ||
      manifest.weights.find_first_of(std::string_view("/\0", 2), kWeightsPrefix.size()) != std::string::npos)
    return folder.Expected("the name of a folder in \"weights\"");
  MESHWORK_ASSIGN_OR_RETURN(manifest.weights_sha256, weights.StringOf("sha256"));
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
  WithRegions(graph, [&](const Graph& body) {
    for (const Node& node : body.nodes()) {
      const SourceLocation& location = node.location;
      places.push_back(fmt::format("{}:{}", std::string_view(location.file), location.line));
      if (location.within != nullptr) places.back() += fmt::format("{}{}", kWithin, location.within);
    }
    return body;
  });
  return places;
}

Graph WithPlaces(const Graph& graph, const std::vector<std::string>& places) {
  if (PlacesOf(graph).size() != places.size()) return graph;
  size_t next = 0;
  return WithRegions(graph, [&](const Graph& body) {
    Graph placed = body;
    for (size_t n = 0; n < body.nodes().size(); ++n)
      SetPlace(places[next++], placed.mutable_node(static_cast<int>(n)).location);
    return placed;
  });
}

}  // namespace meshwork
