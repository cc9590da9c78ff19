// The order family: sort and top_k along a dim, with the original places of the elements; composites of them.
//
// NaN is larger than every number, and equal to itself; -0 equals 0. Of equal elements the one with the lower
// index comes first, ascending and descending. The dim of a sort is whole on every device; along a sharded
// dim, top_k takes the candidates of each block.
#include <algorithm>
#include <iterator>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/blockwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/columns.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/portable/arithmetic.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// ---- Inference, rules, gradients.

absl::Status CheckOrdered(const OpView& view) {
  const Type& x = view.operands[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  if (x.dtype == BOOL) return InvalidArgument("takes numbers, got {}; cast it.", x.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", dim, x));
  if (x.shape[dim] > int64_t{1} << 31)
    return InvalidArgument("dim {} of {} has more than 2^31 elements, which an i32 index cannot count.", dim,
                           x.ToString());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferSort(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckOrdered(view));
  return std::vector<Type>{view.operands[0], {I32, view.operands[0].shape}};
}

absl::StatusOr<std::vector<Type>> InferTopK(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckOrdered(view));
  Type values = view.operands[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim"), k = view.attrs.Get<int64_t>("k");
  if (k < 0 || k > values.shape[dim])
    return InvalidArgument("k={} of dim {} of {}; it goes from 0 to the size, {}.", k, dim, values.ToString(),
                           values.shape[dim]);
  values.shape[dim] = k;
  return std::vector<Type>{values, {I32, values.shape}};
}

// "ab!->ac,ac" with `along` for c.
Rule OrderRule(const OpView& view, bool keeps_dim) {
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  std::string from, to;
  for (int64_t d = 0; d < view.operands[0].rank(); ++d) {
    from += static_cast<char>('a' + d);
    to += d == dim && !keeps_dim ? '1' : from.back();
    if (d == dim) from += keeps_dim ? '!' : '^';
  }
  return MakeRule(from + "->" + to + "," + to, view.operands, view.results);
}
Rule SortRule(const OpView& view) { return OrderRule(view, /*keeps_dim=*/true); }
Rule TopKRule(const OpView& view) { return OrderRule(view, /*keeps_dim=*/false); }

// Gradients go back to where the elements were.
std::vector<Value> OrderGrad(const GradView& view) {
  const Value& x = view.operands[0];
  if (!IsFloat(x.dtype())) return {Value()};
  return {
      ScatterAddAlongDim(view.result_grads[0], view.results[1], x.shape(), view.attrs.Get<int64_t>("dim"))};
}

// The first k of each block, and the first k of these. Padding beyond the end comes behind all equal
// elements.
std::vector<Value> TopKBlockwise(const BlockwiseView& view) {
  const Value& x = view.operands[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim"), k = view.attrs.Get<int64_t>("k");
  const Blocks blocks(view, x, dim);
  const int64_t candidates = std::min(k, blocks.size());
  // An element and its index are sent per candidate.
  if (2 * candidates >= blocks.size()) return {};
  const Ordered first = TopK(blocks.Split(x, LowestOf(x.dtype())), candidates, dim + 1);
  const Value values = blocks.Gathered(first.values);
  const Value places = blocks.Gathered(first.indices + blocks.Starts(first.indices));
  Shape shape = values.shape();
  shape[dim] *= candidates;
  shape.erase(shape.begin() + dim + 1);
  const Ordered best = TopK(Reshape(values, shape), k, dim);
  return {best.values, TakeAlongDim(Reshape(places, shape), best.indices, dim)};
}

// A comparison per element and level.
double OrderFlops(const OpView& view) {
  const Type& x = view.operands[0];
  double levels = 1;
  for (int64_t n = x.shape[view.attrs.Get<int64_t>("dim")]; n > 2; n /= 2) ++levels;
  return levels * static_cast<double>(x.num_elements());
}

// ---- Kernels.

// Every `stride`-th place from a pointer on.
class Strided {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = int32_t;
  using difference_type = int64_t;
  using pointer = int32_t*;
  using reference = int32_t&;

  Strided() = default;
  Strided(int32_t* at, int64_t stride) : at_(at), stride_(stride) {}
  int32_t& operator*() const { return *at_; }
  int32_t& operator[](int64_t n) const { return at_[n * stride_]; }
  Strided& operator+=(int64_t n) { return at_ += n * stride_, *this; }
  Strided& operator-=(int64_t n) { return at_ -= n * stride_, *this; }
  Strided& operator++() { return *this += 1; }
  Strided& operator--() { return *this -= 1; }
  Strided operator++(int) { return std::exchange(*this, *this + 1); }
  Strided operator--(int) { return std::exchange(*this, *this - 1); }
  Strided operator+(int64_t n) const { return Strided(*this) += n; }
  Strided operator-(int64_t n) const { return Strided(*this) -= n; }
  int64_t operator-(const Strided& other) const { return (at_ - other.at_) / stride_; }
  auto operator<=>(const Strided& other) const { return at_ <=> other.at_; }
  bool operator==(const Strided& other) const { return at_ == other.at_; }

 private:
  int32_t* at_ = nullptr;
  int64_t stride_ = 1;
};

// Whether the element at i comes before the one at j: a strict order of all places.
template <typename T>
struct Before {
  const T* x;
  int64_t stride;
  bool descending;

  bool operator()(int32_t i, int32_t j) const {
    const Compute<T> a = x[i * stride], b = x[j * stride];
    if (descending ? portable::SortsBelow(b, a) : portable::SortsBelow(a, b)) return true;
    if (descending ? portable::SortsBelow(a, b) : portable::SortsBelow(b, a)) return false;
    return i < j;
  }
};

// Writes the first k places of the order to `places`. Takes no other memory.
template <typename It, typename T>
void FindFirst(int64_t n, int64_t k, const Before<T>& before, It places) {
  for (int64_t i = 0; i < k; ++i) places[i] = static_cast<int32_t>(i);
  if (k == n) return std::sort(places, places + k, before);
  if (k == 0) return;
  // A heap whose top is the last of the best k so far.
  std::make_heap(places, places + k, before);
  for (int64_t i = k; i < n; ++i) {
    const auto place = static_cast<int32_t>(i);
    if (!before(place, places[0])) continue;
    std::pop_heap(places, places + k, before);
    places[k - 1] = place;
    std::push_heap(places, places + k, before);
  }
  std::sort_heap(places, places + k, before);
}

template <typename T>
Kernel OrderKernel(const KernelSpec& spec, bool descending) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim"), k = spec.results[0].local.shape[dim];
  const ColumnSizes sizes(spec.operands[0].local.shape, dim);
  return ColumnKernel(sizes, 1, [=](const KernelArgs& args) {
    const int64_t inner = sizes.inner;
    ForEachSlab(sizes, args.begin, args.end, [&](int64_t o, int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c) {
        const Before<T> before{args.In<T>(0) + o * sizes.n * inner + c, inner, descending};
        T* values = args.Out<T>(0) + o * k * inner + c;
        int32_t* places = args.Out<int32_t>(1) + o * k * inner + c;
        if (inner == 1) FindFirst(sizes.n, k, before, places);
        else FindFirst(sizes.n, k, before, Strided(places, inner));
        for (int64_t i = 0; i < k; ++i) values[i * inner] = before.x[places[i * inner] * inner];
      }
    });
  });
}

Kernel OrderCpu(const KernelSpec& spec, bool descending) {
  return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {};
    else return OrderKernel<T>(spec, descending);
  });
}
Kernel SortCpu(const KernelSpec& spec) { return OrderCpu(spec, spec.attrs.Get<bool>("descending")); }
Kernel TopKCpu(const KernelSpec& spec) { return OrderCpu(spec, /*descending=*/true); }

// ---- Rows.

}  // namespace

std::span<const OpRow> OrderOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "sort",
       .doc = "x in order along dim, and the indices that the elements had; stable, NaN is the largest",
       .num_results = 2,
       .attrs = {{"dim", AttrKind::kInt}, {"descending", AttrKind::kBool, false}},
       .infer = InferSort,
       .rule = SortRule,
       .grad = OrderGrad,
       .flops = OrderFlops,
       .cpu = SortCpu,
       .stack = StackAlongDim,
       .is_light = true,
       .samples = {"f32[4,6]; dim=1", "f64[4,3]; dim=0", "f32[2,4,3]; dim=1 descending=true",
                   "bf16[4,6]; dim=1 descending=true", "i32[6,2]; dim=0", "i64[5]; dim=0"}},
      {.name = "top_k",
       .doc = "the k largest along dim, the largest first, and their indices; ties go to the lowest index, "
              "NaN is the largest",
       .num_results = 2,
       .attrs = {{"dim", AttrKind::kInt}, {"k", AttrKind::kInt}},
       .infer = InferTopK,
       .rule = TopKRule,
       .blockwise = TopKBlockwise,
       .grad = OrderGrad,
       .flops = OrderFlops,
       .cpu = TopKCpu,
       .stack = StackAlongDim,
       .is_light = true,
       .samples = {"f32[4,6]; dim=1 k=3", "f64[4,3]; dim=0 k=1", "f32[2,4,3]; dim=1 k=2",
                   "bf16[4,6]; dim=1 k=6", "i32[6,2]; dim=0 k=4", "i64[5]; dim=0 k=2"}},
  };
  return *rows;
}

Ordered AddOrdered(std::string_view op, const Operand& x, int64_t dim, Attrs attrs) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const std::optional<int64_t> d = CountDim(at, op, dim);
  if (!d.has_value()) return {};
  attrs.Set("dim", *d);
  const std::vector<Value> results = at.graph->Add(op, at.values, attrs, at.location);
  return {results[0], results[1]};
}

Ordered Sort(const Operand& x, int64_t dim, bool descending) {
  return AddOrdered("sort", x, dim, {{"descending", descending}});
}
Ordered TopK(const Operand& x, int64_t k, int64_t dim) { return AddOrdered("top_k", x, dim, {{"k", k}}); }

}  // namespace meshwork
