#include "meshwork/mesh/mesh.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

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
  std::vector<std::string> items;
  for (const Axis& axis : axes) items.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// Reads all of `text` as a whole number.
bool ReadNumber(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// The number of devices, if these axes make a mesh.
absl::StatusOr<int64_t> CountDevices(const std::vector<Axis>& axes) {
  if (axes.size() > Mesh::kMaxAxes) {
    return InvalidArgument("Mesh: {} has {} axes; at most {} are allowed.", Render(axes), axes.size(),
                           Mesh::kMaxAxes);
  }
  int64_t num_devices = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (!IsName(axis.name)) {
      return InvalidArgument(
          "Mesh: axis name \"{}\" in {}; a name is a letter followed by letters, digits and _.", axis.name,
          Render(axes));
    }
    if (axis.size < 1) {
      return InvalidArgument(
          "Mesh: axis \"{}\" has size {} in {}; sizes are at least 1, and an axis of size 1 shards "
          "nothing.",
          axis.name, axis.size, Render(axes));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axis.name) {
        return InvalidArgument(
            "Mesh: axis \"{}\" appears twice in {}; axis names must be unique: write one axis, or "
            "two names.",
            axis.name, Render(axes));
      }
    }
    if (axis.size > kMaxDevices / num_devices) {
      return InvalidArgument("Mesh: {} has more devices than 2^40, the most there can be.", Render(axes));
    }
    num_devices *= axis.size;
  }
  return num_devices;
}

// Reads the size of an axis, "8", or the sizes of its parts, "2*4"; `cuts` gets what the leading parts make.
absl::StatusOr<int64_t> ReadSize(std::string_view product, std::string_view name, std::string_view text,
                                 absl::InlinedVector<int64_t, 2>& cuts) {
  int64_t size = 1;
  while (true) {
    const size_t star = product.find('*');
    const std::string_view digits = Trim(product.substr(0, star));
    int64_t part = 0;
    if (!ReadNumber(digits, part))
      return InvalidArgument(
          "Mesh: size \"{}\" of axis \"{}\" in \"{}\" is not a whole number below 2^63; write for example "
          "batch=4,model=2.",
          digits, name, text);
    const bool is_last = star == std::string_view::npos;
    if (is_last && cuts.empty()) return part;
    if (part < 2 || part > kMaxDevices / size)
      return InvalidArgument(
          "Mesh: axis \"{}\" in \"{}\" has a part of {}; parts are at least 2, and at most 2^40 together.",
          name, text, part);
    size *= part;
    if (is_last) return size;
    cuts.push_back(size);
    product.remove_prefix(star + 1);
  }
}

}  // namespace

Mesh::Mesh() : rep_(std::make_shared<Rep>()) {}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes) {
  const size_t count = axes.size();
  return Create(std::move(axes), std::vector<Cuts>(count));
}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes, std::vector<Cuts> cuts) {
  MESHWORK_ASSIGN_OR_RETURN(const int64_t num_devices, CountDevices(axes));
  auto rep = std::make_shared<Rep>();
  rep->num_devices = num_devices;
  rep->declared = std::move(axes);
  rep->cuts = std::move(cuts);
  for (size_t i = 0; i < rep->declared.size(); ++i) {
    const Axis& axis = rep->declared[i];
    int64_t before = 1;
    auto add = [&](int64_t end) {
      const bool whole = before == 1 && end == axis.size;
      rep->axes.push_back(
          {whole ? axis.name : fmt::format("{}:({}){}", axis.name, before, end / before), end / before});
      rep->parts.push_back({static_cast<int>(i), before});
      before = end;
    };
    for (int64_t cut : rep->cuts[i]) add(cut);
    add(axis.size);
  }
  if (rep->axes.size() > kMaxParts)
    return InvalidArgument("Mesh: {} is cut into {} axes; at most {} are allowed.", Render(rep->declared),
                           rep->axes.size(), kMaxParts);
  rep->strides.resize(rep->axes.size());
  int64_t stride = 1;
  for (size_t i = rep->axes.size(); i-- > 0;) {
    rep->strides[i] = stride;
    stride *= rep->axes[i].size;
  }
  return Mesh(std::shared_ptr<const Rep>(std::move(rep)));
}

absl::StatusOr<Mesh> Mesh::Parse(std::string_view text) {
  std::string_view rest = Trim(text);
  if (!rest.empty() && rest.front() == '[') {
    if (rest.back() != ']' || rest.size() < 2) {
      return InvalidArgument(
          "Mesh: \"{}\" opens with [ and does not close with ]; write for example [batch=4, model=2].", text);
    }
    rest = Trim(rest.substr(1, rest.size() - 2));
  }
  std::vector<Axis> axes;
  std::vector<Cuts> cuts;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = Trim(rest.substr(0, comma));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("Mesh: \"{}\" in \"{}\" is not name=size; write for example batch=4,model=2.",
                             item, text);
    }
    const std::string_view name = Trim(item.substr(0, equals));
    Cuts cut;
    MESHWORK_ASSIGN_OR_RETURN(const int64_t size, ReadSize(item.substr(equals + 1), name, text, cut));
    axes.push_back({std::string(name), size});
    cuts.push_back(std::move(cut));
    if (comma == std::string_view::npos) break;
    rest = Trim(rest.substr(comma + 1));
    if (rest.empty())
      return InvalidArgument("Mesh: \"{}\" ends with a comma; write for example batch=4,model=2.", text);
  }
  return Create(std::move(axes), std::move(cuts));
}

int64_t Mesh::GroupSize(const AxisList& axes) const {
  int64_t size = 1;
  for (int a : axes) size *= axis(a).size;
  return size;
}

// "model" or "model:(2)4".
absl::StatusOr<Mesh::SubAxis> Mesh::ReadName(std::string_view name) const {
  const size_t colon = name.find(':');
  const std::string_view base = name.substr(0, colon);
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(rep_->declared.size()); ++i) {
    const Axis& axis = rep_->declared[i];
    names.push_back(axis.name);
    if (axis.name != base) continue;
    SubAxis sub{i, 1, axis.size};
    if (colon == std::string_view::npos) return sub;
    std::string_view rest = name.substr(colon + 1);
    const size_t close = rest.find(')');
    const bool reads = close != std::string_view::npos && rest[0] == '(' &&
                       ReadNumber(rest.substr(1, close - 1), sub.before) &&
                       ReadNumber(rest.substr(close + 1), sub.size);
    if (!reads)
      return InvalidArgument(
          "mesh {}: \"{}\" is no sub-axis; write for example {}:(2)4, the part of size 4 after the "
          "first 2.",
          ToString(), name, base);
    if (sub.before < 1 || sub.size < 2 || axis.size % sub.before != 0 ||
        axis.size / sub.before % sub.size != 0)
      return InvalidArgument(
          "mesh {}: \"{}\" is no sub-axis of {}={}; of {}:(a)b, a is at least 1, b at least 2, and a times b "
          "divides {}.",
          ToString(), name, base, axis.size, base, axis.size);
    return sub;
  }
  std::string hint = DidYouMean(base, names);
  if (hint.empty())
    hint = IsName(base)
               ? fmt::format("; name another, or add the axis to the mesh: {}=1 shards nothing.", base)
               : "; name an axis of it.";
  return InvalidArgument("mesh {} has no axis \"{}\"{}", ToString(), base, hint);
}

absl::StatusOr<AxisList> Mesh::FindAxes(std::string_view name) const {
  MESHWORK_ASSIGN_OR_RETURN(const SubAxis sub, ReadName(name));
  const int64_t end = sub.before * sub.size;
  AxisList found;
  int64_t at = sub.before;
  for (int i = 0; i < num_axes(); ++i) {
    const Part& part = rep_->parts[i];
    const bool is_next = part.before == at && (at < end || found.empty());  // an axis of size 1 ends at once
    if (part.axis != sub.axis || !is_next) continue;
    found.push_back(i);
    at *= axis(i).size;
  }
  if (found.empty() || at != end)
    return InvalidArgument("mesh {} is not cut at \"{}\"; a mesh says its parts as in model=2*4.", ToString(),
                           name);
  return found;
}

std::string Mesh::NameOf(const SubAxis& sub) const {
  const Axis& axis = rep_->declared[sub.axis];
  if (sub.size == axis.size) return axis.name;
  return fmt::format("{}:({}){}", axis.name, sub.before, sub.size);
}

std::vector<std::string> Mesh::NamesOf(const AxisList& axes) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < axes.size();) {
    SubAxis sub{rep_->parts[axes[i]].axis, rep_->parts[axes[i]].before, axis(axes[i]).size};
    for (++i; i < axes.size() && axes[i] == axes[i - 1] + 1 && Continues(axes[i]); ++i)
      sub.size *= axis(axes[i]).size;
    names.push_back(NameOf(sub));
  }
  return names;
}

absl::StatusOr<Mesh> Mesh::Cut(std::string_view name) const {
  MESHWORK_ASSIGN_OR_RETURN(const SubAxis sub, ReadName(name));
  std::vector<Cuts> cuts = rep_->cuts;
  Cuts& own = cuts[sub.axis];
  const Axis& axis = rep_->declared[sub.axis];
  for (int64_t cut : {sub.before, sub.before * sub.size})
    if (cut > 1 && cut < axis.size) own.push_back(cut);
  std::sort(own.begin(), own.end());
  own.erase(std::unique(own.begin(), own.end()), own.end());
  for (size_t i = 1; i < own.size(); ++i) {
    if (own[i] % own[i - 1] != 0)
      return InvalidArgument(
          "mesh {}: axis \"{}\" would be cut after {} and after {}; one must divide the other.", ToString(),
          axis.name, own[i - 1], own[i]);
  }
  if (own == rep_->cuts[sub.axis]) return *this;
  return Create(rep_->declared, std::move(cuts));
}

absl::StatusOr<Mesh> Mesh::CutAxis(int i, int64_t major) const {
  const Part& part = rep_->parts[i];
  return Cut(NameOf({part.axis, part.before, major}));
}

AxisList Mesh::On(const Mesh& finer, const AxisList& axes) const {
  AxisList result;
  for (int a : axes) {
    const AxisList parts =
        finer.FindAxes(NameOf({rep_->parts[a].axis, rep_->parts[a].before, axis(a).size})).value();
    result.insert(result.end(), parts.begin(), parts.end());
  }
  return result;
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

std::string Mesh::ToString() const {
  std::vector<std::string> items;
  for (int i = 0; i < num_axes(); ++i) {
    if (Continues(i)) items.back() += fmt::format("*{}", axis(i).size);
    else items.push_back(fmt::format("{}={}", rep_->declared[rep_->parts[i].axis].name, axis(i).size));
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string Mesh::AxesToString(const AxisList& axes) const {
  return fmt::format("({})", fmt::join(NamesOf(axes), ","));
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
