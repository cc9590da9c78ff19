// The forms of loops and branches: while loops and choices around the ops of their bodies, which see the values around them. Bodies
// of manual regions are written in place.
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

using FormResult = absl::StatusOr<HloValues>;

// A body that has been written for these arguments.
struct WrittenBody {
  HloValues outputs, arguments;  // arguments: what they hold after the step
};

absl::StatusOr<WrittenBody> WriteBody(HloText& text, const Graph& body, HloValues arguments) {
  MESHWORK_ASSIGN_OR_RETURN(const HloValues values, WriteNodes(text, body, arguments));
  WrittenBody written{.outputs = {}, .arguments = std::move(arguments)};
  for (const OutputInfo& output : body.outputs()) written.outputs.push_back(values[output.value]);
  for (const VariableUpdate& update : body.updates())
    written.arguments[update.argument] = values[update.value];
  return written;
}

// A region whose body may fail.
std::string RegionOf(HloText& text, const std::vector<Type>& arguments, absl::Status& status,
                     const std::function<FormResult(const HloValues&)>& body) {
  return text.Region(arguments, [&](const HloValues& values) {
    FormResult results = body(values);
    if (!results.ok() && status.ok()) status = results.status();
    return results.ok() ? *std::move(results) : HloValues{};
  });
}

std::vector<Type> TypesOfState(const HloValues& state) {
  std::vector<Type> types;
  for (const HloValue& value : state) types.push_back(value.type);
  return types;
}

FormResult Loop(HloText& text, const HloValues& state,
                const std::function<FormResult(const HloValues&)>& condition,
                const std::function<FormResult(const HloValues&)>& body) {
  absl::Status status;
  const std::vector<Type> types = TypesOfState(state);
  std::vector<std::string> regions = {RegionOf(text, types, status, condition)};
  regions.push_back(RegionOf(text, types, status, body));
  MESHWORK_RETURN_IF_ERROR(status);
  if (state.empty()) return HloValues{};
  return text.Ops("stablehlo.while", state, types, {}, regions);
}

// ---- scan. The state: the iteration, carries, stacked results, sums.

class ScanForm {
 public:
  explicit ScanForm(const FormView& v)
      : v_(v), text_(v.text), shape_(ShapeOfControl(v.node)), length_(v.attrs().Get<int64_t>("length")) {}

  FormResult Write() {
    HloValues state = {text_.WholeConstant(0, {I64, {}})};
    for (int c = 0; c < shape_.carries; ++c) state.push_back(v_.operands[c]);
    for (int s = 0; s < shape_.stacked; ++s)
      state.push_back(text_.Constant(0, v_.result(shape_.carries + s)));
    for (int s = 0; s < shape_.sums; ++s) {
      const Type& type = v_.result(shape_.carries + shape_.stacked + s);
      state.push_back(text_.Constant(0, {WideDType(type.dtype), type.shape}));
    }
    const HloValue length = text_.WholeConstant(length_, {I64, {}});
    MESHWORK_ASSIGN_OR_RETURN(
        const HloValues last,
        Loop(
            text_, state,
            [&](const HloValues& now) { return HloValues{text_.Compare("LT", now[0], length)}; },
            [&](const HloValues& now) { return Iteration(now); }));
    HloValues results(last.begin() + 1, last.end());
    for (size_t r = 0; r < results.size(); ++r) results[r] = text_.Convert(results[r], v_.result(r).dtype);
    return results;
  }

 private:
  // The place of the iteration's slices along dim 0, and 0 along the other dims.
  HloValues PlaceOf(const HloValue& iteration, size_t rank) const {
    HloValue first = iteration;
    if (v_.attrs().Get<bool>("reverse"))
      first = text_.Subtract(text_.WholeConstant(length_ - 1, {I64, {}}), iteration);
    HloValues place = {first};
    if (rank > 1) place.resize(rank, text_.WholeConstant(0, {I64, {}}));
    return place;
  }

  HloValue SliceOf(const HloValue& x, const HloValue& iteration) const {
    HloValues operands = {x};
    for (const HloValue& start : PlaceOf(iteration, x.shape().size())) operands.push_back(start);
    Type slice = x.type;
    slice.shape[0] = 1;
    const HloValue taken =
        text_.Op("stablehlo.dynamic_slice", operands, slice, "slice_sizes = " + Array(slice.shape));
    return text_.Reshape(taken, Shape(slice.shape.begin() + 1, slice.shape.end()));
  }

  HloValue WithSlice(const HloValue& all, const HloValue& slice, const HloValue& iteration) const {
    Shape shape = slice.shape();
    shape.insert(shape.begin(), 1);
    HloValues operands = {all, text_.Reshape(slice, shape)};
    for (const HloValue& start : PlaceOf(iteration, shape.size())) operands.push_back(start);
    return text_.Op("stablehlo.dynamic_update_slice", operands, all.type);
  }

  FormResult Iteration(const HloValues& now) const {
    HloValues arguments(now.begin() + 1, now.begin() + 1 + shape_.carries);
    for (size_t i = static_cast<size_t>(shape_.carries); i < v_.operands.size(); ++i)
      arguments.push_back(i < static_cast<size_t>(shape_.carries + shape_.slices)
                              ? SliceOf(v_.operands[i], now[0])
                              : v_.operands[i]);
    MESHWORK_ASSIGN_OR_RETURN(const WrittenBody body,
                              WriteBody(text_, *v_.node.regions[0], std::move(arguments)));
    HloValues next = {text_.Add(now[0], 1.0)};
    for (int c = 0; c < shape_.carries; ++c) next.push_back(body.arguments[c]);
    for (int s = 0; s < shape_.stacked; ++s)
      next.push_back(WithSlice(now[next.size()], body.outputs[s], now[0]));
    for (int s = 0; s < shape_.sums; ++s) {
      const HloValue& sum = now[next.size()];
      next.push_back(text_.Add(sum, text_.Convert(body.outputs[shape_.stacked + s], sum.dtype())));
    }
    return next;
  }

  const FormView& v_;
  HloText& text_;
  const ControlShape shape_;
  const int64_t length_;
};

FormResult Scan(const FormView& v) { return ScanForm(v).Write(); }

// ---- while. A body says whether it is to run; its ops are written twice, to ask and to run.

FormResult While(const FormView& v) {
  const auto carries = static_cast<size_t>(ShapeOfControl(v.node).carries);
  const auto run = [&](const HloValues& now) {
    HloValues arguments = now;
    arguments.insert(arguments.end(), v.operands.begin() + static_cast<ptrdiff_t>(carries), v.operands.end());
    return WriteBody(v.text, *v.node.regions[0], std::move(arguments));
  };
  const HloValues first(v.operands.begin(), v.operands.begin() + static_cast<ptrdiff_t>(carries));
  return Loop(
      v.text, first,
      [&](const HloValues& now) -> FormResult {
        MESHWORK_ASSIGN_OR_RETURN(const WrittenBody body, run(now));
        return HloValues{body.outputs[0]};
      },
      [&](const HloValues& now) -> FormResult {
        MESHWORK_ASSIGN_OR_RETURN(WrittenBody body, run(now));
        body.arguments.resize(carries);
        return body.arguments;
      });
}

FormResult If(const FormView& v) {
  absl::Status status;
  std::vector<std::string> regions;
  for (const auto& region : v.node.regions) {
    regions.push_back(RegionOf(v.text, {}, status, [&](const HloValues&) -> FormResult {
      MESHWORK_ASSIGN_OR_RETURN(const WrittenBody body,
                                WriteBody(v.text, *region, {v.operands.begin() + 1, v.operands.end()}));
      return body.outputs;
    }));
  }
  MESHWORK_RETURN_IF_ERROR(status);
  std::vector<Type> types;
  for (size_t r = 0; r < v.node.results.size(); ++r) types.push_back(v.result(r));
  return v.text.Ops("stablehlo.if", {v.operands.data(), 1}, types, {}, regions);
}

// A manual region: in a local program its body is what each device runs, with collectives like all others.
FormResult Manual(const FormView& v) {
  MESHWORK_ASSIGN_OR_RETURN(WrittenBody body, WriteBody(v.text, *v.node.regions[0], v.operands));
  return std::move(body.outputs);
}

constexpr NamedForm kControlForms[] = {{"scan", Scan}, {"while", While}, {"if", If}, {"manual", Manual}};

}  // namespace

std::span<const NamedForm> ControlForms() { return kControlForms; }

}  // namespace meshwork::stablehlo
