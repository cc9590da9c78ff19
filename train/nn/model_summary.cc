#include "meshwork/train/nn/model_summary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// 4160 -> "4,160".
std::string WithCommas(int64_t n) {
  std::string digits = std::to_string(n);
  for (int64_t at = std::ssize(digits) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

struct Total {
  int64_t variables = 0, elements = 0, bytes = 0, on_device = 0;

  void Add(const ValueInfo& info) {
    ++variables;
    elements += info.type.num_elements();
    bytes += info.type.bytes();
    on_device += OnDevice(info);
  }
  static int64_t OnDevice(const ValueInfo& info) {
    return Type{info.type.dtype, info.layout->LocalShape(info.type.shape)}.bytes();
  }
  std::string ToString(std::string_view kind) const {
    return fmt::format("{} elements in {} {}: {} bytes, {} on a device\n", WithCommas(elements),
                       Count(variables, "variable"), kind, WithCommas(bytes), WithCommas(on_device));
  }
};

// Whether a variable is an optimizer's: "adam/m/w" of w, or "adam/step" beside it.
class Optimizers {
 public:
  explicit Optimizers(const Graph& graph) {
    for (const Argument& argument : graph.arguments()) {
      const ValueInfo& info = graph.value(argument.value);
      if (!argument.is_variable) continue;
      if (argument.is_trainable) {
        weights_.emplace(info.name, info.type.shape);
        continue;
      }
      for (const auto& [weight, shape] : weights_)
        if (info.type.shape == shape && info.name.ends_with("/" + weight))
          prefixes_.push_back(info.name.substr(0, info.name.find('/') + 1));
    }
  }
  bool Own(const Argument& argument, std::string_view name) const {
    return !argument.is_trainable &&
           std::any_of(prefixes_.begin(), prefixes_.end(),
                       [&](const std::string& prefix) { return name.starts_with(prefix); });
  }

 private:
  std::map<std::string, Shape> weights_;
  std::vector<std::string> prefixes_;
};

using Row = std::array<std::string, 7>;

// Columns 0 to 2 to the left, the others to the right.
std::string Table(const std::vector<Row>& rows) {
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c)
      line += c < 3 || c == 6 ? fmt::format("{:<{}}  ", row[c], widths[c])
                              : fmt::format("{:>{}}  ", row[c], widths[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string Summary(const Graph& graph) {
  const Optimizers optimizers(graph);
  std::vector<Row> rows = {{"variable", "type", "layout", "elements", "bytes", "per device", ""}};
  Total trained, fixed, state;
  std::string group;
  for (const Argument& argument : graph.arguments()) {
    if (!argument.is_variable) continue;
    const ValueInfo& info = graph.value(argument.value);
    if (optimizers.Own(argument, info.name)) {
      state.Add(info);
      continue;
    }
    (argument.is_trainable ? trained : fixed).Add(info);
    const size_t slash = info.name.find('/');
    const std::string part = slash == std::string::npos ? "" : info.name.substr(0, slash);
    if (part != group && !part.empty()) rows.push_back({part});
    group = part;
    rows.push_back({part.empty() ? info.name : "  " + info.name.substr(slash + 1), info.type.ToString(),
                    LayoutPin{*info.layout, info.modes}.ToString(), WithCommas(info.type.num_elements()),
                    WithCommas(info.type.bytes()), WithCommas(Total::OnDevice(info)),
                    argument.is_trainable ? "" : "not trained"});
  }
  std::string text = Table(rows);
  text += trained.ToString(trained.variables == 1 ? "that is trained" : "that are trained");
  if (fixed.variables > 0)
    text += fixed.ToString(fixed.variables == 1 ? "that is not trained" : "that are not trained");
  if (state.variables > 0) text += state.ToString("of optimizers");
  return text;
}

}  // namespace meshwork
