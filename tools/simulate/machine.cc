#include "meshwork/tools/simulate/machine.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

// The numbers of a machine by their keys in JSON.
struct MachineNumber {
  const char* key;
  double Machine::*value;
};
constexpr MachineNumber kNumbers[] = {
    {"product_flops", &Machine::product_flops},   {"memory_bandwidth", &Machine::memory_bandwidth},
    {"op_seconds", &Machine::op_seconds},         {"step_seconds", &Machine::step_seconds},
    {"copy_bandwidth", &Machine::copy_bandwidth}, {"barrier_seconds", &Machine::barrier_seconds}};

constexpr int64_t kMostWorkers = 1024;

double BytesOf(const Graph& local, const Node& node) {
  double bytes = 0;
  for (ValueId operand : node.operands) bytes += static_cast<double>(local.value(operand).type.bytes());
  for (ValueId result : node.results) bytes += static_cast<double>(local.value(result).type.bytes());
  return bytes;
}

double SecondsOfBytes(const Graph& local, const Node& node, const Machine& machine) {
  return machine.memory_bandwidth > 0 ? BytesOf(local, node) / machine.memory_bandwidth : 0;
}

// A collective that sends nothing has no operations: it moves bytes.
double SecondsOfFlops(const Graph& local, const Node& node, const Machine& machine) {
  return node.row->kind == OpKind::kCollective ? 0 : FlopsOf(local, node) / machine.flops();
}

bool IsDefault(const OpRow& row, std::string_view name, const AttrValue& value) {
  return std::any_of(row.attrs.begin(), row.attrs.end(), [&](const AttrSpec& spec) {
    return spec.name == name && spec.fallback.has_value() && SameAttr(*spec.fallback, value);
  });
}

absl::StatusOr<double> ReadNumber(const JsonReader& item, std::string_view key) {
  MESHWORK_ASSIGN_OR_RETURN(const double value, item.Real());
  if (std::isfinite(value) && value >= 0) return value;
  return InvalidArgument("machine: {} is {}; it must be a finite number of at least 0.", key, value);
}

}  // namespace

std::string KernelKey(const Graph& local, const Node& node) {
  std::string key(node.row->name);
  for (ValueId operand : node.operands) key += " " + local.value(operand).type.ToString();
  key += " ->";
  for (ValueId result : node.results) key += " " + local.value(result).type.ToString();
  for (const auto& [name, value] : node.attrs.entries())
    if (!IsDefault(*node.row, name, value))
      key += fmt::format(" {}={}", name, PrintAttr(local.mesh(), value));
  return key;
}

double ComputeSeconds(const Graph& local, const Node& node, const Machine& machine) {
  if (node.row->is_view) return 0;
  if (!machine.kernels.empty()) {
    const auto measured = machine.kernels.find(KernelKey(local, node));
    if (measured != machine.kernels.end()) return measured->second;
  }
  return machine.op_seconds +
         std::max(SecondsOfFlops(local, node, machine), SecondsOfBytes(local, node, machine));
}

bool IsBoundByMemory(const Graph& local, const Node& node, const Machine& machine) {
  return SecondsOfBytes(local, node, machine) > SecondsOfFlops(local, node, machine);
}

absl::StatusOr<Machine> ParseMachine(std::string_view text) {
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, "machine"));
  const JsonReader document(json, "machine");
  std::vector<std::string> keys = {"workers", "kernels"};
  for (const MachineNumber& number : kNumbers) keys.emplace_back(number.key);
  MESHWORK_RETURN_IF_ERROR(document.ExpectKeys(keys));
  Machine machine;
  for (const auto& [key, value] : kNumbers) {
    if (!document.Has(key)) continue;
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader item, document.Get(key));
    MESHWORK_ASSIGN_OR_RETURN(machine.*value, ReadNumber(item, key));
  }
  if (document.Has("workers")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader item, document.Get("workers"));
    MESHWORK_ASSIGN_OR_RETURN(machine.workers, item.Integer());
    if (machine.workers < 0 || machine.workers > kMostWorkers)
      return InvalidArgument("machine: workers is {}; a process has 1 to {} threads, and 0 is no process.",
                             machine.workers, kMostWorkers);
  }
  if (!document.Has("kernels")) return machine;
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader kernels, document.Get("kernels"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, kernels.Keys());
  for (const std::string& name : names) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader item, kernels.Get(name));
    MESHWORK_ASSIGN_OR_RETURN(machine.kernels[name],
                              ReadNumber(item, fmt::format("the time of \"{}\"", name)));
  }
  return machine;
}

nlohmann::ordered_json MachineToJson(const Machine& machine) {
  nlohmann::ordered_json json;
  for (const auto& [key, value] : kNumbers) json[key] = machine.*value;
  json["product_flops"] = machine.flops();
  json["workers"] = machine.workers;
  json["kernels"] = nlohmann::ordered_json::object();
  for (const auto& [key, seconds] : machine.kernels) json["kernels"][key] = seconds;
  return json;
}

}  // namespace meshwork
