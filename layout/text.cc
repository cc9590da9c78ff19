// The text form of layouts and pins, and what users name their dims by.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layout/layout.h"

namespace meshwork {
namespace {

std::string RenderAxes(const std::vector<std::string>& names) {
  if (names.empty()) return "_";
  if (names.size() == 1) return names[0];
  return fmt::format("({})", fmt::join(names, ","));
}

std::string RenderDim(const DimSpec& dim) {
  if (dim.mode() == DimMode::kOpen) return "?";
  if (dim.mode() == DimMode::kMatch) return "MATCH";
  if (dim.factors().empty()) return RenderAxes(dim.axes());
  std::vector<std::string> factors;
  for (const FactorSpec& factor : dim.factors()) {
    factors.push_back(fmt::format("{}", factor.size));
    if (!factor.axes.empty()) factors.back() += "@" + RenderAxes(factor.axes);
  }
  return fmt::format("{}", fmt::join(factors, "*"));
}

struct PartialSpec {
  ReduceOp op;
  std::vector<std::string> axes;
};

// Binds names to the axes of a mesh, which it cuts where they are parts.
class Resolver {
 public:
  Resolver(const Mesh& mesh, std::string where) : mesh_(mesh), where_(std::move(where)) {}

  absl::StatusOr<LayoutPin> Resolve(const LayoutSpec& spec, const std::vector<PartialSpec>& owed) {
    RETURN_IF_ERROR(CutMesh(spec, owed));
    std::vector<FactorList> dims;
    LayoutPin pin;
    for (const DimSpec& dim : spec) {
      pin.modes.push_back(dim.mode());
      constexpr int64_t kMaxElements = int64_t{1} << 40;
      int64_t elements = 1;
      FactorList factors;
      for (const FactorSpec& factor : dim.factors()) {
        if (factor.size < 1) return Error("a factor of {} elements; sizes are at least 1.", factor.size);
        ASSIGN_OR_RETURN(AxisList axes, Find(factor.axes));
        factors.push_back({factor.size, std::move(axes)});
        elements = factor.size > kMaxElements / elements ? kMaxElements + 1 : elements * factor.size;
      }
      if (factors.size() == 1)
        return Error("a dim of one factor, {}, is a plain one; write its axes only.", RenderDim(dim));
      if (elements > kMaxElements)
        return Error("the factors {} make more than 2^40 elements.", RenderDim(dim));
      if (factors.empty()) {
        ASSIGN_OR_RETURN(AxisList axes, Find(dim.axes()));
        factors.push_back({1, std::move(axes)});
      }
      dims.push_back(std::move(factors));
    }
    PartialSet partials;
    for (const PartialSpec& partial : owed) {
      if (partial.op != owed[0].op)
        return Error("owes {} and {}; a value owes reductions of one kind, because two do not commute.",
                     ReduceOpName(owed[0].op), ReduceOpName(partial.op));
      ASSIGN_OR_RETURN(AxisList axes, Find(partial.axes));
      for (int axis : axes) partials.push_back({axis, partial.op});
    }
    pin.layout = Layout::Strided(mesh_, std::move(dims), std::move(partials));
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
  absl::Status CutMesh(const LayoutSpec& spec, const std::vector<PartialSpec>& owed) {
    for (const DimSpec& dim : spec) {
      RETURN_IF_ERROR(CutFor(dim.axes()));
      for (const FactorSpec& factor : dim.factors()) RETURN_IF_ERROR(CutFor(factor.axes));
    }
    for (const PartialSpec& partial : owed) RETURN_IF_ERROR(CutFor(partial.axes));
    return absl::OkStatus();
  }

  absl::StatusOr<AxisList> Find(const std::vector<std::string>& names) {
    AxisList all;
    for (const std::string& name : names) {
      const AxisList axes = mesh_.FindAxes(name).value();
      for (int axis : axes) {
        if (used_.Contains(axis))
          return Error("axis \"{}\" appears twice; an axis shards one dim, once.", name);
        used_.Add(axis);
        all.push_back(axis);
      }
    }
    return all;
  }

  Mesh mesh_;
  std::string where_;
  AxisSet used_;
};

// Recursive-descent reader of the text form.
class LayoutReader {
 public:
  LayoutReader(const Mesh& mesh, std::string_view text) : mesh_(mesh), text_(text) {}

  absl::StatusOr<LayoutPin> Read() {
    if (!Take('{')) return Expected("{");
    LayoutSpec spec;
    std::vector<PartialSpec> owed;
    if (Peek() != '}' && Peek() != '|') {
      do {
        ASSIGN_OR_RETURN(DimSpec dim, ReadDim());
        spec.push_back(std::move(dim));
      } while (Take(','));
    }
    if (Take('|')) {
      do {
        const std::string op_name = ReadName();
        absl::StatusOr<ReduceOp> op = ReduceOpFromName(op_name);
        if (!op.ok()) return Annotate(op.status(), fmt::format("Layout {}: ", text_));
        if (!Take(':')) return Expected(":");
        ASSIGN_OR_RETURN(std::vector<std::string> axes, ReadAxes());
        owed.push_back({*op, std::move(axes)});
      } while (Take(','));
    }
    if (!Take('}')) return Expected("}");
    if (Peek() != '\0') return Expected("the end");
    return Resolver(mesh_, std::string(text_)).Resolve(spec, owed);
  }

 private:
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string ReadName() {
    Peek();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }
  absl::StatusOr<int64_t> ReadNumber() {
    Peek();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 1) return Expected("a size below 2^63");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  absl::StatusOr<DimSpec> ReadDim() {
    if (Take('?')) return DimSpec(OPEN);
    if (std::isdigit(static_cast<unsigned char>(Peek()))) return ReadFactors();
    const size_t start = at_;
    const std::string name = ReadName();
    if (name == "_") return DimSpec(UNSHARDED);
    if (name == "MATCH") return DimSpec(MATCH);
    at_ = start;
    ASSIGN_OR_RETURN(std::vector<std::string> axes, ReadAxes());
    return DimSpec(std::move(axes));
  }

  absl::StatusOr<DimSpec> ReadFactors() {
    std::vector<FactorSpec> factors;
    do {
      ASSIGN_OR_RETURN(const int64_t size, ReadNumber());
      factors.push_back({size});
      if (Take('@')) {
        ASSIGN_OR_RETURN(factors.back().axes, ReadAxes());
      }
    } while (Take('*'));
    return DimSpec::Factors(std::move(factors));
  }

  absl::StatusOr<std::vector<std::string>> ReadAxes() {
    const bool list = Take('(');
    std::vector<std::string> names;
    do {
      std::string name = ReadName();
      if (name.empty() || name == "_") return Expected("an axis name");
      if (Take(':')) {  // model:(2)4
        if (!Take('(')) return Expected("(");
        ASSIGN_OR_RETURN(const int64_t before, ReadNumber());
        if (!Take(')')) return Expected(")");
        ASSIGN_OR_RETURN(const int64_t size, ReadNumber());
        name += fmt::format(":({}){}", before, size);
      }
      names.push_back(std::move(name));
    } while (list && Take(','));
    if (list && !Take(')')) return Expected(")");
    return names;
  }

  absl::Status Expected(std::string_view what) {
    return InvalidArgument(
        "Layout {}: expected {} at column {}; a layout looks like {{batch, _}} or {{(a,b), _ | sum:c}}.",
        text_, what, at_ + 1);
  }

  const Mesh& mesh_;
  std::string_view text_;
  size_t at_ = 0;
};

absl::StatusOr<Layout> Locked(absl::StatusOr<LayoutPin> pin) {
  RETURN_IF_ERROR(pin.status());
  if (!pin->is_locked())
    return InvalidArgument(
        "Layout {}: ? and MATCH leave a dim to the compiler; here every dim has to be said.",
        pin->ToString());
  return std::move(pin->layout);
}

DimSpec SpecOfDim(const Layout& layout, int d) {
  if (!layout.IsStrided(d)) return DimSpec(layout.mesh().NamesOf(layout.dim(d)));
  std::vector<FactorSpec> factors;
  for (const Factor& factor : layout.Factors(d, 0))
    factors.push_back({factor.size, layout.mesh().NamesOf(factor.axes)});
  return DimSpec::Factors(std::move(factors));
}

std::string Render(const LayoutSpec& spec, const Layout& layout) {
  std::vector<std::string> dims;
  for (const DimSpec& dim : spec) dims.push_back(RenderDim(dim));
  std::string out = fmt::format("{{{}", fmt::join(dims, ","));
  if (layout.is_partial()) {
    AxisList axes;
    for (const Partial& partial : layout.partials()) axes.push_back(partial.axis);
    out += fmt::format("{}| {}:{}", dims.empty() ? "" : " ", ReduceOpName(layout.partials()[0].op),
                       RenderAxes(layout.mesh().NamesOf(axes)));
  }
  return out + "}";
}

}  // namespace

DimSpec DimSpec::Factors(std::vector<FactorSpec> factors) {
  DimSpec spec(UNSHARDED);
  spec.factors_ = std::move(factors);
  return spec;
}

std::string LayoutSpecToString(const LayoutSpec& spec) {
  std::vector<std::string> dims;
  for (const DimSpec& dim : spec) dims.push_back(RenderDim(dim));
  return fmt::format("{{{}}}", fmt::join(dims, ","));
}

LayoutSpec SpecOf(const Layout& layout) {
  LayoutSpec spec;
  for (int d = 0; d < layout.rank(); ++d) spec.push_back(SpecOfDim(layout, d));
  return spec;
}

absl::StatusOr<LayoutPin> LayoutPin::Create(const Mesh& mesh, const LayoutSpec& spec) {
  return Resolver(mesh, LayoutSpecToString(spec)).Resolve(spec, {});
}

absl::StatusOr<LayoutPin> LayoutPin::Parse(const Mesh& mesh, std::string_view text) {
  return LayoutReader(mesh, text).Read();
}

bool LayoutPin::Has(DimMode mode) const { return std::find(modes.begin(), modes.end(), mode) != modes.end(); }

std::string LayoutPin::ToString() const {
  LayoutSpec spec = SpecOf(layout);
  for (size_t d = 0; d < modes.size(); ++d) {
    if (modes[d] == DimMode::kOpen) spec[d] = OPEN;
    if (modes[d] == DimMode::kMatch) spec[d] = MATCH;
  }
  return Render(spec, layout);
}

absl::StatusOr<Layout> Layout::Create(const Mesh& mesh, const LayoutSpec& spec) {
  return Locked(LayoutPin::Create(mesh, spec));
}

absl::StatusOr<Layout> Layout::Parse(const Mesh& mesh, std::string_view text) {
  return Locked(LayoutPin::Parse(mesh, text));
}

std::string Layout::ToString() const { return Render(SpecOf(*this), *this); }

}  // namespace meshwork
