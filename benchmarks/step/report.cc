#include "benchmarks/step/report.h"

#include <optional>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr double kIdleAtMost = 0.1;  // cores

std::string Cell(const std::optional<double>& value, const char* format) {
  return value.has_value() ? fmt::format(fmt::runtime(format), *value) : "";
}

std::string Table(const BatchResult& b) {
  std::string text = fmt::format("\nbatch {}: rounds of {}\n", b.batch, Count(b.steps, "step"));
  if (b.floors.has_value())
    text += fmt::format("a step is {:.3f} GFLOP, here at least {:.3f} ms, and {:.1f} MB, {:.3f} ms\n",
                        b.floors->gflop, b.floors->products_ms, b.floors->megabytes, b.floors->memory_ms);
  text += fmt::format("{:<18} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "", "ms", "fastest", "ratio", "fastest",
                      "distance", "peak MB");
  for (const VariantResult& v : b.variants) {
    std::string line = fmt::format("{:<18} {:>9.3f} {:>9.3f} {:>9} {:>9} {:>9} {:>8}", v.variant, v.ms,
                                   v.min_ms, Cell(v.ratio, "{:.3f}"), Cell(v.min_ratio, "{:.3f}"),
                                   Cell(v.distance, "{:.1e}"), Cell(v.peak_mb, "{:.1f}"));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// Nothing if one of the two was not measured.
std::optional<double> MemoryOf8Over1(const BatchResult& b) {
  const VariantResult *one = b.Find("batch=1"), *eight = b.Find("batch=8");
  if (one == nullptr || eight == nullptr || !one->peak_mb.has_value() || !eight->peak_mb.has_value())
    return std::nullopt;
  return *eight->peak_mb / *one->peak_mb;
}

void Set(nlohmann::ordered_json& json, const char* key, const std::optional<double>& value) {
  if (value.has_value()) json[key] = *value;
}

}  // namespace

std::string StepReport::ToTable() const {
  std::string text =
      fmt::format("{}, {} workers, medians of {} in turn\n", cpu, workers, Count(repeats, "round"));
  for (const BatchResult& batch : batches) {
    text += Table(batch);
    if (const std::optional<double> ratio = MemoryOf8Over1(batch))
      text += fmt::format("peak memory, batch=8 over batch=1: {:.3f}\n", *ratio);
    if (batch.idle_cores > kIdleAtMost)
      text += fmt::format("between rounds {:.2f} cores were busy: threads that wait do not sleep\n",
                          batch.idle_cores);
  }
  return text;
}

std::string StepReport::ToJson() const {
  nlohmann::ordered_json json = {{"cpu", cpu}, {"workers", workers}, {"repeats", repeats}};
  json["batches"] = nlohmann::ordered_json::array();
  for (const BatchResult& b : batches) {
    nlohmann::ordered_json& batch = json["batches"].emplace_back();
    batch = {{"batch", b.batch}, {"steps", b.steps}};
    if (b.floors.has_value()) {
      batch["gflop"] = b.floors->gflop;
      batch["mb"] = b.floors->megabytes;
      batch["products_ms"] = b.floors->products_ms;
      batch["memory_ms"] = b.floors->memory_ms;
    }
    batch["variants"] = nlohmann::ordered_json::array();
    for (const VariantResult& v : b.variants) {
      nlohmann::ordered_json& variant = batch["variants"].emplace_back();
      variant = {{"variant", v.variant}, {"ms", v.ms}, {"min_ms", v.min_ms}};
      Set(variant, "ratio", v.ratio);
      Set(variant, "min_ratio", v.min_ratio);
      Set(variant, "distance", v.distance);
      Set(variant, "peak_mb", v.peak_mb);
    }
    batch["idle_cores"] = b.idle_cores;
    Set(batch, "rss_8_over_1", MemoryOf8Over1(b));
  }
  return json.dump(2) + "\n";
}

}  // namespace meshwork
