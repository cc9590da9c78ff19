// meshwork checkpoint ls.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "tools/cli/checkpoint_commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

using Json = nlohmann::ordered_json;

int64_t BytesOf(const CheckpointIndex& index) {
  int64_t bytes = 0;
  for (const CheckpointShard& shard : index.shards) bytes += shard.bytes;
  return bytes;
}

// "epoch=3, seed=1"; "-" if there are none.
template <typename Map>
std::string Pairs(const Map& map) {
  std::vector<std::string> pairs;
  for (const auto& [name, value] : map) pairs.push_back(Printable(fmt::format("{}={}", name, value)));
  return pairs.empty() ? "-" : fmt::format("{}", fmt::join(pairs, ", "));
}

// ---- A folder.

std::string FolderAsText(const std::string& path, const std::vector<FoundCheckpoint>& found,
                         const std::vector<std::string>& unfinished) {
  std::string wrong;
  std::vector<std::vector<std::string>> rows = {
      {"step", "written", "size", "variables", "mesh", "metrics", "state"}};
  for (const FoundCheckpoint& checkpoint : found) {
    const std::string step = fmt::format("{}", checkpoint.step);
    if (!checkpoint.index.ok()) {
      rows.push_back({step, "-", "-", "-", "-", "-", "unusable"});
      wrong += fmt::format("{}: cannot be used: {}\n", checkpoint.path,
                           PrintableLines(MessageOf(checkpoint.index.status())));
      continue;
    }
    const CheckpointIndex& index = *checkpoint.index;
    rows.push_back({step, Printable(index.written), BytesToString(BytesOf(index)),
                    fmt::format("{}", index.variables.size()), Printable(index.mesh), Pairs(index.metrics),
                    "complete"});
  }
  std::string out =
      found.empty() ? fmt::format("{}: no checkpoints\n", path) : Table(rows, {0, 2, 3}) + wrong;
  for (const std::string& name : unfinished)
    out += fmt::format("{}: is being written, or was left by a writer that was killed\n", Printable(name));
  return out;
}

Json JsonOf(const CheckpointIndex& index) {
  return {{"written", index.written},
          {"meshwork", index.version},
          {"bytes", BytesOf(index)},
          {"shards", index.shards.size()},
          {"variables", index.variables.size()},
          {"mesh", index.mesh},
          {"facts", index.facts},
          {"metrics", index.metrics}};
}

std::string FolderAsJson(const std::vector<FoundCheckpoint>& found,
                         const std::vector<std::string>& unfinished) {
  Json json = {{"checkpoints", Json::array()}, {"unfinished", unfinished}};
  for (const FoundCheckpoint& checkpoint : found) {
    Json item = {{"path", checkpoint.path}, {"step", checkpoint.step}};
    if (checkpoint.index.ok()) item.update(JsonOf(*checkpoint.index));
    else item["error"] = std::string(PrintableLines(MessageOf(checkpoint.index.status())));
    json["checkpoints"].push_back(std::move(item));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// ---- A checkpoint.

std::string CheckpointAsText(const std::string& path, const CheckpointIndex& index) {
  std::string out = fmt::format("{}: step {}, written {} by meshwork {}, on mesh {}\n", path, index.step,
                                Printable(index.written), Printable(index.version), Printable(index.mesh));
  if (!index.facts.empty()) out += fmt::format("facts: {}\n", Pairs(index.facts));
  if (!index.metrics.empty()) out += fmt::format("metrics: {}\n", Pairs(index.metrics));
  std::vector<std::vector<std::string>> rows = {{"variable", "type", "layout", "pieces", "bytes"}};
  for (const CheckpointVariable& variable : index.variables)
    rows.push_back({Printable(variable.name), variable.type.ToString(), Printable(variable.layout),
                    fmt::format("{}", variable.pieces.size()), fmt::format("{}", variable.type.bytes())});
  return out + Table(rows, {3, 4}) +
         fmt::format("{}, {} in {}\n", Count(std::ssize(index.variables), "variable"),
                     BytesToString(BytesOf(index)), Count(std::ssize(index.shards), "shard"));
}

std::string CheckpointAsJson(const std::string& path, const CheckpointIndex& index) {
  Json json = {{"path", path}, {"step", index.step}};
  json.update(JsonOf(index));
  json["shards"] = Json::array();
  for (const CheckpointShard& shard : index.shards)
    json["shards"].push_back({{"file", shard.file}, {"bytes", shard.bytes}, {"sha256", shard.sha256}});
  json["variables"] = Json::array();
  for (const CheckpointVariable& variable : index.variables)
    json["variables"].push_back({{"name", variable.name},
                                 {"type", variable.type.ToString()},
                                 {"layout", variable.layout},
                                 {"pieces", variable.pieces.size()},
                                 {"bytes", variable.type.bytes()}});
  return json.dump(2) + "\n";
}

}  // namespace

absl::Status ListFolder(Arguments args) {
  std::string path;
  bool json = false;
  FlagTable flags(
      "meshwork checkpoint ls",
      "Lists the checkpoints of a folder, the newest first: step, time, size, number of variables, mesh,\n"
      "metrics, and whether it is complete; or, of one checkpoint, its variables: type, layout, number of\n"
      "pieces, bytes. Reads no elements; meshwork checkpoint verify does.");
  flags.Positional("PATH", "a folder of checkpoints, or a checkpoint", &path);
  flags.Switch("json", "prints one JSON object", &json);
  if (const auto done = Parse(flags, args)) return *done;
  if (IsCheckpoint(path)) {
    const absl::StatusOr<CheckpointIndex> index = ReadCheckpointIndex(path);
    if (!index.ok()) return BadInput(index.status());
    fmt::print("{}", json ? CheckpointAsJson(path, *index) : CheckpointAsText(path, *index));
    return absl::OkStatus();
  }
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, CheckpointsIn(path));
  const std::vector<std::string> unfinished = UnfinishedIn(path);
  fmt::print("{}", json ? FolderAsJson(found, unfinished) : FolderAsText(path, found, unfinished));
  return absl::OkStatus();
}

}  // namespace meshwork::tools
