#include "meshwork/ir/type_reader.h"

#include <string>
#include <string_view>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/local.h"

namespace meshwork {
namespace {

absl::StatusOr<Type> ReadType(TextReader& text) {
  const size_t start = text.SkipSpace();
  MESHWORK_ASSIGN_OR_RETURN(std::string name, text.Word("a type like f32[4,6]"));
  absl::StatusOr<DType> dtype = DTypeFromName(name);
  if (!dtype.ok()) return text.FailAt(start, MessageOf(dtype.status()));
  MESHWORK_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, text.Ints());
  Type type{*dtype, Shape(sizes.begin(), sizes.end())};
  if (absl::Status status = CheckSize(type); !status.ok()) return text.FailAt(start, MessageOf(status));
  return type;
}

absl::StatusOr<Gathering> ReadGather(TextReader& text, bool is_variable) {
  MESHWORK_RETURN_IF_ERROR(text.Take('='));
  const size_t start = text.SkipSpace();
  if (text.TryWord(GatheringName(Gathering::kAllowed))) return Gathering::kAllowed;
  if (!text.TryWord(GatheringName(Gathering::kOnUse)))
    return text.Fail("expected allowed or on_use", {"allowed", "on_use"});
  if (is_variable) return Gathering::kOnUse;
  return text.FailAt(start,
                     "gather=on_use is for variables, which are kept from step to step; gather=allowed "
                     "is for every value.");
}

}  // namespace

absl::StatusOr<LayoutPin> ReadLayout(TextReader& text, Graph& graph) {
  const size_t start = text.SkipSpace();
  MESHWORK_ASSIGN_OR_RETURN(std::string_view inside, text.Bracketed('{', '}'));
  absl::StatusOr<LayoutPin> pin = LayoutPin::Parse(graph.mesh(), inside);
  if (!pin.ok()) return text.FailAt(start, MessageOf(pin.status()));
  graph.CutMesh(pin->layout.mesh());
  return pin;
}

absl::StatusOr<Annotation> ReadAnnotation(TextReader& text, Graph& graph, bool is_variable) {
  const size_t start = text.SkipSpace();
  Annotation annotation;
  MESHWORK_ASSIGN_OR_RETURN(annotation.type, ReadType(text));
  if (text.TryWord("of")) {
    MESHWORK_ASSIGN_OR_RETURN(annotation.global, ReadType(text));
  }
  if (text.Peek() == '{') {
    MESHWORK_ASSIGN_OR_RETURN(annotation.pin, ReadLayout(text, graph));
    const Layout& layout = annotation.pin->layout;
    if (layout.rank() != annotation.type.rank()) {
      return text.FailAt(start, fmt::format("layout {} has {}, {} has {}; give one entry per dim.",
                                            annotation.pin->ToString(), Count(layout.rank(), "dim"),
                                            annotation.type.ToString(), annotation.type.rank()));
    }
    if (annotation.pin->Has(DimMode::kMatch))
      return text.FailAt(start,
                         fmt::format("layout {}: MATCH keeps a dim of what a relayout reads; here there is "
                                     "nothing to match.",
                                     annotation.pin->ToString()));
    if (absl::Status status = CheckPartials(layout, annotation.type); !status.ok())
      return text.FailAt(start, MessageOf(status));
    if (absl::Status fits = layout.Fits(annotation.global.value_or(annotation.type).shape); !fits.ok())
      return text.FailAt(start, MessageOf(fits));
  } else if (annotation.global.has_value()) {
    return text.Fail("a block needs its layout: expected {");
  }
  if (text.TryWord("gather")) {
    MESHWORK_ASSIGN_OR_RETURN(annotation.gather, ReadGather(text, is_variable));
  }
  return annotation;
}

}  // namespace meshwork
