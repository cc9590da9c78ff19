// The text form of layouts and pins.
#include <cctype>
#include <charconv>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/spelled.h"

namespace meshwork {
namespace {

// Layouts are written many times in a compile: appended to one text.
void AddAxes(const std::vector<std::string>& names, std::string& text) {
  if (names.empty()) {
    text += '_';
  } else if (names.size() == 1 && names[0] != "MATCH") {  // an axis of that name is no mode
    text += names[0];
  } else {
    for (size_t i = 0; i < names.size(); ++i) text.append(i == 0 ? "(" : ",").append(names[i]);
    text += ')';
  }
}

void AddDim(const DimSpec& dim, std::string& text) {
  if (dim.mode() == DimMode::kOpen) {
    text += '?';
  } else if (dim.mode() == DimMode::kMatch) {
    text += "MATCH";
  } else if (dim.factors().empty()) {
    AddAxes(dim.axes(), text);
  } else {
    for (size_t i = 0; i < dim.factors().size(); ++i) {
      const FactorSpec& factor = dim.factors()[i];
      text.append(i == 0 ? "" : "*").append(std::to_string(factor.size));
      if (factor.axes.empty()) continue;
      text += '@';
      AddAxes(factor.axes, text);
    }
  }
}

// Recursive-descent reader of the text form.
class LayoutReader {
 public:
  LayoutReader(const Mesh& mesh, std::string_view text) : mesh_(mesh), text_(text) {}

  absl::StatusOr<LayoutPin> Read() {
    if (!Take('{')) return Expected("{");
    SpelledLayout spelled;
    if (Peek() != '}' && Peek() != '|') {
      do {
        MESHWORK_ASSIGN_OR_RETURN(DimSpec dim, ReadDim());
        spelled.dims.push_back(std::move(dim));
      } while (Take(','));
    }
    if (Take('|')) {
      do {
        const std::string op_name = ReadName();
        absl::StatusOr<ReduceOp> op = ReduceOpFromName(op_name);
        if (!op.ok()) return Annotate(op.status(), fmt::format("Layout {}: ", text_));
        if (!Take(':')) return Expected(":");
        MESHWORK_ASSIGN_OR_RETURN(std::vector<std::string> axes, ReadAxes());
        spelled.owed.push_back({*op, std::move(axes)});
      } while (Take(','));
    }
    if (!Take('}')) return Expected("}");
    Peek();
    if (at_ < text_.size()) return Expected("the end");
    return Resolve(mesh_, spelled, std::string(text_));
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
    if (error != std::errc() || value < 1) return Expected("a whole number of at least 1");
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
    MESHWORK_ASSIGN_OR_RETURN(std::vector<std::string> axes, ReadAxes());
    return DimSpec(std::move(axes));
  }

  absl::StatusOr<DimSpec> ReadFactors() {
    std::vector<FactorSpec> factors;
    do {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t size, ReadNumber());
      factors.push_back({size});
      if (Take('@')) {
        MESHWORK_ASSIGN_OR_RETURN(factors.back().axes, ReadAxes());
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
        MESHWORK_ASSIGN_OR_RETURN(const int64_t before, ReadNumber());
        if (!Take(')')) return Expected(")");
        MESHWORK_ASSIGN_OR_RETURN(const int64_t size, ReadNumber());
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

}  // namespace

std::string ToString(const SpelledLayout& layout) {
  std::string text = "{";
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    if (d > 0) text += ',';
    AddDim(layout.dims[d], text);
  }
  for (size_t i = 0; i < layout.owed.size(); ++i) {
    if (i == 0) text += layout.dims.empty() ? "| " : " | ";
    else text += ", ";
    text.append(ReduceOpName(layout.owed[i].op)).append(":");
    AddAxes(layout.owed[i].axes, text);
  }
  return text + "}";
}

std::string LayoutSpecToString(const LayoutSpec& spec) { return ToString(SpelledLayout{spec}); }

absl::StatusOr<LayoutPin> LayoutPin::Parse(const Mesh& mesh, std::string_view text) {
  return LayoutReader(mesh, text).Read();
}

absl::StatusOr<Layout> Layout::Parse(const Mesh& mesh, std::string_view text) {
  return Locked(LayoutPin::Parse(mesh, text));
}

std::string LayoutPin::ToString() const { return meshwork::ToString(Spell(*this)); }

std::string Layout::ToString() const { return LayoutPin{*this}.ToString(); }

}  // namespace meshwork
