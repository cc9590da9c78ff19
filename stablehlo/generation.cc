// The forms of values made in place. A device makes its own block of the tensor.
#include "meshwork/ir/builder.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

absl::StatusOr<HloValues> ConstantForm(const FormView& v) {
  return HloValues{v.text.Constant(v.attrs().Get<double>("value"), v.result())};
}

// ---- elements.

// Of the attribute `bits`: numbers of i32 or i64 whose bits are the elements; those of bf16 are the upper halves.
HloValue ElementBits(const FormView& v, const Shape& of) {
  const DType dtype = v.result().dtype;
  std::vector<int64_t> numbers;
  for (const int64_t bits : v.attrs().Get<std::vector<int64_t>>("bits")) {
    if (dtype == I64 || dtype == F64) numbers.push_back(bits);
    else if (dtype == BOOL) numbers.push_back(bits != 0 ? 1 : 0);
    else numbers.push_back(static_cast<int32_t>(dtype == BF16 ? bits << 16 : bits));
  }
  return v.text.Table(numbers, {dtype == I64 || dtype == F64 ? I64 : I32, of});
}

// The whole tensor.
HloValue AllElements(const FormView& v, const Shape& of) {
  const HloValue bits = ElementBits(v, of);
  const DType dtype = v.result().dtype;
  if (!IsReal(dtype)) return v.text.Convert(bits, dtype);
  const HloValue wide = v.text.Op("stablehlo.bitcast_convert", {bits}, {dtype == F64 ? F64 : F32, of});
  return v.text.Convert(wide, dtype);
}

absl::StatusOr<HloValues> ElementsForm(const FormView& v) {
  const Type& type = v.result();
  const Shape of = ToShape(v.attrs().Get<std::vector<int64_t>>("of"));
  HloValue all = AllElements(v, of);
  if (type.shape == of) return HloValues{all};
  HloValues operands = {all};
  Shape beyond;
  for (size_t d = 0; d < of.size(); ++d) {
    operands.push_back(v.StartOf(v.result_info(), d));
    beyond.push_back(type.shape[d]);
  }
  // A slice that would end beyond the tensor is moved, so there must be more of it.
  operands[0] = v.text.Pad(all, v.text.Constant(0, {type.dtype, {}}), Shape(of.size(), 0), beyond);
  return HloValues{
      v.text.Op("stablehlo.dynamic_slice", operands, type, "slice_sizes = " + Array(type.shape))};
}

// ---- The others follow from the index.

// By way of f32 if it is to be of 16 bits, as kernels round.
HloValue FromIndex(const FormView& v, const HloValue& x) {
  const DType dtype = v.result().dtype;
  return v.text.Convert(dtype == BF16 ? v.text.Convert(x, F32) : x, dtype);
}

absl::StatusOr<HloValues> IotaForm(const FormView& v) {
  return HloValues{FromIndex(v, v.IndexAlong(static_cast<size_t>(v.attrs().Get<int64_t>("dim"))))};
}

absl::StatusOr<HloValues> LinspaceForm(const FormView& v) {
  const double start = v.attrs().Get<double>("start"), stop = v.attrs().Get<double>("stop");
  const int64_t last = v.result_info().global.shape[0] - 1;
  const double step = last > 0 ? (stop - start) / static_cast<double>(last) : 0;
  const HloValue index = v.IndexAlong(0);
  HloValue x = v.text.Add(v.text.Multiply(v.text.Convert(index, F64), step), start);
  if (last > 0) {
    const HloValue is_last = v.text.Compare("EQ", index, v.text.WholeConstant(last, index.type));
    x = v.text.Select(is_last, v.text.Constant(stop, x.type), x);
  }
  return HloValues{FromIndex(v, x)};
}

absl::StatusOr<HloValues> EyeForm(const FormView& v) {
  const auto columns = static_cast<size_t>(v.result().rank()) - 1;
  const HloValue row = v.IndexAlong(columns - 1);
  const HloValue one = v.text.Add(row, v.text.WholeConstant(v.attrs().Get<int64_t>("offset"), row.type));
  return HloValues{v.text.Convert(v.text.Compare("EQ", one, v.IndexAlong(columns)), v.result().dtype)};
}

absl::StatusOr<HloValues> OneHotForm(const FormView& v) {
  const Shape& shape = v.result().shape;
  std::vector<int64_t> dims;
  for (int64_t d = 0; d + 1 < std::ssize(shape); ++d) dims.push_back(d);
  const HloValue hot = v.text.BroadcastInDim(v.text.Convert(v.operands[0], I64), shape, dims);
  return HloValues{v.text.Convert(v.text.Compare("EQ", hot, v.IndexAlong(dims.size())), v.result().dtype)};
}

constexpr NamedForm kGenerationForms[] = {
    {"constant", ConstantForm}, {"elements", ElementsForm}, {"iota", IotaForm},
    {"linspace", LinspaceForm}, {"eye", EyeForm},           {"one_hot", OneHotForm},
};

}  // namespace

std::span<const NamedForm> GenerationForms() { return kGenerationForms; }

}  // namespace meshwork::stablehlo
