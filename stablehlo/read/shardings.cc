#include "meshwork/stablehlo/read/shardings.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "fmt/ranges.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text_reader.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

// ---- Shardy.

std::string EntryText(const std::vector<std::string>& axes, bool is_open) {
  if (axes.empty()) return is_open ? "?" : "_";
  return axes.size() == 1 ? axes[0] : fmt::format("({})", fmt::join(axes, ","));
}

// The name of a mesh or an axis in quotes.
absl::StatusOr<std::string> QuotedName(TextReader& text) {
  MESHWORK_RETURN_IF_ERROR(text.Take('"'));
  MESHWORK_ASSIGN_OR_RETURN(std::string name, text.Word("the name of an axis"));
  MESHWORK_RETURN_IF_ERROR(text.Take('"'));
  return name;
}

// {"x", "y":(2)4, ?}p1 of a dim.
absl::StatusOr<std::string> ReadDim(TextReader& text) {
  MESHWORK_RETURN_IF_ERROR(text.Take('{'));
  std::vector<std::string> axes;
  bool is_open = false;
  while (!text.TryTake('}')) {
    if (text.TryTake('?')) {
      is_open = true;
    } else {
      MESHWORK_ASSIGN_OR_RETURN(std::string axis, QuotedName(text));
      if (text.TryTake(':')) {
        MESHWORK_RETURN_IF_ERROR(text.Take('('));
        MESHWORK_ASSIGN_OR_RETURN(const int64_t before, text.Int());
        MESHWORK_RETURN_IF_ERROR(text.Take(')'));
        MESHWORK_ASSIGN_OR_RETURN(const int64_t size, text.Int());
        axis += fmt::format(":({}){}", before, size);
      }
      axes.push_back(std::move(axis));
    }
    if (text.Peek() != '}') MESHWORK_RETURN_IF_ERROR(text.Take(','));
  }
  (void)text.ReadWord();  // its priority
  return EntryText(axes, is_open);
}

// "sdy.sharding<@mesh, [{"x"}, {}], replicated={"y"}>".
absl::StatusOr<std::string> ReadShardy(std::string_view sharding) {
  TextReader text(sharding, "sdy.sharding");
  MESHWORK_RETURN_IF_ERROR(text.Word("sdy.sharding", ".").status());
  MESHWORK_RETURN_IF_ERROR(text.Take('<'));
  MESHWORK_RETURN_IF_ERROR(text.Take('@'));
  MESHWORK_RETURN_IF_ERROR(text.Word("the name of a mesh").status());
  MESHWORK_RETURN_IF_ERROR(text.Take(','));
  MESHWORK_RETURN_IF_ERROR(text.Take('['));
  std::vector<std::string> dims;
  while (!text.TryTake(']')) {
    MESHWORK_ASSIGN_OR_RETURN(std::string dim, ReadDim(text));
    dims.push_back(std::move(dim));
    if (text.Peek() != ']') MESHWORK_RETURN_IF_ERROR(text.Take(','));
  }
  // Axes that are said not to cut it, which those that are not named do not either.
  while (text.TryTake(',')) {
    MESHWORK_RETURN_IF_ERROR(text.Keyword("replicated"));
    MESHWORK_RETURN_IF_ERROR(text.Take('='));
    MESHWORK_RETURN_IF_ERROR(text.Bracketed('{', '}').status());
  }
  MESHWORK_RETURN_IF_ERROR(text.Take('>'));
  return fmt::format("{{{}}}", fmt::join(dims, ","));
}

// ---- GSPMD.

// Which tile of a tensor each device has, and how many tiles there are along each dim.
struct Tiles {
  std::vector<int64_t> along;  // per dim of the tensor
  std::vector<int64_t> of;     // per device, in row-major order of the tiles
};

constexpr int64_t kMostDevices = 1 << 16;

absl::StatusOr<int64_t> DevicesIn(TextReader& text, const std::vector<int64_t>& sizes) {
  int64_t devices = 1;
  for (const int64_t size : sizes) {
    if (size < 1 || size > kMostDevices || (devices *= size) > kMostDevices)
      return text.FailAt(text.at(), "these are too many devices, or none.");
  }
  return devices;
}

// [2,1,2]<=[2,2]T(1,0), or [2,2]0,1,2,3: the devices in the order of the tiles.
absl::StatusOr<std::vector<int64_t>> ReadDevices(TextReader& text, int64_t count) {
  std::vector<int64_t> devices(static_cast<size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  if (!text.TryTake('<')) {
    for (int64_t& device : devices) {
      (void)text.TryTake(',');
      MESHWORK_ASSIGN_OR_RETURN(device, text.Int());
    }
    return devices;
  }
  MESHWORK_RETURN_IF_ERROR(text.Take('='));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, text.Ints());
  MESHWORK_ASSIGN_OR_RETURN(const int64_t all, DevicesIn(text, sizes));
  if (all != count) return text.FailAt(text.at(), "there are more tiles than devices, or fewer.");
  if (!text.TryWord("T")) return devices;
  MESHWORK_RETURN_IF_ERROR(text.Take('('));
  std::vector<int64_t> permutation;
  do {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t d, text.Int());
    permutation.push_back(d);
  } while (text.TryTake(','));
  MESHWORK_RETURN_IF_ERROR(text.Take(')'));
  std::vector<int64_t> sorted = permutation, strides(sizes.size(), 1);
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d)
    if (sorted.size() != sizes.size() || sorted[d] != static_cast<int64_t>(d))
      return text.FailAt(text.at(), "this is no permutation.");
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, device = 0;
    for (size_t d = permutation.size(); d-- > 0;) {
      const auto dim = static_cast<size_t>(permutation[d]);
      device += rest % sizes[dim] * strides[dim];
      rest /= sizes[dim];
    }
    devices[static_cast<size_t>(i)] = device;
  }
  return devices;
}

// "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"; nothing: "{replicated}", "{maximal device=0}" and the like, which cut nothing.
absl::StatusOr<std::optional<Tiles>> ReadTiles(std::string_view sharding, int rank) {
  TextReader text(sharding, "mhlo.sharding");
  MESHWORK_RETURN_IF_ERROR(text.Take('{'));
  if (!text.TryWord("devices")) return std::optional<Tiles>();
  MESHWORK_RETURN_IF_ERROR(text.Take('='));
  MESHWORK_ASSIGN_OR_RETURN(std::vector<int64_t> along, text.Ints());
  MESHWORK_ASSIGN_OR_RETURN(const int64_t count, DevicesIn(text, along));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> devices, ReadDevices(text, count));
  if (std::ssize(along) < rank) return text.FailAt(0, "it has fewer dims than the tensor.");
  int64_t repeated = 1;
  while (std::ssize(along) > rank) {
    repeated *= along.back();
    along.pop_back();
  }
  Tiles tiles{.along = along, .of = std::vector<int64_t>(devices.size(), -1)};
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i] < 0 || devices[i] >= count || tiles.of[static_cast<size_t>(devices[i])] >= 0)
      return text.FailAt(0, "a device has several tiles.");
    tiles.of[static_cast<size_t>(devices[i])] = static_cast<int64_t>(i) / repeated;
  }
  return std::optional(std::move(tiles));
}

// The coordinate of `device` on the axes together, the first the slowest.
int64_t CoordinateOn(const Mesh& mesh, const std::vector<int>& axes, int64_t device) {
  int64_t coordinate = 0;
  for (const int axis : axes) {
    int64_t stride = 1;
    for (int a = axis + 1; a < mesh.num_axes(); ++a) stride *= mesh.axis(a).size;
    coordinate = coordinate * mesh.axis(axis).size + device / stride % mesh.axis(axis).size;
  }
  return coordinate;
}

// Axes, in order, that cut a dim into these tiles. Each that is added makes a coarser cut right, so few are tried in vain.
bool FindAxes(const Mesh& mesh, const std::vector<int64_t>& tile_of_device, int64_t tiles,
              std::vector<int>& axes) {
  int64_t made = 1;
  for (const int axis : axes) made *= mesh.axis(axis).size;
  for (int64_t device = 0; device < mesh.num_devices(); ++device)
    if (CoordinateOn(mesh, axes, device) != tile_of_device[static_cast<size_t>(device)] / (tiles / made))
      return false;
  if (made == tiles) return true;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const int64_t size = mesh.axis(axis).size;
    if (size == 1 || tiles % (made * size) != 0 || std::find(axes.begin(), axes.end(), axis) != axes.end())
      continue;
    axes.push_back(axis);
    if (FindAxes(mesh, tile_of_device, tiles, axes)) return true;
    axes.pop_back();
  }
  return false;
}

absl::StatusOr<std::string> AsLayout(std::string_view sharding, const Tiles& tiles, const Mesh& mesh) {
  const auto fail = [&] {
    return InvalidArgument(
        "mhlo.sharding {}: the mesh {} gives the devices no such tiles; give the mesh that the "
        "module was lowered for.",
        Quoted(sharding), mesh.ToString());
  };
  if (std::ssize(tiles.of) != mesh.num_devices()) return fail();
  std::vector<std::string> dims;
  int64_t inner = 1;
  for (const int64_t along : tiles.along) inner *= along;
  for (const int64_t along : tiles.along) {
    inner /= along;
    std::vector<int64_t> tile_of_device;
    for (const int64_t tile : tiles.of) tile_of_device.push_back(tile / inner % along);
    std::vector<int> axes;
    if (!FindAxes(mesh, tile_of_device, along, axes)) return fail();
    std::vector<std::string> names;
    for (const int axis : axes) names.push_back(mesh.axis(axis).name);
    dims.push_back(EntryText(names, false));
  }
  return fmt::format("{{{}}}", fmt::join(dims, ","));
}

absl::StatusOr<std::optional<Mesh>> TryMeshOf(const Module& module) {
  std::optional<Mesh> mesh;
  for (const Op& op : module.op.regions[0].ops) {
    if (op.name != "sdy.mesh") continue;
    const Attribute* const attribute = op.attributes.Find("mesh");
    TextReader text(attribute == nullptr ? std::string_view() : std::string_view(attribute->text),
                    "sdy.mesh");
    MESHWORK_RETURN_IF_ERROR(text.Word("sdy.mesh", ".").status());
    MESHWORK_RETURN_IF_ERROR(text.Take('<'));
    MESHWORK_RETURN_IF_ERROR(text.Take('['));
    std::vector<std::string> axes;
    while (!text.TryTake(']')) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string name, QuotedName(text));
      MESHWORK_RETURN_IF_ERROR(text.Take('='));
      MESHWORK_ASSIGN_OR_RETURN(const int64_t size, text.Int());
      axes.push_back(fmt::format("{}={}", name, size));
      if (text.Peek() != ']') MESHWORK_RETURN_IF_ERROR(text.Take(','));
    }
    if (axes.empty()) continue;
    MESHWORK_ASSIGN_OR_RETURN(const Mesh read, Mesh::Parse(fmt::format("{}", fmt::join(axes, ","))));
    if (mesh.has_value() && *mesh != read)
      return InvalidArgument("the module has several meshes, which differ; one is read.");
    mesh = read;
  }
  return mesh;
}

absl::StatusOr<std::optional<std::string>> TryLayoutOf(const Attribute& attributes, const Mesh& mesh,
                                                       int rank) {
  if (const Attribute* const shardy = attributes.Find("sdy.sharding"); shardy != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(std::string layout, ReadShardy(shardy->text));
    return std::optional(std::move(layout));
  }
  const Attribute* const gspmd = attributes.Find("mhlo.sharding");
  if (gspmd == nullptr) return std::optional<std::string>();
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<Tiles> tiles, ReadTiles(gspmd->text, rank));
  if (!tiles.has_value()) return std::optional<std::string>();
  MESHWORK_ASSIGN_OR_RETURN(std::string layout, AsLayout(gspmd->text, *tiles, mesh));
  return std::optional(std::move(layout));
}

// An error of a text within the module's, without the line that it shows.
absl::Status InOneLine(const absl::Status& status) {
  const std::string_view message = MessageOf(status);
  return absl::Status(status.code(), std::string(message.substr(0, message.find('\n'))));
}

// ---- Ops.

// Pins a value where it is computed; a value that has a pin already is taken to the other layout.
absl::StatusOr<Bounds> ReadPinned(const OpView& view, const Attribute& attributes) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1));
  const absl::StatusOr<std::optional<std::string>> layout =
      LayoutOf(attributes, view.graph.mesh(), view.type(0).rank());
  if (!layout.ok()) return view.Fail(MessageOf(layout.status()));
  const Value x = view.Arg(0);
  if (!x.valid() || !layout->has_value()) return Bounds{x};
  const absl::StatusOr<LayoutPin> pin = LayoutPin::Parse(view.graph.mesh(), **layout);
  if (!pin.ok()) return view.Fail(MessageOf(pin.status()));
  const ValueInfo& info = x.graph()->value(x.id());
  const bool may_be_pinned = x.graph() == &view.graph && info.node >= 0 && !info.layout.has_value();
  if (may_be_pinned) return Bounds{WithLayout(x, SpecOf(*pin))};
  return Bounds{Relayout(x, SpecOf(*pin))};
}

absl::StatusOr<Bounds> ReadConstraint(const OpView& view) {
  Attribute attributes{.kind = Attribute::Kind::kDict};
  if (const Attribute* const sharding = view.FindAttribute("sharding"); sharding != nullptr)
    attributes.members.emplace_back("sdy.sharding", *sharding);
  return ReadPinned(view, attributes);
}

absl::StatusOr<Bounds> ReadCustomCall(const OpView& view) {
  const Attribute* const target = view.FindAttribute("call_target_name");
  const std::string name = target == nullptr ? "" : target->text;
  if (name == "Sharding") return ReadPinned(view, view.op.attributes);
  return view.Fail(fmt::format(
      "a call of {}, which is code of another library, is not read; lower the function without it.",
      Quoted(name)));
}

constexpr NamedReadOp kShardingOps[] = {
    {"sdy.sharding_constraint", ReadConstraint},
    {"stablehlo.custom_call", ReadCustomCall},
};

}  // namespace

absl::StatusOr<std::optional<Mesh>> MeshOf(const Module& module) {
  absl::StatusOr<std::optional<Mesh>> mesh = TryMeshOf(module);
  if (!mesh.ok()) return InOneLine(mesh.status());
  return mesh;
}

absl::StatusOr<std::optional<std::string>> LayoutOf(const Attribute& attributes, const Mesh& mesh, int rank) {
  absl::StatusOr<std::optional<std::string>> layout = TryLayoutOf(attributes, mesh, rank);
  if (!layout.ok()) return InOneLine(layout.status());
  return layout;
}

std::span<const NamedReadOp> ShardingOps() { return kShardingOps; }

}  // namespace meshwork::mlir
