// Elements by index along several dims at once: gather_nd, and scatter_nd_add, its transpose.
//
// The last dim of the indices is a place: one index per dim that is indexed, each clamped to its dim. Along
// sharded dims a device serves the places of which it owns every index, as in gather.cc.
#include <algorithm>
#include <array>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/identity.h"
#include "meshwork/ops/kernels/indexing.h"
#include "meshwork/ops/kernels/scatter.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// How x: [batch.., n.., rest..], indices: [batch.., places.., k] and what lies at the places, [batch..,
// places.., rest..], fall into these groups; there are k dims n.
struct Groups {
  int batch, indexed, places, rest;
};

// Errors: indices that are no whole numbers or do not fit x.
absl::StatusOr<Groups> GroupsOf(const Type& x, const Type& indices, int64_t batch) {
  if (!IsInteger(indices.dtype))
    return InvalidArgument("the indices are {}; they must be i32 or i64.", indices.ToString());
  if (indices.rank() == 0)
    return InvalidArgument(
        "the indices are {}; they must have at least one dim, whose size is that of a place.",
        indices.ToString());
  const int64_t most = std::min<int64_t>(x.rank(), indices.rank() - 1);
  if (batch < 0 || batch > most)
    return InvalidArgument("batch_dims={} of {} and indices {}; it goes from 0 to {}.", batch, x.ToString(),
                           indices.ToString(), most);
  if (!std::equal(x.shape.begin(), x.shape.begin() + batch, indices.shape.begin()))
    return InvalidArgument("x is {}, the indices {}; their first {} dims must be equal.", x.ToString(),
                           indices.ToString(), batch);
  const int64_t k = indices.shape.back();
  if (batch + k > x.rank())
    return InvalidArgument("the indices {} name {} dims of {}, which has {} behind batch_dims={}.",
                           indices.ToString(), k, x.ToString(), x.rank() - batch, batch);
  for (int64_t d = batch; d < batch + k; ++d)
    if (x.shape[d] == 0 && indices.num_elements() > 0)
      return InvalidArgument("dim {} of {} is empty; the indices {} have nothing to name.", d, x.ToString(),
                             indices.ToString());
  return Groups{static_cast<int>(batch), static_cast<int>(k), static_cast<int>(indices.rank() - 1 - batch),
                static_cast<int>(x.rank() - batch - k)};
}

Shape PlacedShape(const Groups& groups, const Type& x, const Type& indices) {
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), x.shape.begin() + groups.batch + groups.indexed, x.shape.end());
  return shape;
}

// Letters of x "abcd", of the indices "aA1", of what lies at the places "aAd" (batch a, indexed b and c).
struct PlaceTerms {
  std::string x, indices, placed;

  PlaceTerms(const Groups& groups, const Type& type) {
    for (int d = 0; d < type.rank(); ++d) x += static_cast<char>('a' + d);
    indices = x.substr(0, static_cast<size_t>(groups.batch));
    for (int d = 0; d < groups.places; ++d) indices += static_cast<char>('A' + d);
    placed = indices + x.substr(static_cast<size_t>(groups.batch + groups.indexed));
    indices += '1';
  }
};

// The rows of places in a block of x.
class Places {
 public:
  Places(const Groups& groups, const TensorSpec& x, const TensorSpec& indices) : groups_(groups) {
    const Shape& local = x.local.shape;
    for (int d = 0; d < x.local.rank(); ++d) {
      if (d < groups.batch) batches *= local[d];
      else if (d < groups.batch + groups.indexed) rows *= local[d];
      else rest *= local[d];
    }
    for (int d = groups.batch; d + 1 < indices.local.rank(); ++d) count *= indices.local.shape[d];
    for (int j = 0; j < groups.indexed; ++j) {
      const int d = groups.batch + j;
      last_.push_back(x.global.shape[d] - 1);
      sizes_.push_back(local[d]);
    }
  }

  // The row, of those of one batch, of the place at `place`, or -1 if the block of x does not own it.
  template <typename Index>
  int64_t RowOf(const Index* place, const Block& block) const {
    int64_t row = 0;
    for (size_t j = 0; j < last_.size(); ++j) {
      const Extent& own = block[static_cast<size_t>(groups_.batch) + j];
      const int64_t at = std::clamp<int64_t>(place[j], 0, last_[j]) - own.start;
      if (at < 0 || at >= own.size) return -1;
      row = row * sizes_[j] + at;
    }
    return row;
  }
  int64_t width() const { return groups_.indexed; }

  int64_t batches = 1, rows = 1, rest = 1;  // of x
  int64_t count = 1;                        // of places per batch

 private:
  Groups groups_;
  absl::InlinedVector<int64_t, 4> last_, sizes_;
};

// ---- gather_nd

absl::StatusOr<std::vector<Type>> InferGatherNd(const OpView& view) {
  const Type &x = view.operands[0], &indices = view.operands[1];
  MESHWORK_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(x, indices, view.attrs.Get<int64_t>("batch_dims")));
  return std::vector<Type>{{x.dtype, PlacedShape(groups, x, indices)}};
}

Rule GatherNdRule(const OpView& view) {
  const Type& x = view.operands[0];
  const PlaceTerms terms(GroupsOf(x, view.operands[1], view.attrs.Get<int64_t>("batch_dims")).value(), x);
  return MakeRule(terms.x + "," + terms.indices + "->" + terms.placed, view.operands, view.results,
                  MovesElements(Which::kFirst), x.dtype == BOOL ? ReduceOp::kOr : ReduceOp::kSum);
}

std::vector<Value> GatherNdGrad(const GradView& view) {
  return {ScatterNdAdd(view.result_grads[0], view.operands[1], view.operands[0].shape(),
                       view.attrs.Get<int64_t>("batch_dims")),
          Value()};
}

template <typename T, typename Index>
Kernel GatherNdKernel(const KernelSpec& spec) {
  const Groups groups =
      GroupsOf(spec.operands[0].local, spec.operands[1].local, spec.attrs.Get<int64_t>("batch_dims")).value();
  const Places places(groups, spec.operands[0], spec.operands[1]);
  const int64_t units = places.batches * places.count;
  return {.run =
              [places](const KernelArgs& args) {
                const int64_t rest = places.rest;
                for (int64_t i = args.begin; i < args.end; ++i) {
                  const int64_t row = places.RowOf(args.In<Index>(1) + i * places.width(), args.in_blocks[0]);
                  const int64_t batch = i / places.count;
                  T* out = args.Out<T>(0) + i * rest;
                  if (row < 0) std::fill_n(out, rest, IdentityOf<T>(ReduceOp::kSum));
                  else std::copy_n(args.In<T>(0) + (batch * places.rows + row) * rest, rest, out);
                }
              },
          .units = units,
          .by_rows = true,
          .parts = {places.batches, units}};
}

Kernel GatherNdCpu(const KernelSpec& spec) {
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) {
      return GatherNdKernel<Stored<decltype(zero)>, decltype(index)>(spec);
    });
  });
}

// ---- scatter_nd_add

absl::StatusOr<std::vector<Type>> InferScatterNdAdd(const OpView& view) {
  const Type &updates = view.operands[0], &indices = view.operands[1];
  const Type result{updates.dtype, ToShape(view.attrs.Get<Ints>("shape"))};
  if (updates.dtype == BOOL) return InvalidArgument("adds numbers, got {}.", updates.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckSize(result));
  MESHWORK_ASSIGN_OR_RETURN(const Groups groups,
                            GroupsOf(result, indices, view.attrs.Get<int64_t>("batch_dims")));
  const Type expected{updates.dtype, PlacedShape(groups, result, indices)};
  if (updates != expected)
    return InvalidArgument("the updates are {}; for indices {} of {} they must be {}.", updates.ToString(),
                           indices.ToString(), result.ToString(), expected.ToString());
  return std::vector<Type>{result};
}

Rule ScatterNdAddRule(const OpView& view) {
  const Type& to = view.results[0];
  const PlaceTerms terms(GroupsOf(to, view.operands[1], view.attrs.Get<int64_t>("batch_dims")).value(), to);
  return MakeRule(terms.placed + "," + terms.indices + "->" + terms.x, view.operands, view.results,
                  Linear(Which::kFirst));
}

std::vector<Value> ScatterNdAddGrad(const GradView& view) {
  return {GatherNd(view.result_grads[0], view.operands[1], view.attrs.Get<int64_t>("batch_dims")), Value()};
}

double ScatterNdAddFlops(const OpView& view) { return static_cast<double>(view.operands[0].num_elements()); }

template <typename T, typename Index>
Kernel ScatterNdAddKernel(const KernelSpec& spec) {
  const Groups groups =
      GroupsOf(spec.results[0].local, spec.operands[1].local, spec.attrs.Get<int64_t>("batch_dims")).value();
  const Places places(groups, spec.results[0], spec.operands[1]);
  return {.run = OnThisCpu<kMostLevel<T>>([places](const KernelArgs& args) {
            ForEachRowOfSlabs(
                places.rows, args.begin, args.end, [&](int64_t batch, int64_t begin, int64_t end) {
                  const Index* indices = args.In<Index>(1) + batch * places.count * places.width();
                  const auto row_of = [&](int64_t i) {
                    return places.RowOf(indices + i * places.width(), args.out_blocks[0]);
                  };
                  AddRows<T>(places.count, places.rest, begin, end,
                             args.In<T>(0) + batch * places.count * places.rest, row_of,
                             args.Out<T>(0) + batch * places.rows * places.rest);
                });
          }),
          .units = places.batches * places.rows};
}

Kernel ScatterNdAddCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) -> Kernel {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, bool>) return {};
      else return ScatterNdAddKernel<T, decltype(index)>(spec);
    });
  });
}

// ---- Rows.

}  // namespace

std::span<const OpRow> GatherNdOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "gather_nd",
       .doc =
           "x at places: the last dim of the indices has one per indexed dim, those behind batch_dims; one "
           "out of range counts as the nearest",
       .num_operands = 2,
       .attrs = {{"batch_dims", AttrKind::kInt, int64_t{0}}},
       .takes_storage = true,
       .infer = InferGatherNd,
       .rule = GatherNdRule,
       .grad = GatherNdGrad,
       .cpu = GatherNdCpu,
       .reads_block = true,
       .samples = {"f32[4,6], i32[3,2]", "f64[4,6,2], i64[3,2]", "f32[2,4,6], i32[2,3,1]; batch_dims=1",
                   "bf16[2,4,3], i32[2,2]; batch_dims=1", "i32[6,2], i64[2,2,1]", "bool[4,6], i32[4,2]"},
       .sample_int_low = -2,
       .sample_int_high = 9},
      {.name = "scatter_nd_add",
       .doc = "zeros of shape, to which the updates are added at the places, in their order",
       .num_operands = 2,
       .attrs = {{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true},
                 {"batch_dims", AttrKind::kInt, int64_t{0}}},
       .infer = InferScatterNdAdd,
       .rule = ScatterNdAddRule,
       .grad = ScatterNdAddGrad,
       .flops = ScatterNdAddFlops,
       .cpu = ScatterNdAddCpu,
       .reads_block = true,
       .samples = {"f32[3], i32[3,2]; shape=[4,6]", "f64[3,2], i64[3,2]; shape=[4,6,2]",
                   "f32[2,3,6], i32[2,3,1]; shape=[2,4,6] batch_dims=1", "bf16[4,6], i64[4,1]; shape=[6,6]",
                   "i32[2,2,2], i64[2,2,1]; shape=[6,2]", "i64[2], i32[2,2]; shape=[2,4,3] batch_dims=1"},
       .sample_int_low = -2,
       .sample_int_high = 9},
  };
  return *rows;
}

Value GatherNd(const Operand& x, const Operand& indices, int64_t batch_dims) {
  return AddOp("gather_nd", {x, indices}, {{"batch_dims", batch_dims}});
}
Value ScatterNdAdd(const Operand& updates, const Operand& indices, const Shape& shape, int64_t batch_dims) {
  return AddOp("scatter_nd_add", {updates, indices}, {{"shape", ToInts(shape)}, {"batch_dims", batch_dims}});
}

}  // namespace meshwork
