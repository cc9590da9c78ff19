// A recursive-descent parser of the text form; one pass, no backtracking.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/base/text_error.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"

namespace meshwork {
namespace {

constexpr std::string_view kNameRule = "a name is a letter followed by letters, digits and any of _ . / -";

struct Annotation {
  Type type;
  std::optional<Type> global;
  std::optional<LayoutPin> pin;
  Gathering gather = Gathering::kWithinBudget;

  std::optional<Layout> layout() const { return pin.has_value() ? std::optional(pin->layout) : std::nullopt; }
  absl::InlinedVector<DimMode, 4> modes() const {
    return pin.has_value() ? pin->modes : absl::InlinedVector<DimMode, 4>();
  }
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text), file_(file), graph_(Mesh()) {}

  absl::StatusOr<Graph> Parse() {
    MESHWORK_RETURN_IF_ERROR(ParseMesh());
    MESHWORK_RETURN_IF_ERROR(Keyword("func"));
    MESHWORK_ASSIGN_OR_RETURN(graph_.name, Word("a function name"));
    MESHWORK_RETURN_IF_ERROR(ParseArguments());
    MESHWORK_RETURN_IF_ERROR(ParseStatements());
    SkipSpace();
    if (at_ < text_.size()) return Fail("expected the end of the program");
    MESHWORK_RETURN_IF_ERROR(FinishLocal());
    return std::move(graph_);
  }

 private:
  // What stands between braces.
  absl::Status ParseStatements() {
    MESHWORK_RETURN_IF_ERROR(Take('{'));
    bool returned = false;
    while (!TryTake('}')) {
      if (Peek() == '%') {
        if (returned) return Fail("expected }: nothing follows the return");
        MESHWORK_RETURN_IF_ERROR(ParseNode());
        continue;
      }
      const size_t start = at_;
      MESHWORK_ASSIGN_OR_RETURN(std::string word, Word("%, update, return or }"));
      if (word == "update" && !returned) {
        MESHWORK_RETURN_IF_ERROR(ParseUpdate());
      } else if (word == "return" && !returned) {
        MESHWORK_RETURN_IF_ERROR(ParseReturn());
        returned = true;
      } else {
        at_ = start;
        if (returned) return Fail("expected }: nothing follows the return");
        return Fail("expected %, update, return or }", {"update", "return"});
      }
    }
    return absl::OkStatus();
  }

  // ---- Characters.

  void SkipSpace() {
    while (at_ < text_.size()) {
      if (absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }
  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool TryTake(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  absl::Status Take(char c) { return TryTake(c) ? absl::OkStatus() : Fail(fmt::format("expected {}", c)); }
  // The word that comes next, "" if none does.
  std::string_view ReadWord(std::string_view extra = "") {
    SkipSpace();
    const size_t start = at_;
    while (at_ < text_.size() && text_.substr(at_, 2) != "//" &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
            extra.find(text_[at_]) != std::string_view::npos)) {
      ++at_;
    }
    return text_.substr(start, at_ - start);
  }
  absl::StatusOr<std::string> Word(std::string_view what, std::string_view extra = "") {
    const std::string_view word = ReadWord(extra);
    if (word.empty()) return Fail(fmt::format("expected {}", what));
    return std::string(word);
  }
  bool TryWord(std::string_view word) {
    const size_t start = at_;
    if (ReadWord() == word) return true;
    at_ = start;
    return false;
  }
  absl::Status Keyword(std::string_view word) {
    if (TryWord(word)) return absl::OkStatus();
    return Fail(fmt::format("expected \"{}\"", word), {std::string(word)});
  }

  // Counts on from where it was asked last: places nearly always come in order.
  int LineAt(size_t at) {
    if (at < counted_to_) counted_to_ = 0, line_ = 1;
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<int64_t>(counted_to_),
                                         text_.begin() + static_cast<int64_t>(at), '\n'));
    counted_to_ = at;
    return line_;
  }
  absl::Status FailAt(size_t at, std::string_view message) { return ErrorAt(text_, file_, at, message); }
  // "expected …, found …", with the nearest of the words that may stand here.
  absl::Status Fail(std::string_view message, const std::vector<std::string>& words = {}) {
    constexpr size_t kMostShown = 32;
    SkipSpace();
    const size_t start = at_;
    const std::string word(ReadWord());
    at_ = start;
    if (word.size() < 2 || word.size() > kMostShown)
      return FailAt(start, fmt::format("{}, found {}.", message, CharacterAt(text_, start)));
    const std::string hint = DidYouMean(word, words);
    return FailAt(start, fmt::format("{}, found \"{}\"{}", message, word, hint.empty() ? "." : hint));
  }

  // ---- Pieces.

  // The text from the next character to its closing counterpart.
  absl::StatusOr<std::string_view> Bracketed(char open, char close) {
    if (Peek() != open) return Fail(fmt::format("expected {}", open));
    const size_t end = text_.find(close, at_);
    if (end == std::string_view::npos) return FailAt(at_, fmt::format("this {} is never closed.", open));
    std::string_view inside = text_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    return inside;
  }

  absl::Status ParseMesh() {
    MESHWORK_RETURN_IF_ERROR(Keyword("mesh"));
    SkipSpace();
    const size_t start = at_;
    MESHWORK_ASSIGN_OR_RETURN(std::string_view inside, Bracketed('[', ']'));
    absl::StatusOr<Mesh> mesh = Mesh::Parse(inside);
    if (!mesh.ok()) return FailAt(start, MessageOf(mesh.status()));
    graph_ = Graph(*std::move(mesh));
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Int() {
    SkipSpace();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) return FailAt(at_, "this number does not fit 64 bits.");
    if (error != std::errc()) return Fail("expected a whole number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  absl::StatusOr<std::vector<int64_t>> Ints() {
    MESHWORK_RETURN_IF_ERROR(Take('['));
    std::vector<int64_t> list;
    if (TryTake(']')) return list;
    do {
      MESHWORK_ASSIGN_OR_RETURN(int64_t value, Int());
      list.push_back(value);
    } while (TryTake(','));
    MESHWORK_RETURN_IF_ERROR(Take(']'));
    return list;
  }

  absl::StatusOr<Type> ParseType() {
    SkipSpace();
    const size_t start = at_;
    MESHWORK_ASSIGN_OR_RETURN(std::string name, Word("a type like f32[4,6]"));
    absl::StatusOr<DType> dtype = DTypeFromName(name);
    if (!dtype.ok()) return FailAt(start, MessageOf(dtype.status()));
    MESHWORK_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, Ints());
    Type type{*dtype, Shape(sizes.begin(), sizes.end())};
    if (absl::Status status = CheckSize(type); !status.ok()) return FailAt(start, MessageOf(status));
    return type;
  }

  // A layout that names a part of an axis cuts the program's mesh.
  absl::StatusOr<LayoutPin> ParseLayout() {
    SkipSpace();
    const size_t start = at_;
    MESHWORK_ASSIGN_OR_RETURN(std::string_view inside, Bracketed('{', '}'));
    absl::StatusOr<LayoutPin> pin = LayoutPin::Parse(graph_.mesh(), inside);
    if (!pin.ok()) return FailAt(start, MessageOf(pin.status()));
    graph_.CutMesh(pin->layout.mesh());
    return pin;
  }

  absl::StatusOr<Annotation> ParseAnnotation(bool is_variable = false) {
    SkipSpace();
    const size_t start = at_;
    Annotation annotation;
    MESHWORK_ASSIGN_OR_RETURN(annotation.type, ParseType());
    if (TryWord("of")) {
      is_local_ = true;
      MESHWORK_ASSIGN_OR_RETURN(annotation.global, ParseType());
    }
    if (Peek() == '{') {
      MESHWORK_ASSIGN_OR_RETURN(annotation.pin, ParseLayout());
      const Layout& layout = annotation.pin->layout;
      if (layout.rank() != annotation.type.rank()) {
        return FailAt(start, fmt::format("layout {} has {}, {} has {}; give one entry per dim.",
                                         annotation.pin->ToString(), Count(layout.rank(), "dim"),
                                         annotation.type.ToString(), annotation.type.rank()));
      }
      if (annotation.pin->Has(DimMode::kMatch))
        return FailAt(start,
                      fmt::format("layout {}: MATCH keeps a dim of what a relayout reads; here there is "
                                  "nothing to match.",
                                  annotation.pin->ToString()));
      if (absl::Status status = CheckPartials(layout, annotation.type); !status.ok())
        return FailAt(start, MessageOf(status));
      if (absl::Status fits = layout.Fits(annotation.global.value_or(annotation.type).shape); !fits.ok())
        return FailAt(start, MessageOf(fits));
    } else if (annotation.global.has_value()) {
      return Fail("a block needs its layout: expected {");
    }
    if (TryWord("gather")) {
      MESHWORK_ASSIGN_OR_RETURN(annotation.gather, ParseGather(is_variable));
    }
    return annotation;
  }

  absl::StatusOr<Gathering> ParseGather(bool is_variable) {
    MESHWORK_RETURN_IF_ERROR(Take('='));
    SkipSpace();
    const size_t start = at_;
    if (TryWord(GatheringName(Gathering::kAllowed))) return Gathering::kAllowed;
    if (!TryWord(GatheringName(Gathering::kOnUse)))
      return Fail("expected allowed or on_use", {"allowed", "on_use"});
    if (is_variable) return Gathering::kOnUse;
    return FailAt(start,
                  "gather=on_use is for variables, which are kept from step to step; gather=allowed "
                  "is for every value.");
  }

  absl::StatusOr<std::string> ValueName() {
    MESHWORK_RETURN_IF_ERROR(Take('%'));
    const size_t start = at_;
    absl::StatusOr<std::string> name = Word("a value name", "./-");
    if (name.ok() && at_ - start != name->size())
      return FailAt(start, fmt::format("expected a value name, found {}.", CharacterAt(text_, start)));
    return name;
  }
  absl::StatusOr<ValueId> ValueUse() {
    SkipSpace();
    const size_t start = at_;
    MESHWORK_ASSIGN_OR_RETURN(std::string name, ValueName());
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [key, id] : ids_) known.push_back("%" + key);
    // A name of one character has none in common with another.
    const std::string hint = name.size() > 1 ? DidYouMean("%" + name, known) : "";
    return FailAt(start, fmt::format("%{} is not defined above{}", name, hint.empty() ? "." : hint));
  }
  absl::Status Define(size_t at, const std::string& name, ValueId id) {
    if (ids_.emplace(name, id).second) return absl::OkStatus();
    return FailAt(at, fmt::format("%{} is defined twice; names are unique.", name));
  }
  static bool IsNumbered(const std::string& name) {
    return std::all_of(name.begin(), name.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  }

  // ---- Statements.

  absl::Status ParseArguments() {
    MESHWORK_RETURN_IF_ERROR(Take('('));
    if (TryTake(')')) return absl::OkStatus();
    do {
      const bool is_variable = TryWord("var");
      SkipSpace();
      const size_t start = at_;
      MESHWORK_ASSIGN_OR_RETURN(std::string name, ValueName());
      MESHWORK_RETURN_IF_ERROR(Take(':'));
      MESHWORK_ASSIGN_OR_RETURN(Annotation a, ParseAnnotation(is_variable));
      if (IsNumbered(name))
        return FailAt(start, fmt::format("argument %{} needs a name, not a number.", name));
      if (!IsArgumentName(name)) return FailAt(start, fmt::format("argument %{}: {}", name, kNameRule));
      const ValueId id = graph_.AddArgument({.name = name,
                                             .type = a.type,
                                             .global = a.global.value_or(a.type),
                                             .layout = a.layout(),
                                             .modes = a.modes(),
                                             .gather = a.gather,
                                             .location = {std::string(file_), LineAt(start)}},
                                            is_variable);
      value_at_.push_back(start);
      MESHWORK_RETURN_IF_ERROR(Define(start, name, id));
    } while (TryTake(','));
    return Take(')');
  }

  absl::StatusOr<AttrValue> ParseAttr(const AttrSpec& spec) {
    SkipSpace();
    const size_t start = at_;
    switch (spec.kind) {
      case AttrKind::kBool:
        if (TryWord("true")) return AttrValue(true);
        if (TryWord("false")) return AttrValue(false);
        return Fail("expected true or false", {"true", "false"});
      case AttrKind::kInt: {
        MESHWORK_ASSIGN_OR_RETURN(int64_t value, Int());
        return AttrValue(value);
      }
      case AttrKind::kFloat: return ParseFloat();
      case AttrKind::kInts: {
        MESHWORK_ASSIGN_OR_RETURN(std::vector<int64_t> list, Ints());
        return AttrValue(std::move(list));
      }
      case AttrKind::kDType: {
        MESHWORK_ASSIGN_OR_RETURN(std::string word, Word("a dtype"));
        absl::StatusOr<DType> dtype = DTypeFromName(word);
        if (!dtype.ok()) return FailAt(start, MessageOf(dtype.status()));
        return AttrValue(*dtype);
      }
      case AttrKind::kReduceOp: {
        MESHWORK_ASSIGN_OR_RETURN(std::string word, Word("a reduction"));
        absl::StatusOr<ReduceOp> op = ReduceOpFromName(word);
        if (!op.ok()) return FailAt(start, MessageOf(op.status()));
        return AttrValue(*op);
      }
      case AttrKind::kAxes: return ParseAxes();
      case AttrKind::kLayout: break;
    }
    MESHWORK_ASSIGN_OR_RETURN(LayoutPin pin, ParseLayout());
    return AttrValue(std::move(pin));
  }

  absl::StatusOr<AttrValue> ParseFloat() {
    SkipSpace();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) return FailAt(at_, "this number does not fit a double.");
    if (error != std::errc()) return Fail("expected a number");
    at_ = static_cast<size_t>(end - text_.data());
    return AttrValue(value);
  }

  absl::StatusOr<AttrValue> ParseAxes() {
    MESHWORK_RETURN_IF_ERROR(Take('('));
    AxisList axes;
    AxisSet seen;
    do {
      SkipSpace();
      const size_t start = at_;
      MESHWORK_ASSIGN_OR_RETURN(std::string name, Word("an axis name"));
      if (TryTake(':')) {  // model:(2)4
        MESHWORK_RETURN_IF_ERROR(Take('('));
        MESHWORK_ASSIGN_OR_RETURN(const int64_t before, Int());
        MESHWORK_RETURN_IF_ERROR(Take(')'));
        MESHWORK_ASSIGN_OR_RETURN(const int64_t size, Int());
        name += fmt::format(":({}){}", before, size);
      }
      const absl::StatusOr<AxisList> found = graph_.mesh().FindAxes(name);
      if (!found.ok()) return FailAt(start, MessageOf(found.status()));
      for (int axis : *found) {
        if (seen.Contains(axis))
          return FailAt(start, fmt::format("axis \"{}\" appears twice; a list names each axis once.", name));
        seen.Add(axis);
        axes.push_back(axis);
      }
    } while (TryTake(','));
    MESHWORK_RETURN_IF_ERROR(Take(')'));
    return AttrValue(std::move(axes));
  }

  absl::StatusOr<Attrs> ParseAttrs(const OpRow& row) {
    Attrs attrs;
    while (true) {
      const char next = Peek();
      if (next == '{') {  // the one attribute that is written without its name
        const auto spec = std::find_if(row.attrs.begin(), row.attrs.end(),
                                       [](const AttrSpec& s) { return s.kind == AttrKind::kLayout; });
        if (spec == row.attrs.end()) return Fail(fmt::format("{} takes no layout here", row.name));
        if (attrs.Find(spec->name) != nullptr)
          return FailAt(at_, fmt::format("attribute \"{}\" is given twice.", spec->name));
        MESHWORK_ASSIGN_OR_RETURN(LayoutPin pin, ParseLayout());
        attrs.Set(spec->name, std::move(pin));
        continue;
      }
      // An attribute starts with a word that is followed by '='.
      const size_t start = at_;
      if (!absl::ascii_isalpha(static_cast<unsigned char>(next))) return attrs;
      const std::string name(ReadWord());
      if (Peek() != '=') {
        at_ = start;
        return attrs;
      }
      Take('=').IgnoreError();
      const auto spec =
          std::find_if(row.attrs.begin(), row.attrs.end(), [&](const AttrSpec& s) { return s.name == name; });
      if (spec == row.attrs.end()) {
        std::vector<std::string> known;
        for (const AttrSpec& s : row.attrs) known.emplace_back(s.name);
        return FailAt(start, fmt::format("{} has no attribute \"{}\"{}", row.name, name,
                                         DidYouMeanOneOf(name, known, "attributes")));
      }
      if (attrs.Find(name) != nullptr)
        return FailAt(start, fmt::format("attribute \"{}\" is given twice.", name));
      MESHWORK_ASSIGN_OR_RETURN(AttrValue value, ParseAttr(*spec));
      attrs.Set(name, std::move(value));
    }
  }

  // Behind an error of an op: an operand may be of a dtype that nobody wrote.
  std::string HintOfDType(const std::vector<ValueId>& operands) const {
    for (ValueId id : operands) {
      const ValueInfo& info = graph_.value(id);
      if (info.node < 0) continue;
      const Node& made = graph_.nodes()[info.node];
      const auto spec = std::find_if(made.row->attrs.begin(), made.row->attrs.end(),
                                     [](const AttrSpec& s) { return s.name == "dtype"; });
      if (!made.operands.empty() || spec == made.row->attrs.end() || !spec->fallback.has_value() ||
          !SameAttr(*spec->fallback, *made.attrs.Find("dtype")))
        continue;
      for (ValueId other : operands)
        if (const DType dtype = graph_.value(other).type.dtype; dtype != info.type.dtype)
          return fmt::format(" {} makes {} where nothing is said; write dtype={} there (line {}).",
                             made.row->name, DTypeName(info.type.dtype), DTypeName(dtype),
                             made.location.line);
    }
    return "";
  }

  // Whether "%a, %b =" comes next.
  bool StartsNode() {
    const size_t start = at_;
    do {
      if (!TryTake('%')) break;
      ReadWord("./-");
    } while (TryTake(','));
    const bool starts = Peek() == '=';
    at_ = start;
    return starts;
  }

  absl::Status ParseNode() {
    SkipSpace();
    const size_t start = at_;
    std::vector<std::string> names;
    do {
      MESHWORK_ASSIGN_OR_RETURN(std::string name, ValueName());
      names.push_back(std::move(name));
    } while (TryTake(','));
    MESHWORK_RETURN_IF_ERROR(Take('='));
    SkipSpace();
    const size_t op_at = at_;
    MESHWORK_ASSIGN_OR_RETURN(std::string op, Word("an op"));
    absl::StatusOr<const OpRow*> row = FindOp(op);
    if (!row.ok()) return FailAt(op_at, MessageOf(row.status()));
    const SourceLocation location{std::string(file_), LineAt(op_at)};
    std::vector<ValueId> operands;
    if (Peek() == '%') {
      do {
        MESHWORK_ASSIGN_OR_RETURN(ValueId id, ValueUse());
        operands.push_back(id);
      } while (TryTake(','));
      if (Peek() == '%' && !StartsNode()) return Fail("expected , between two operands");
    }
    MESHWORK_ASSIGN_OR_RETURN(Attrs attrs, ParseAttrs(**row));
    const Mesh mesh = graph_.mesh();
    std::vector<std::shared_ptr<const Graph>> regions;
    for (int r = 0; r < (*row)->num_regions; ++r) {
      if (r > 0) MESHWORK_RETURN_IF_ERROR(Keyword("else"));
      MESHWORK_ASSIGN_OR_RETURN(Graph region, ParseRegion());
      regions.push_back(std::make_shared<const Graph>(std::move(region)));
    }
    std::vector<Annotation> annotations;
    if (TryTake(':')) {
      do {
        MESHWORK_ASSIGN_OR_RETURN(Annotation annotation, ParseAnnotation());
        annotations.push_back(std::move(annotation));
      } while (TryTake(','));
    }
    // What was read before a layout cut the mesh lies on it as it was.
    attrs = OnMesh(std::move(attrs), mesh, graph_.mesh());
    for (Annotation& a : annotations)
      if (a.pin.has_value()) a.pin->layout = a.pin->layout.On(graph_.mesh());
    absl::StatusOr<int> node =
        regions.empty()
            ? AddNode(**row, operands, attrs, annotations, names.size(), location)
            : AddControl(**row, operands, attrs, annotations, std::move(regions), names.size(), location);
    if (!node.ok())
      return FailAt(op_at, fmt::format("{}{}", MessageOf(node.status()), HintOfDType(operands)));
    value_at_.resize(graph_.values().size(), op_at);
    for (size_t i = 0; i < names.size(); ++i) {
      const ValueId id = graph_.nodes()[*node].results[i];
      if (!IsNumbered(names[i])) graph_.mutable_value(id).name = names[i];
      MESHWORK_RETURN_IF_ERROR(Define(start, names[i], id));
    }
    return absl::OkStatus();
  }

  // A body: "(var %h: f32[4], %w: f32[6]) { … }". Its names are its own.
  absl::StatusOr<Graph> ParseRegion() {
    if (open_regions_ == kMaxNesting)
      return FailAt(at_,
                    fmt::format("bodies nest at most {} deep, and this one stands in as many; write some of "
                                "them as one.",
                                kMaxNesting));
    ++open_regions_;
    Graph outer = std::exchange(graph_, Graph(graph_.mesh()));
    graph_.name = "body";
    auto ids = std::exchange(ids_, {});
    auto updated = std::exchange(updated_, {});
    auto value_at = std::exchange(value_at_, {});
    auto update_at = std::exchange(update_at_, {});
    MESHWORK_RETURN_IF_ERROR(ParseArguments());
    MESHWORK_RETURN_IF_ERROR(ParseStatements());
    outer.CutMesh(graph_.mesh());
    ids_ = std::move(ids);
    updated_ = std::move(updated);
    value_at_ = std::move(value_at);
    update_at_ = std::move(update_at);
    --open_regions_;
    return std::exchange(graph_, std::move(outer));
  }

  // Adds a node with regions, of either kind of program.
  absl::StatusOr<int> AddControl(const OpRow& row, const std::vector<ValueId>& operands, const Attrs& attrs,
                                 const std::vector<Annotation>& annotations,
                                 std::vector<std::shared_ptr<const Graph>> regions, size_t num_results,
                                 const SourceLocation& location) {
    Node node{.row = &row, .attrs = attrs, .location = location, .regions = std::move(regions)};
    node.operands.assign(operands.begin(), operands.end());
    // One that was read before another cut the mesh.
    for (std::shared_ptr<const Graph>& region : node.regions) {
      Graph cut = *region;
      cut.CutMesh(graph_.mesh());
      region = std::make_shared<const Graph>(std::move(cut));
    }
    absl::StatusOr<int> index = TryAddControl(graph_, std::move(node));
    if (!index.ok()) return index.status();
    const auto& results = graph_.nodes()[*index].results;
    if (results.size() != num_results || (!annotations.empty() && annotations.size() != num_results))
      return InvalidArgument("{} has {}; {} and {} are given.", row.name, Count(results.size(), "result"),
                             Count(num_results, "name"), Count(annotations.size(), "type"));
    for (size_t i = 0; i < annotations.size(); ++i) {
      ValueInfo& info = graph_.mutable_value(results[i]);
      const Annotation& a = annotations[i];
      if (a.type != info.type)
        return InvalidArgument("{}: the result is {}, not {}.", row.name, info.type.ToString(),
                               a.type.ToString());
      info.global = a.global.value_or(a.type);
      info.layout = a.layout();
      info.modes = a.modes();
      info.gather = a.gather;
    }
    return index;
  }

  // Adds a node of either kind of program: by inference where there are no blocks, as written where
  // there are.
  absl::StatusOr<int> AddNode(const OpRow& row, const std::vector<ValueId>& operands, const Attrs& attrs,
                              const std::vector<Annotation>& annotations, size_t num_results,
                              const SourceLocation& location) {
    const bool local_op = row.kind == OpKind::kCollective || row.kind == OpKind::kLocal;
    is_local_ |= local_op;
    const size_t expected = row.num_results < 0 ? operands.size() : static_cast<size_t>(row.num_results);
    if (expected != num_results || (!annotations.empty() && annotations.size() != expected))
      return InvalidArgument("{} has {}; {} and {} are given.", row.name, Count(expected, "result"),
                             Count(num_results, "name"), Count(annotations.size(), "type"));
    const bool has_blocks = std::any_of(annotations.begin(), annotations.end(),
                                        [](const Annotation& a) { return a.global.has_value(); });
    const bool reads_blocks = std::any_of(operands.begin(), operands.end(), [&](ValueId id) {
      return graph_.value(id).type != graph_.value(id).global;
    });
    if (!local_op && !has_blocks && !(reads_blocks && annotations.empty())) {
      MESHWORK_ASSIGN_OR_RETURN(int node, graph_.TryAdd(row, operands, attrs, location));
      for (size_t i = 0; i < annotations.size(); ++i) {
        ValueInfo& info = graph_.mutable_value(graph_.nodes()[node].results[i]);
        if (annotations[i].type != info.type)
          return InvalidArgument("{}: the result is {}, not {}.", row.name, info.type.ToString(),
                                 annotations[i].type.ToString());
        info.layout = annotations[i].layout();
        info.modes = annotations[i].modes();
        info.gather = annotations[i].gather;
      }
      return node;
    }
    if (annotations.empty())
      return InvalidArgument("{}: in a local program every result says its type and layout.", row.name);
    if (absl::Status status = CheckOperandCount(row, operands.size()); !status.ok())
      return Annotate(status, fmt::format("{}: ", row.name));
    absl::StatusOr<Attrs> complete = Graph::CompleteAttrs(row, attrs);
    if (!complete.ok()) return Annotate(complete.status(), fmt::format("{}: ", row.name));
    Node node{.row = &row, .attrs = *std::move(complete), .location = location};
    node.operands.assign(operands.begin(), operands.end());
    std::vector<ValueInfo> infos;
    for (const Annotation& a : annotations)
      infos.push_back({.type = a.type,
                       .global = a.global.value_or(a.type),
                       .layout = a.layout(),
                       .modes = a.modes(),
                       .gather = a.gather,
                       .location = location});
    return graph_.AddNode(std::move(node), std::move(infos));
  }

  absl::Status ParseUpdate() {
    SkipSpace();
    const size_t start = at_;
    MESHWORK_ASSIGN_OR_RETURN(ValueId variable, ValueUse());
    const std::string_view name = text_.substr(start, at_ - start);
    MESHWORK_RETURN_IF_ERROR(Take('='));
    MESHWORK_ASSIGN_OR_RETURN(ValueId value, ValueUse());
    const ValueInfo& old_info = graph_.value(variable);
    // In a text the arguments are the first values.
    const int argument = variable;
    if (argument >= static_cast<int>(graph_.arguments().size()) || !graph_.arguments()[argument].is_variable)
      return FailAt(start, fmt::format("{} is not a variable; only variables keep values.", name));
    if (!updated_.insert(argument).second)
      return FailAt(start, fmt::format("{} is updated twice; a step writes a variable once.", name));
    const ValueInfo& new_info = graph_.value(value);
    auto types = [](const ValueInfo& info) {
      return info.type == info.global ? info.type.ToString()
                                      : fmt::format("{} of {}", info.type.ToString(), info.global.ToString());
    };
    if (old_info.type != new_info.type || old_info.global != new_info.global)
      return FailAt(start, fmt::format("{} is {}, its new value {}; they must agree.", name, types(old_info),
                                       types(new_info)));
    graph_.AddUpdate({argument, value});
    update_at_.push_back(start);
    return absl::OkStatus();
  }

  absl::Status ParseReturn() {
    std::set<std::string> names;
    do {
      SkipSpace();
      const size_t start = at_;
      std::string name;
      if (Peek() != '%') {
        MESHWORK_ASSIGN_OR_RETURN(name, Word("%value or name=%value", "./-"));
        if (!IsArgumentName(name)) return FailAt(start, fmt::format("output \"{}\": {}", name, kNameRule));
        MESHWORK_RETURN_IF_ERROR(Take('='));
      }
      MESHWORK_ASSIGN_OR_RETURN(ValueId value, ValueUse());
      if (!name.empty() && !names.insert(name).second)
        return FailAt(start, fmt::format("output \"{}\" is returned twice.", name));
      graph_.AddOutput({name, value});
    } while (TryTake(','));
    return absl::OkStatus();
  }

  // Values without a layout are whole.
  static void MakeWhole(Graph& local) {
    for (size_t v = 0; v < local.values().size(); ++v) {
      ValueInfo& info = local.mutable_value(static_cast<ValueId>(v));
      if (!info.layout.has_value()) info.layout = Layout::Replicated(local.mesh(), info.type.rank());
    }
    for (size_t n = 0; n < local.nodes().size(); ++n) {
      for (std::shared_ptr<const Graph>& region : local.mutable_node(static_cast<int>(n)).regions) {
        Graph inner = *region;
        MakeWhole(inner);
        region = std::make_shared<const Graph>(std::move(inner));
      }
    }
  }

  // In a local program every value has a layout that fits its block; values without one are whole.
  absl::Status FinishLocal() {
    if (!is_local_) return absl::OkStatus();
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      for (std::shared_ptr<const Graph>& region : graph_.mutable_node(static_cast<int>(n)).regions) {
        Graph local = *region;
        MakeWhole(local);
        region = std::make_shared<const Graph>(std::move(local));
      }
    }
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      ValueInfo& info = graph_.mutable_value(static_cast<ValueId>(i));
      if (!info.layout.has_value()) info.layout = Layout::Replicated(graph_.mesh(), info.type.rank());
      if (!info.modes.empty())
        return FailAt(value_at_[i],
                      fmt::format("{}: a local program says where every dim lies; ? is for global ones.",
                                  LayoutPin{*info.layout, info.modes}.ToString()));
      const bool fits = info.layout->Fits(info.global.shape).ok() && info.global.dtype == info.type.dtype &&
                        info.layout->LocalShape(info.global.shape) == info.type.shape;
      if (!fits)
        return FailAt(value_at_[i], fmt::format("{} is not the block of {} under {}.", info.type.ToString(),
                                                info.global.ToString(), info.layout->ToString()));
    }
    for (size_t i = 0; i < graph_.updates().size(); ++i) {
      const VariableUpdate& update = graph_.updates()[i];
      const ValueInfo& variable = graph_.value(graph_.arguments()[update.argument].value);
      if (*variable.layout != *graph_.value(update.value).layout)
        return FailAt(update_at_[i], fmt::format("%{} is {}, its new value {}; the layouts must agree.",
                                                 variable.name, variable.layout->ToString(),
                                                 graph_.value(update.value).layout->ToString()));
    }
    for (const Node& node : graph_.nodes()) {
      if (absl::Status status = CheckLocalNode(graph_, node); !status.ok())
        return FailAt(value_at_[node.results[0]], fmt::format("{}: {}", node.row->name, MessageOf(status)));
    }
    return absl::OkStatus();
  }

  std::string_view text_;
  std::string_view file_;
  size_t at_ = 0;
  size_t counted_to_ = 0;  // line_ is the line of this place
  int line_ = 1;
  Graph graph_;
  std::map<std::string, ValueId> ids_;
  std::set<int> updated_;  // arguments
  bool is_local_ = false;
  int open_regions_ = 0;           // that the next statement stands in
  std::vector<size_t> value_at_;   // per value: where its op, or the argument, stands in the text
  std::vector<size_t> update_at_;  // per update: where the variable stands
};

}  // namespace

absl::StatusOr<Graph> ParseGraph(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).Parse();
}

}  // namespace meshwork
