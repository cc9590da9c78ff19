#include "ops/kernels/cuda/trials.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/sample.h"
#include "meshwork/layout/block.h"
#include "meshwork/tools/check/double_tensor.h"
#include "meshwork/tools/check/owed.h"
#include "meshwork/tools/check/placements.h"

namespace meshwork {
namespace {

constexpr std::byte kGarbage{0xff};

KernelSpec WholeSpecOf(const Sample& sample) {
  KernelSpec spec{.operands = {}, .results = {}, .attrs = sample.attrs};
  for (const Type& type : sample.operands) spec.operands.push_back({type, type});
  for (const Type& type : sample.results) spec.results.push_back({type, type});
  return spec;
}

// The elements of a block as they lie in a local buffer, whose padding is garbage.
Bytes Padded(const DoubleTensor& whole, const Block& block, const Shape& local) {
  const Bytes part = ToBytes(PartOf(whole, block));
  const auto size = static_cast<size_t>(DTypeSize(whole.type.dtype));
  Bytes bytes(static_cast<size_t>(NumElements(local)) * size, kGarbage);
  Shape extents;
  for (const Extent& extent : block) extents.push_back(extent.size);
  for (int64_t i = 0; i < NumElements(extents); ++i) {
    int64_t to = 0, rest = i, stride = 1;
    for (size_t d = local.size(); d-- > 0; rest /= extents[d], stride *= local[d])
      to += rest % extents[d] * stride;
    std::memcpy(bytes.data() + static_cast<size_t>(to) * size, part.data() + static_cast<size_t>(i) * size,
                size);
  }
  return bytes;
}

class TrialMaker {
 public:
  explicit TrialMaker(const OpRow& row) : row_(row) {}

  std::vector<CudaTrial> Make() {
    for (const std::string_view text : row_.samples) {
      const Sample sample = ParseSample(row_, text).value();
      AddWhole(sample, "");
      // Elementwise rows all stack in the same way.
      if (IsCudaChainOp(row_) && text != row_.samples[0]) continue;
      AddStacked(sample, std::nullopt);
      for (ReduceOp op : kAllReduceOps)
        if (MayOwe(sample.results[0].dtype, op)) AddStacked(sample, op);
      if (row_.reads_block)
        for (int64_t devices : {2, 3}) AddDevices(sample, devices);
    }
    if (row_.samples.empty()) return std::move(trials_);
    const Sample first = ParseSample(row_, row_.samples[0]).value();
    AddDTypes();
    AddSizes(first);
    if (IsCudaChainOp(row_)) AddSpecials();
    if (row_.name.substr(0, 7) == "reduce_") AddFewResults(first);
    return std::move(trials_);
  }

  void Add(std::string name, const KernelSpec& spec, std::vector<Bytes> in, std::vector<Block> in_blocks,
           std::vector<Block> out_blocks) {
    CudaTrial trial{std::move(name),
                    &row_,
                    spec,
                    MakeCudaKernel(row_, spec).value(),
                    std::move(in),
                    std::move(in_blocks),
                    std::move(out_blocks)};
    CudaTrial aligned = trial;
    aligned.kernel = MakeCudaKernel(row_, spec, 16).value();
    aligned.name += ", aligned";
    const bool is_same = aligned.kernel.name == trial.kernel.name;
    trials_.push_back(std::move(trial));
    if (!is_same) trials_.push_back(std::move(aligned));
  }
  std::vector<CudaTrial> Take() { return std::move(trials_); }

 private:
  void AddSpec(std::string name, const KernelSpec& spec) {
    Sampler sampler(8);
    std::vector<Bytes> in;
    std::vector<Block> in_blocks, out_blocks;
    for (const TensorSpec& operand : spec.operands) {
      in.push_back(ToBytes(sampler.Draw(operand.local, row_)));
      in_blocks.push_back(WholeBlock(operand.local.shape));
    }
    for (const TensorSpec& result : spec.results) out_blocks.push_back(WholeBlock(result.local.shape));
    Add(std::move(name), spec, std::move(in), std::move(in_blocks), std::move(out_blocks));
  }
  // Few results of many elements each, for which the kernel is split into two.
  void AddFewResults(const Sample& sample) {
    for (const int64_t dim : {0, 1}) {
      const Type type{sample.operands[0].dtype, dim == 0 ? Shape{3300, 42} : Shape{2, 70001}};
      const Attrs attrs = {{"dims", std::vector<int64_t>{dim}}, {"keep_dims", false}};
      const Type result = InferTypes(row_, std::vector<Type>{type}, attrs).value()[0];
      AddSpec(fmt::format("{} over {}", type.ToString(), dim),
              {.operands = {{type, type}}, .results = {{result, result}}, .attrs = attrs});
    }
  }
  void AddWhole(const Sample& sample, std::string_view how) {
    AddSpec(fmt::format("{} {{{}}}{}", sample.ToString(), sample.text, how), WholeSpecOf(sample));
  }

  // The first sample's types and attributes, with all f32, i32 or bool replaced by another dtype.
  void AddDTypes() {
    const std::string text(row_.samples[0]);
    for (const std::string_view from : {"f32", "i32", "bool"}) {
      for (const DType dtype : kAllDTypes) {
        if (DTypeName(dtype) == from || text.find(from) == std::string::npos) continue;
        std::string other = text;
        for (size_t at = other.find(from); at != std::string::npos; at = other.find(from, at + 1))
          other.replace(at, from.size(), DTypeName(dtype));
        const absl::StatusOr<Sample> sample = ParseSample(row_, other);
        if (sample.ok()) AddWhole(*sample, "");
      }
    }
  }

  // Letters of one element, of none, and of odd sizes that fill more than a block of threads, one by one if there are
  // many letters.
  void AddSizes(const Sample& sample) {
    const size_t letters = sample.rule().letters.size();
    std::vector<std::vector<int64_t>> all = {std::vector<int64_t>(letters, 1),
                                             std::vector<int64_t>(letters, 0)};
    std::vector<int64_t> odd(letters, 3);
    for (size_t l = letters; l-- > 0 && letters - l <= 3;)
      odd[l] = letters - l == 1 ? 37 : letters - l == 2 ? 41 : 3;
    if (letters <= 4) {
      all.push_back(odd);
      std::reverse(odd.begin(), odd.end());
      all.push_back(odd);
    } else {
      for (size_t l = 0; l < letters; ++l) {
        all.emplace_back(letters, 2);
        all.back()[l] = 131;
      }
    }
    for (const std::vector<int64_t>& sizes : all)
      if (const std::optional<Sample> resized = Resized(sample, sizes)) AddWhole(*resized, " resized");
  }

  void AddStacked(const Sample& sample, std::optional<ReduceOp> op) {
    if (row_.stack == nullptr || sample.operands.empty()) return;
    const size_t operands = sample.operands.size();
    const std::vector<bool> all(operands, true);
    std::vector<bool> first(operands, false), last(operands, false);
    first.front() = last.back() = true;
    for (const auto& [outer, inner] : {std::pair(all, all), std::pair(all, first), std::pair(last, first)}) {
      StackDims dims = {{2, outer}, {3, inner}};
      if (op.has_value()) dims[0].reduced = op;
      const std::optional<KernelSpec> spec = row_.stack(WholeSpecOf(sample), dims);
      if (spec.has_value())
        AddSpec(fmt::format("{} stacked{}", sample.ToString(), op ? " and reduced" : ""), *spec);
    }
  }

  // Each letter sharded over that many devices; blocks have padding and may be empty.
  void AddDevices(const Sample& sample, int64_t devices) {
    const Mesh mesh = Mesh::Create({{"x", devices}}).value();
    const Rule rule = sample.rule();
    Sampler sampler(8);
    std::vector<DoubleTensor> wholes;
    for (const Type& type : sample.operands) wholes.push_back(sampler.Draw(type, row_));
    for (size_t l = 0; l < rule.letters.size(); ++l) {
      const Letter& letter = rule.letters[l];
      if (letter.whole || letter.windowed || (letter.must_divide && letter.size % devices != 0)) continue;
      LetterAxes axes(rule.letters.size());
      axes[l] = {0};
      const OpPlacement placement = PlacementOf(rule, axes, mesh);
      const std::optional<KernelSpec> spec = LocalSpec(sample, placement);
      if (!spec.has_value()) continue;
      for (int64_t device = 0; device < devices; ++device) {
        std::vector<Bytes> in;
        std::vector<Block> in_blocks, out_blocks;
        for (size_t o = 0; o < wholes.size(); ++o) {
          in_blocks.push_back(placement.operands[o].BlockOf(sample.operands[o].shape, device));
          in.push_back(Padded(wholes[o], in_blocks[o], spec->operands[o].local.shape));
        }
        for (size_t r = 0; r < sample.results.size(); ++r)
          out_blocks.push_back(placement.results[r].BlockOf(sample.results[r].shape, device));
        Add(fmt::format("{} letter {} device {} of {}", sample.ToString(), l, device, devices), *spec,
            std::move(in), std::move(in_blocks), std::move(out_blocks));
      }
    }
  }

  std::optional<KernelSpec> LocalSpec(const Sample& sample, const OpPlacement& placement) const {
    std::vector<Type> operands, results;
    for (size_t o = 0; o < sample.operands.size(); ++o)
      operands.push_back(
          {sample.operands[o].dtype, placement.operands[o].LocalShape(sample.operands[o].shape)});
    for (size_t r = 0; r < sample.results.size(); ++r)
      results.push_back({sample.results[r].dtype, placement.results[r].LocalShape(sample.results[r].shape)});
    const auto attrs =
        ResizedAttrs(row_, {sample.operands, sample.results, sample.attrs}, operands, results[0].shape);
    if (!attrs.ok()) return std::nullopt;
    KernelSpec spec{.operands = {}, .results = {}, .attrs = *attrs};
    for (size_t o = 0; o < operands.size(); ++o) spec.operands.push_back({operands[o], sample.operands[o]});
    for (size_t r = 0; r < results.size(); ++r) spec.results.push_back({results[r], sample.results[r]});
    return spec;
  }

  // All pairs of special values, in each dtype to compute with. A third operand has the values of the first.
  void AddSpecials() {
    const std::string text(row_.samples[0]);
    const std::string attrs = text.find(';') == std::string::npos ? "" : text.substr(text.find(';'));
    const Sample first = ParseSample(row_, text).value();
    for (const DType dtype : kComputeDTypes) {
      std::string types;
      for (size_t o = 0; o < first.operands.size(); ++o) {
        const bool stays = first.operands.size() == 3 && o == 0;  // of select: the condition
        types += fmt::format("{}{}[256]", o == 0 ? "" : ", ", DTypeName(stays ? BOOL : dtype));
      }
      const absl::StatusOr<Sample> sample = ParseSample(row_, types + attrs);
      if (!sample.ok()) continue;
      std::vector<Bytes> in;
      std::vector<Block> in_blocks;
      for (size_t o = 0; o < sample->operands.size(); ++o) {
        DoubleTensor tensor{sample->operands[o], {}};
        const std::vector<double> special = Specials(tensor.type.dtype);
        for (size_t i = 0; i < 256; ++i) tensor.values.push_back(special[o % 2 == 0 ? i / 16 : i % 16]);
        in.push_back(ToBytes(tensor));
        in_blocks.push_back(WholeBlock(tensor.type.shape));
      }
      Add(fmt::format("{} special", sample->ToString()), WholeSpecOf(*sample), std::move(in), in_blocks,
          {WholeBlock(sample->results[0].shape)});
    }
  }

  static std::vector<double> Specials(DType dtype) {
    if (dtype == BOOL) return {0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    if (dtype == I32 || dtype == I64) {
      const double least = dtype == I32 ? -0x1p31 : -0x1p63, most = dtype == I32 ? 0x1p31 - 1 : 0x1p52;
      return {0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 63, 64, -64, least, most, 12345};
    }
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return {0.0, -0.0, 1, -1, kInf, -kInf, std::nan(""), 0.5, -2.5, 3.5, 1e30, -1e30, 1e-40, 88, -104, 0.75};
  }

  const OpRow& row_;
  std::vector<CudaTrial> trials_;
};

// Ops of local programs have no samples.
std::vector<CudaTrial> LocalTrialsOf(const OpRow& row) {
  TrialMaker maker(row);
  const auto add = [&](std::string_view name, const KernelSpec& spec, const Block& from, const Block& to) {
    Sampler sampler(8);
    const Bytes in = ToBytes(sampler.Draw(spec.operands[0].local, row));
    maker.Add(fmt::format("{} {}", row.name, name), spec, {in}, {from}, {to});
  };
  const auto spec_of = [](const Type& from, const Type& to, Attrs attrs) {
    return KernelSpec{.operands = {{from, from}}, .results = {{to, to}}, .attrs = std::move(attrs)};
  };
  const std::vector<int64_t> dims = {0, 2};
  if (row.name == "mask_padding") {
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp op : kAllReduceOps) {
        if (!MayOwe(dtype, op)) continue;
        const Type type{dtype, {4, 3, 5}};
        add(fmt::format("{} {}", type.ToString(), ReduceOpName(op)),
            spec_of(type, type, {{"dims", dims}, {"op", op}}), WholeBlock(type.shape),
            {{4, 3}, {0, 3}, {0, 2}});
      }
    }
  } else if (row.name == "shard_slice") {
    for (const DType dtype : kAllDTypes) {
      const Type from{dtype, {3, 6, 5}}, to{dtype, {3, 2, 5}};
      for (int64_t start : {6, 8, 10})
        add(fmt::format("{} at {}", to.ToString(), start),
            spec_of(from, to, {{"axes", AxisList{0}}, {"dim", int64_t{1}}}), {{0, 3}, {6, 5}, {0, 5}},
            {{0, 3}, {start, start == 10 ? 1 : 2}, {0, 5}});
    }
  } else if (row.name == "widen" || row.name == "narrow") {
    const DType from = row.name == "widen" ? BF16 : F32, to = row.name == "widen" ? F32 : BF16;
    const Shape shape = {7, 51};
    add("[7,51]", spec_of({from, shape}, {to, shape}, {}), WholeBlock(shape), WholeBlock(shape));
  }
  return maker.Take();
}

}  // namespace

std::vector<CudaTrial> TrialsOf(const OpRow& row) {
  if (row.kind == OpKind::kLocal) return LocalTrialsOf(row);
  return TrialMaker(row).Make();
}

}  // namespace meshwork
