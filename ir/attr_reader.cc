#include "meshwork/ir/attr_reader.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/type_reader.h"

namespace meshwork {
namespace {

absl::StatusOr<AttrValue> ReadAxes(TextReader& text, const Graph& graph) {
  MESHWORK_RETURN_IF_ERROR(text.Take('('));
  AxisList axes;
  AxisSet seen;
  do {
    const size_t start = text.SkipSpace();
    MESHWORK_ASSIGN_OR_RETURN(std::string name, text.Word("an axis name"));
    if (text.TryTake(':')) {  // model:(2)4
      MESHWORK_RETURN_IF_ERROR(text.Take('('));
      MESHWORK_ASSIGN_OR_RETURN(const int64_t before, text.Int());
      MESHWORK_RETURN_IF_ERROR(text.Take(')'));
      MESHWORK_ASSIGN_OR_RETURN(const int64_t size, text.Int());
      name += fmt::format(":({}){}", before, size);
    }
    const absl::StatusOr<AxisList> found = graph.mesh().FindAxes(name);
    if (!found.ok()) return text.FailAt(start, MessageOf(found.status()));
    for (int axis : *found) {
      if (seen.Contains(axis))
        return text.FailAt(start,
                           fmt::format("axis \"{}\" appears twice; a list names each axis once.", name));
      seen.Add(axis);
      axes.push_back(axis);
    }
  } while (text.TryTake(','));
  MESHWORK_RETURN_IF_ERROR(text.Take(')'));
  return AttrValue(std::move(axes));
}

absl::StatusOr<AttrValue> ReadAttr(TextReader& text, Graph& graph, const AttrSpec& spec) {
  const size_t start = text.SkipSpace();
  switch (spec.kind) {
    case AttrKind::kBool:
      if (text.TryWord("true")) return AttrValue(true);
      if (text.TryWord("false")) return AttrValue(false);
      return text.Fail("expected true or false", {"true", "false"});
    case AttrKind::kInt: {
      MESHWORK_ASSIGN_OR_RETURN(int64_t value, text.Int());
      return AttrValue(value);
    }
    case AttrKind::kFloat: {
      MESHWORK_ASSIGN_OR_RETURN(double value, text.Float());
      return AttrValue(value);
    }
    case AttrKind::kInts: {
      MESHWORK_ASSIGN_OR_RETURN(std::vector<int64_t> list, text.Ints());
      return AttrValue(std::move(list));
    }
    case AttrKind::kDType: {
      MESHWORK_ASSIGN_OR_RETURN(std::string word, text.Word("a dtype"));
      absl::StatusOr<DType> dtype = DTypeFromName(word);
      if (!dtype.ok()) return text.FailAt(start, MessageOf(dtype.status()));
      return AttrValue(*dtype);
    }
    case AttrKind::kReduceOp: {
      MESHWORK_ASSIGN_OR_RETURN(std::string word, text.Word("a reduction"));
      absl::StatusOr<ReduceOp> op = ReduceOpFromName(word);
      if (!op.ok()) return text.FailAt(start, MessageOf(op.status()));
      return AttrValue(*op);
    }
    case AttrKind::kAxes: return ReadAxes(text, graph);
    case AttrKind::kLayout: break;
  }
  MESHWORK_ASSIGN_OR_RETURN(LayoutPin pin, ReadLayout(text, graph));
  return AttrValue(std::move(pin));
}

}  // namespace

absl::StatusOr<Attrs> ReadAttrs(TextReader& text, Graph& graph, const OpRow& row) {
  Attrs attrs;
  while (true) {
    const char next = text.Peek();
    if (next == '{') {  // the one attribute that is written without its name
      const auto spec = std::find_if(row.attrs.begin(), row.attrs.end(),
                                     [](const AttrSpec& s) { return s.kind == AttrKind::kLayout; });
      if (spec == row.attrs.end()) return text.Fail(fmt::format("{} takes no layout here", row.name));
      if (attrs.Find(spec->name) != nullptr)
        return text.FailAt(text.at(), fmt::format("attribute \"{}\" is given twice.", spec->name));
      MESHWORK_ASSIGN_OR_RETURN(LayoutPin pin, ReadLayout(text, graph));
      attrs.Set(spec->name, std::move(pin));
      continue;
    }
    // An attribute starts with a word that is followed by '='.
    const size_t start = text.at();
    if (!absl::ascii_isalpha(static_cast<unsigned char>(next))) return attrs;
    const std::string name(text.ReadWord());
    if (text.Peek() != '=') {
      text.GoTo(start);
      return attrs;
    }
    text.Take('=').IgnoreError();
    const auto spec =
        std::find_if(row.attrs.begin(), row.attrs.end(), [&](const AttrSpec& s) { return s.name == name; });
    if (spec == row.attrs.end()) {
      std::vector<std::string> known;
      for (const AttrSpec& s : row.attrs) known.emplace_back(s.name);
      return text.FailAt(start, fmt::format("{} has no attribute \"{}\"{}", row.name, name,
                                            DidYouMeanOneOf(name, known, "attributes")));
    }
    if (attrs.Find(name) != nullptr)
      return text.FailAt(start, fmt::format("attribute \"{}\" is given twice.", name));
    MESHWORK_ASSIGN_OR_RETURN(AttrValue value, ReadAttr(text, graph, *spec));
    attrs.Set(name, std::move(value));
  }
}

}  // namespace meshwork
