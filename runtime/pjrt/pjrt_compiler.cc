#include "meshwork/runtime/pjrt/pjrt_compiler.h"

#include <charconv>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "meshwork/base/log.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr std::chrono::seconds kLong(2);

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

pjrt::NamedValue NamedValueOf(const std::pair<std::string, std::string>& option) {
  using Kind = pjrt::NamedValue::Type;
  const auto& [name, text] = option;
  pjrt::NamedValue value{.head = {.size = sizeof(value)}, .name = name.data(), .name_size = name.size()};
  if (const std::optional<int64_t> number = WholeNumber(text); number.has_value()) {
    value.type = Kind::kInt64;
    value.int64 = *number;
  } else if (text == "true" || text == "false") {
    value.type = Kind::kBool;
    value.boolean = text == "true";
  } else {
    value.type = Kind::kString;
    value.string = text.c_str();
    value.value_size = text.size();
  }
  return value;
}

// ---- Messages of protocol buffers, of which a compiler's options are one.

void AddVarint(std::string& message, uint64_t number) {
  for (; number >= 128; number >>= 7) message += static_cast<char>((number & 127) | 128);
  message += static_cast<char>(number);
}
void AddNumber(std::string& message, int field, int64_t number) {
  AddVarint(message, static_cast<uint64_t>(field) << 3);
  AddVarint(message, static_cast<uint64_t>(number));
}
void AddMessage(std::string& message, int field, std::string_view inner) {
  AddVarint(message, static_cast<uint64_t>(field) << 3 | 2);
  AddVarint(message, inner.size());
  message += inner;
}

// Nothing: it is no number.
std::optional<double> NumberOf(const pjrt::NamedValue& value) {
  switch (value.type) {
    case pjrt::NamedValue::Type::kInt64: return static_cast<double>(value.int64);
    case pjrt::NamedValue::Type::kFloat: return value.real;
    default: return std::nullopt;
  }
}

}  // namespace

std::vector<pjrt::NamedValue> NamedValuesOf(const PjrtSpec& spec) {
  std::vector<pjrt::NamedValue> values;
  for (const auto& option : spec.options) values.push_back(NamedValueOf(option));
  return values;
}

std::string CompileOptionsOf(std::span<const int> ids) {
  std::string devices, assignment, build, options;
  for (const int id : ids) AddVarint(devices, static_cast<uint64_t>(id));
  std::string computation;
  AddMessage(computation, 1, devices);
  const auto replicas = static_cast<int64_t>(ids.size());
  AddNumber(assignment, 1, replicas);
  AddNumber(assignment, 2, 1);
  AddMessage(assignment, 3, computation);
  AddNumber(build, 1, -1);  // on no device alone
  AddNumber(build, 4, replicas);
  AddNumber(build, 5, 1);
  AddMessage(build, 9, assignment);
  AddMessage(options, 3, build);
  return options;
}

pjrt::Program ProgramOf(std::string& module) {
  constexpr std::string_view kFormat = "mlir";
  return {.head = {.size = sizeof(pjrt::Program)},
          .code = module.data(),
          .code_size = module.size(),
          .format = kFormat.data(),
          .format_size = kFormat.size()};
}

PjrtMemoryUse MemoryUseOf(const PjrtPlugin& plugin, pjrt::Executable* executable) {
  pjrt::ExecutableGetCompiledMemoryStats stats{.executable = executable};
  if (!plugin.Call(stats, "a program's memory").ok()) return {};
  return {.arguments = stats.arguments,
          .outputs = stats.outputs,
          .aliased = stats.aliased,
          .temporary = stats.temporary};
}

std::map<std::string, double> CostsOf(const PjrtPlugin& plugin, pjrt::Executable* executable) {
  std::map<std::string, double> costs;
  pjrt::ExecutableGetCostAnalysis analysis{.executable = executable};
  if (!plugin.Call(analysis, "a program's costs").ok()) return costs;
  for (size_t i = 0; i < analysis.num_properties; ++i) {
    const pjrt::NamedValue& property = analysis.properties[i];
    if (const std::optional<double> number = NumberOf(property); number.has_value())
      costs[std::string(property.name, property.name_size)] = *number;
  }
  return costs;
}

CompilePatience::CompilePatience(const PjrtPlugin& plugin, std::string_view name, int64_t num_devices)
    : plugin_(plugin.name()), name_(name), num_devices_(num_devices), thread_([this] { Watch(); }) {}

CompilePatience::~CompilePatience() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  thread_.join();
}

void CompilePatience::Watch() {
  std::unique_lock lock(mutex_);
  if (over_.wait_for(lock, kLong, [this] { return is_over_; })) return;
  Log(LogLevel::kInfo, "PJRT: {} is compiling \"{}\" for {}.", plugin_, name_, Count(num_devices_, "device"));
}

}  // namespace meshwork
