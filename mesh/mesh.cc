#include "mesh/mesh.h"

#include <algorithm>
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

}  // namespace

Mesh::Mesh() : rep_(std::make_shared<Rep>()) {}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes) {
  const size_t count = axes.size();
  return Create(std::move(axes), std::vector<Cuts>(count));
}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes, std::vector<Cuts> cuts) {
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
      return InvalidArgument("Mesh: \"{}\" opens with [ and does not close with ].", text);
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
    std::string_view product = item.substr(equals + 1);
    int64_t size = 1;
    Cuts cut;
    while (true) {
      const size_t star = product.find('*');
      const std::string_view digits = Trim(product.substr(0, star));
      int64_t part = 0;
      if (!ReadNumber(digits, part))
        return InvalidArgument("Mesh: size \"{}\" of axis \"{}\" in \"{}\" is not a whole number below 2^63.",
                               digits, name, text);
      const bool is_cut = star != std::string_view::npos || !cut.empty();
      if (is_cut && (part < 2 || part > kMaxDevices / size))
        return InvalidArgument(
            "Mesh: axis \"{}\" in \"{}\" has a part of {}; parts are at least 2, and at most "
            "2^40 together.",
            name, text, part);
      size = is_cut ? size * part : part;
      if (star == std::string_view::npos) break;
      cut.push_back(size);
      product.remove_prefix(star + 1);
    }
    axes.push_back({std::string(name), size});
    cuts.push_back(std::move(cut));
    if (comma == std::string_view::npos) break;
    rest = Trim(rest.substr(comma + 1));
    if (rest.empty()) return InvalidArgument("Mesh: \"{}\" ends with a comma.", text);
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
      return InvalidArgument("mesh {}: \"{}\" is no sub-axis of {}={}; ({}) times {} must divide {}.",
                             ToString(), name, base, axis.size, sub.before, sub.size, axis.size);
    return sub;
  }
  std::string hint = DidYouMean(base, names);
  return InvalidArgument("mesh {} has no axis \"{}\"{}", ToString(), base, hint.empty() ? "." : hint);
}

absl::StatusOr<AxisList> Mesh::FindAxes(std::string_view name) const {
  ASSIGN_OR_RETURN(const SubAxis sub, ReadName(name));
  AxisList found;
  int64_t size = 1;
  for (int i = 0; i < num_axes(); ++i) {
    const Part& part = rep_->parts[i];
    if (part.axis != sub.axis || part.before < sub.before ||
        part.before >= std::max<int64_t>(sub.before * sub.size, 2))
      continue;  // an axis of size 1 is its own part
    if (found.empty() && part.before != sub.before) break;
    found.push_back(i);
    size *= axis(i).size;
  }
  if (found.empty() || size != sub.size)
    return InvalidArgument("mesh {} is not cut at \"{}\".", ToString(), name);
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

absl::StatusOr<Mesh> Mesh::WithCuts(const std::vector<Cuts>& more) const {
  std::vector<Cuts> cuts = rep_->cuts;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const int64_t size = rep_->declared[i].size;
    for (int64_t cut : more[i])
      if (cut > 1 && cut < size) cuts[i].push_back(cut);
    std::sort(cuts[i].begin(), cuts[i].end());
    cuts[i].erase(std::unique(cuts[i].begin(), cuts[i].end()), cuts[i].end());
    for (size_t c = 1; c < cuts[i].size(); ++c) {
      if (cuts[i][c] % cuts[i][c - 1] != 0)
        return InvalidArgument(
            "mesh {}: axis \"{}\" would be cut after {} and after {}; one must divide the other.", ToString(),
            rep_->declared[i].name, cuts[i][c - 1], cuts[i][c]);
    }
  }
  if (cuts == rep_->cuts) return *this;
  return Create(rep_->declared, std::move(cuts));
}

absl::StatusOr<Mesh> Mesh::Cut(std::string_view name) const {
  ASSIGN_OR_RETURN(const SubAxis sub, ReadName(name));
  std::vector<Cuts> cuts(rep_->cuts.size());
  cuts[sub.axis] = {sub.before, sub.before * sub.size};
  return WithCuts(cuts);
}

absl::StatusOr<Mesh> Mesh::CutAs(const Mesh& other) const {
  if (rep_->declared != other.rep_->declared)
    return InvalidArgument("meshes {} and {} differ; only cuts of one mesh go together.", ToString(),
                           other.ToString());
  return WithCuts(other.rep_->cuts);
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

std::string Mesh::AxesToString(const AxisList& list) const {
  return fmt::format("({})", fmt::join(NamesOf(list), ","));
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
