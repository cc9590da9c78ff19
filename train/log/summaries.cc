#include "meshwork/train/log/summaries.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/storage/record_file.h"
#include "meshwork/storage/wire_format.h"
#include "meshwork/train/log/summary_events.h"

namespace meshwork {
namespace {

using WireKind = WireField::Kind;

constexpr int64_t kFloat = 1, kDouble = 2;  // DataType of types.proto

// Calls f with each field of a message.
template <typename F>
absl::Status ForEachField(std::string_view message, F&& f) {
  WireReader reader(message);
  while (true) {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<WireField> field, reader.Next());
    if (!field.has_value()) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(f(*field));
  }
}

template <typename T>
std::optional<double> FirstOf(std::string_view bytes) {
  T number;
  if (bytes.size() < sizeof(number)) return std::nullopt;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

// The only number of a TensorProto of f32 or f64, as tf.summary.scalar writes it; nothing if it is another.
absl::StatusOr<std::optional<double>> NumberOf(std::string_view tensor) {
  int64_t dtype = 0;
  std::optional<double> number;
  std::string_view content;
  MESHWORK_RETURN_IF_ERROR(ForEachField(tensor, [&](const WireField& field) {
    if (field.Is(1, WireKind::kVarint)) dtype = field.as_int();
    else if (field.Is(4, WireKind::kBytes)) content = field.bytes;
    else if (field.Is(5, WireKind::kFixed32)) number = field.as_float();
    else if (field.Is(6, WireKind::kFixed64)) number = field.as_double();
    else if (field.Is(5, WireKind::kBytes)) number = FirstOf<float>(field.bytes);  // packed
    else if (field.Is(6, WireKind::kBytes)) number = FirstOf<double>(field.bytes);
    return absl::OkStatus();
  }));
  if (!content.empty()) number = dtype == kFloat ? FirstOf<float>(content) : FirstOf<double>(content);
  return dtype == kFloat || dtype == kDouble ? number : std::nullopt;
}

// SummaryMetadata -> PluginData -> plugin_name.
absl::StatusOr<std::string> PluginOf(std::string_view metadata) {
  std::string plugin;
  MESHWORK_RETURN_IF_ERROR(ForEachField(metadata, [&](const WireField& field) {
    if (!field.Is(1, WireKind::kBytes)) return absl::OkStatus();
    return ForEachField(field.bytes, [&](const WireField& inner) {
      if (inner.Is(1, WireKind::kBytes)) plugin = inner.bytes;
      return absl::OkStatus();
    });
  }));
  return plugin;
}

// Reads one Summary.Value. `known`: what it shares with the others of its event.
absl::Status ReadValue(std::string_view value, const OtherSummary& known, Summaries& result) {
  OtherSummary other = known;
  std::optional<double> number;
  std::string_view tensor;
  MESHWORK_RETURN_IF_ERROR(ForEachField(value, [&](const WireField& field) -> absl::Status {
    if (field.Is(1, WireKind::kBytes)) other.tag = field.bytes;
    else if (field.Is(2, WireKind::kFixed32)) number = field.as_float();
    else if (field.Is(4, WireKind::kBytes)) other.plugin = "images";
    else if (field.Is(5, WireKind::kBytes)) other.plugin = "histograms";
    else if (field.Is(8, WireKind::kBytes)) tensor = field.bytes;
    else if (field.Is(9, WireKind::kBytes)) {
      MESHWORK_ASSIGN_OR_RETURN(other.plugin, PluginOf(field.bytes));
    }
    return absl::OkStatus();
  }));
  if (!number.has_value() && other.plugin == "scalars") {
    MESHWORK_ASSIGN_OR_RETURN(number, NumberOf(tensor));
  }
  if (number.has_value()) result.scalars.push_back({other.tag, other.step, other.wall_time, *number});
  else result.others.push_back(std::move(other));
  return absl::OkStatus();
}

absl::Status ReadEvent(std::string_view event, Summaries& result) {
  OtherSummary known;
  bool restarts = false;
  std::vector<std::string_view> summaries;  // their step may stand behind them
  MESHWORK_RETURN_IF_ERROR(ForEachField(event, [&](const WireField& field) {
    if (field.Is(1, WireKind::kFixed64)) known.wall_time = field.as_double();
    else if (field.Is(2, WireKind::kVarint)) known.step = field.as_int();
    else if (field.Is(4, WireKind::kBytes)) ++result.graphs;
    else if (field.Is(5, WireKind::kBytes)) summaries.push_back(field.bytes);
    else if (field.Is(7, WireKind::kBytes)) {
      return ForEachField(field.bytes, [&](const WireField& inner) {
        restarts = restarts || (inner.Is(1, WireKind::kVarint) && inner.as_int() == kSessionStart);
        return absl::OkStatus();
      });
    }
    return absl::OkStatus();
  }));
  if (restarts) {
    const auto is_void = [&](const auto& summary) { return summary.step >= known.step; };
    std::erase_if(result.scalars, is_void);
    std::erase_if(result.others, is_void);
  }
  for (std::string_view summary : summaries) {
    MESHWORK_RETURN_IF_ERROR(ForEachField(summary, [&](const WireField& field) {
      return field.Is(1, WireKind::kBytes) ? ReadValue(field.bytes, known, result) : absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::Status ReadFile(const std::string& path, Summaries& result) {
  MESHWORK_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(path));
  while (true) {
    const absl::StatusOr<std::optional<std::string_view>> record = reader.Next();
    if (absl::IsOutOfRange(record.status())) {
      result.cut_short.emplace_back(MessageOf(record.status()));
      return absl::OkStatus();
    }
    MESHWORK_RETURN_IF_ERROR(record.status());
    if (!record->has_value()) return absl::OkStatus();
    if (absl::Status read = ReadEvent(**record, result); !read.ok()) return Annotate(read, path + ": ");
  }
}

}  // namespace

absl::StatusOr<Summaries> ReadSummaries(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(path, error)) {
    files = {path};
  } else {
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      if (entry.path().filename().string().find("tfevents") != std::string::npos)
        files.push_back(entry.path().string());
    if (files.empty())
      return absl::NotFoundError(fmt::format(
          "{}: has no event file that can be read; their names contain \"tfevents\". Give the folder of one run.",
          path));
  }
  std::sort(files.begin(), files.end());
  Summaries result;
  for (const std::string& file : files) MESHWORK_RETURN_IF_ERROR(ReadFile(file, result));
  return result;
}

}  // namespace meshwork
