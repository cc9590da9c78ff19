#include "meshwork/layout/spelled.h"

#include <algorithm>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// Binds names to the axes of a mesh, which it cuts where they are parts.
class Resolver {
 public:
  Resolver(const Mesh& mesh, const std::string& where) : mesh_(mesh), where_(where) {}

  absl::StatusOr<LayoutPin> Resolve(const SpelledLayout& spelled) {
    MESHWORK_RETURN_IF_ERROR(CutMesh(spelled));
    LayoutPin pin;
    std::vector<FactorList> dims;
    for (const DimSpec& dim : spelled.dims) {
      MESHWORK_ASSIGN_OR_RETURN(FactorList factors, ResolveDim(dim));
      dims.push_back(std::move(factors));
      pin.modes.push_back(dim.mode());
    }
    PartialSet partials;
    for (const PartialSpec& partial : spelled.owed) {
      if (partial.op != spelled.owed[0].op)
        return Error("owes {} and {}; a value owes reductions of one kind, because two do not commute.",
                     ReduceOpName(spelled.owed[0].op), ReduceOpName(partial.op));
      MESHWORK_ASSIGN_OR_RETURN(AxisList axes, Find(partial.axes));
      for (int axis : axes) partials.push_back({axis, partial.op});
    }
    pin.layout = Layout::Strided(mesh_, dims, std::move(partials));
    if (!pin.Has(DimMode::kOpen) && !pin.Has(DimMode::kMatch)) pin.modes.clear();
    return pin;
  }

 private:
  template <typename... Args>
  absl::Status Error(fmt::format_string<Args...> text, Args&&... args) {
    return InvalidArgument("Layout {}: {}", where_, fmt::format(text, std::forward<Args>(args)...));
  }

  absl::Status CutFor(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      absl::StatusOr<Mesh> cut = mesh_.Cut(name);
      if (!cut.ok()) return Annotate(cut.status(), fmt::format("Layout {}: ", where_));
      mesh_ = *std::move(cut);
    }
    return absl::OkStatus();
  }
  // All cuts come before the first axis is looked up: they move positions.
  absl::Status CutMesh(const SpelledLayout& spelled) {
    for (const DimSpec& dim : spelled.dims) {
      MESHWORK_RETURN_IF_ERROR(CutFor(dim.axes()));
      for (const FactorSpec& factor : dim.factors()) MESHWORK_RETURN_IF_ERROR(CutFor(factor.axes));
    }
    for (const PartialSpec& partial : spelled.owed) MESHWORK_RETURN_IF_ERROR(CutFor(partial.axes));
    return absl::OkStatus();
  }

  absl::StatusOr<FactorList> ResolveDim(const DimSpec& dim) {
    FactorList factors;
    if (dim.factors().empty()) {
      MESHWORK_ASSIGN_OR_RETURN(AxisList axes, Find(dim.axes()));
      factors.push_back({1, std::move(axes)});
      return factors;
    }
    if (dim.factors().size() == 1)
      return Error("a dim of one factor, {}, is a plain one; write its axes only.",
                   LayoutSpecToString({dim}));
    constexpr int64_t kMaxElements = int64_t{1} << 40;
    int64_t elements = 1;
    for (const FactorSpec& factor : dim.factors()) {
      if (factor.size < 1) return Error("a factor of {} elements; sizes are at least 1.", factor.size);
      if (factor.size > kMaxElements / elements)
        return Error("the factors {} make more than 2^40 elements.", LayoutSpecToString({dim}));
      elements *= factor.size;
      MESHWORK_ASSIGN_OR_RETURN(AxisList axes, Find(factor.axes));
      factors.push_back({factor.size, std::move(axes)});
    }
    return factors;
  }

  absl::StatusOr<AxisList> Find(const std::vector<std::string>& names) {
    AxisList all;
    for (const std::string& name : names) {
      const AxisList axes = mesh_.FindAxes(name).value();
      for (int axis : axes) {
        if (used_.Contains(axis))
          return Error("axis \"{}\" appears twice; an axis shards one dim, once: keep one of the two.", name);
        used_.Add(axis);
        all.push_back(axis);
      }
    }
    return all;
  }

  Mesh mesh_;
  const std::string& where_;
  AxisSet used_;
};

DimSpec SpellDim(const Layout& layout, int d) {
  if (!layout.IsStrided(d)) return DimSpec(layout.mesh().NamesOf(layout.dim(d)));
  std::vector<FactorSpec> factors;
  for (const Factor& factor : layout.Factors(d, 0))
    factors.push_back({factor.size, layout.mesh().NamesOf(factor.axes)});
  return DimSpec::Factors(std::move(factors));
}

}  // namespace

DimSpec DimSpec::Factors(std::vector<FactorSpec> factors) {
  DimSpec spec(UNSHARDED);
  spec.factors_ = std::move(factors);
  return spec;
}

absl::StatusOr<LayoutPin> Resolve(const Mesh& mesh, const SpelledLayout& layout, const std::string& where) {
  return Resolver(mesh, where).Resolve(layout);
}

SpelledLayout Spell(const LayoutPin& pin) {
  SpelledLayout spelled{.dims = SpecOf(pin.layout)};
  for (size_t d = 0; d < pin.modes.size(); ++d) {
    if (pin.modes[d] == DimMode::kOpen) spelled.dims[d] = OPEN;
    if (pin.modes[d] == DimMode::kMatch) spelled.dims[d] = MATCH;
  }
  if (pin.layout.is_partial()) {
    AxisList axes;
    for (const Partial& partial : pin.layout.partials()) axes.push_back(partial.axis);
    spelled.owed.push_back({pin.layout.partials()[0].op, pin.layout.mesh().NamesOf(axes)});
  }
  return spelled;
}

absl::StatusOr<Layout> Locked(absl::StatusOr<LayoutPin> pin) {
  MESHWORK_RETURN_IF_ERROR(pin.status());
  if (!pin->is_locked())
    return InvalidArgument(
        "Layout {}: ? and MATCH leave a dim to the compiler; here every dim has to be said.",
        pin->ToString());
  return std::move(pin->layout);
}

LayoutSpec SpecOf(const Layout& layout) {
  LayoutSpec spec;
  for (int d = 0; d < layout.rank(); ++d) spec.push_back(SpellDim(layout, d));
  return spec;
}

LayoutSpec SpecOf(const LayoutPin& pin) {
  LayoutSpec spec = SpecOf(pin.layout);
  for (size_t d = 0; d < spec.size(); ++d) {
    const DimMode mode = pin.mode(static_cast<int>(d));
    if (mode == DimMode::kOpen) spec[d] = OPEN;
    else if (mode == DimMode::kMatch) spec[d] = MATCH;
  }
  return spec;
}

LayoutSpec WithoutMissingAxes(const Mesh& mesh, const LayoutSpec& spec) {
  const auto left = [&](std::vector<std::string> axes) {
    std::erase_if(axes, [&](const std::string& axis) { return !mesh.Cut(axis).ok(); });
    return axes;
  };
  LayoutSpec known;
  for (const DimSpec& dim : spec) {
    if (dim.mode() != DimMode::kLocked) {
      known.push_back(dim);
    } else if (dim.factors().empty()) {
      known.emplace_back(left(dim.axes()));
    } else {
      std::vector<FactorSpec> factors = dim.factors();
      for (FactorSpec& factor : factors) factor.axes = left(std::move(factor.axes));
      known.push_back(DimSpec::Factors(std::move(factors)));
    }
  }
  return known;
}

absl::StatusOr<LayoutPin> LayoutPin::Create(const Mesh& mesh, const LayoutSpec& spec) {
  return Resolve(mesh, {spec}, LayoutSpecToString(spec));
}

bool LayoutPin::Has(DimMode mode) const { return std::find(modes.begin(), modes.end(), mode) != modes.end(); }

absl::StatusOr<Layout> Layout::Create(const Mesh& mesh, const LayoutSpec& spec) {
  return Locked(LayoutPin::Create(mesh, spec));
}

}  // namespace meshwork
