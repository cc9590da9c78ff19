#include "mesh/mesh.h"

#include <charconv>

#include "base/status.h"
#include "base/suggest.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace meshwork {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 40;

bool IsName(std::string_view name) {
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) return false;
  for (char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

std::string Render(const std::vector<Axis>& axes) {
  std::string out = "[";
  for (size_t i = 0; i < axes.size(); ++i) {
    out += fmt::format("{}{}={}", i == 0 ? "" : ", ", axes[i].name, axes[i].size);
  }
  return out + "]";
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

}  // namespace

Mesh::Mesh() : rep_(std::make_shared<Rep>()) {}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes) {
  auto rep = std::make_shared<Rep>();
  if (axes.size() > kMaxAxes) {
    return InvalidArgument("Mesh: {} has {} axes; at most {} are allowed.", Render(axes), axes.size(),
                           kMaxAxes);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (!IsName(axis.name)) {
      return InvalidArgument(
          "Mesh: axis name \"{}\" in {}; a name is a letter followed by letters, digits and _.", axis.name,
          Render(axes));
    }
    if (axis.size < 1) {
      return InvalidArgument("Mesh: axis \"{}\" has size {} in {}; sizes are at least 1.", axis.name,
                             axis.size, Render(axes));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axis.name) {
        return InvalidArgument("Mesh: axis \"{}\" appears twice in {}; axis names must be unique.", axis.name,
                               Render(axes));
      }
    }
    if (axis.size > kMaxDevices / rep->num_devices) {
      return InvalidArgument("Mesh: {} has more than 2^40 devices.", Render(axes));
    }
    rep->num_devices *= axis.size;
  }
  rep->strides.resize(axes.size());
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    rep->strides[i] = stride;
    stride *= axes[i].size;
  }
  rep->axes = std::move(axes);
  return Mesh(std::shared_ptr<const Rep>(std::move(rep)));
}

absl::StatusOr<Mesh> Mesh::Parse(std::string_view text) {
  std::string_view rest = Trim(text);
  if (!rest.empty() && rest.front() == '[') {
    if (rest.back() != ']' || rest.size() < 2) {
      return InvalidArgument("Mesh: \"{}\" opens with [ and does not close with ].", text);
    }
    rest = Trim(rest.substr(1, rest.size() - 2));
  }
  std::vector<Axis> axes;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = Trim(rest.substr(0, comma));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("Mesh: \"{}\" in \"{}\" is not name=size; write for example batch=4,model=2.",
                             item, text);
    }
    const std::string_view digits = Trim(item.substr(equals + 1));
    int64_t size = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return InvalidArgument("Mesh: size \"{}\" of axis \"{}\" in \"{}\" is not a whole number below 2^63.",
                             digits, Trim(item.substr(0, equals)), text);
    }
    axes.push_back({std::string(Trim(item.substr(0, equals))), size});
    if (comma == std::string_view::npos) break;
    rest = Trim(rest.substr(comma + 1));
    if (rest.empty()) return InvalidArgument("Mesh: \"{}\" ends with a comma.", text);
  }
  return Create(std::move(axes));
}

int64_t Mesh::GroupSize(const AxisList& axes) const {
  int64_t size = 1;
  for (int a : axes) size *= axis(a).size;
  return size;
}

absl::StatusOr<int> Mesh::FindAxis(std::string_view name) const {
  std::vector<std::string> names;
  for (int i = 0; i < num_axes(); ++i) {
    if (axis(i).name == name) return i;
    names.push_back(axis(i).name);
  }
  std::string hint = DidYouMean(name, names);
  return InvalidArgument("mesh {} has no axis \"{}\"{}", ToString(), name, hint.empty() ? "." : hint);
}

Coordinates Mesh::Coordinate(int64_t device) const {
  MESHWORK_CHECK(device >= 0 && device < num_devices(), "device {} of {}", device, ToString());
  Coordinates coordinate(num_axes());
  for (int i = 0; i < num_axes(); ++i) coordinate[i] = CoordinateOn(i, device);
  return coordinate;
}

int64_t Mesh::DeviceAt(std::span<const int64_t> coordinate) const {
  MESHWORK_CHECK(static_cast<int>(coordinate.size()) == num_axes());
  int64_t device = 0;
  for (int i = 0; i < num_axes(); ++i) device += coordinate[i] * stride(i);
  return device;
}

std::string Mesh::ToString() const { return Render(axes()); }

std::string Mesh::AxesToString(const AxisList& list) const {
  std::string out = "(";
  for (size_t i = 0; i < list.size(); ++i) out += (i == 0 ? "" : ",") + axis(list[i]).name;
  return out + ")";
}

AxisGroup::AxisGroup(const Mesh& mesh, const AxisList& axes) {
  for (int axis : axes) {
    parts_.push_back({mesh.axis(axis).size, mesh.stride(axis)});
    size_ *= mesh.axis(axis).size;
  }
}

int64_t AxisGroup::RankOf(int64_t device) const {
  int64_t rank = 0;
  for (const Part& part : parts_) rank = rank * part.size + device / part.stride % part.size;
  return rank;
}

int64_t AxisGroup::Member(int64_t device, int64_t rank) const {
  for (size_t i = parts_.size(); i-- > 0;) {
    const Part& part = parts_[i];
    const int64_t current = device / part.stride % part.size;
    device += (rank % part.size - current) * part.stride;
    rank /= part.size;
  }
  return device;
}

}  // namespace meshwork
