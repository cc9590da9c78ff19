// Chains of elementwise rows, of which a single row is the shortest.
//
// A thread takes a Pack of elements, 16 bytes of the widest type, and where there is much to do a second one, so that
// several loads are under way; all that it reads is read before it writes.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/chain_text.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork {
namespace cuda {
namespace {

constexpr int64_t kMostBlocksOfChain = int64_t{1} << 16;
// The number of threads that an H100 runs at once.
constexpr int64_t kThreadsOfGpu = 132 * 2048;

class ChainText {
 public:
  ChainText(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment)
      : ops_(ops), stored_(stored), inputs_(InputsOf(ops)) {
    count_ = ops[0].spec->results[0].local.num_elements();
    text_.name = ops.size() == 1 ? ops[0].row->name : "chain";
    for (const ChainInput& input : inputs_) text_.in.push_back(input.type);
    for (const int op : stored) text_.out.push_back(TypeOf(op));
    // The caller that fuses ops may write a result over an operand of any of them.
    text_.in_place = true;
    ChooseWidth(alignment);
  }

  CudaKernel Make() && {
    const int64_t packs = count_ / width_, rest = count_ % width_;
    const int64_t per_block = text_.threads * at_once_;
    const int64_t blocks = (packs + per_block - 1) / per_block;
    text_.blocks = count_ == 0 ? 0 : std::clamp<int64_t>(blocks, 1, kMostBlocksOfChain);
    text_.most_elements = count_;
    const std::string index = fmt::format("const Index i = (pack + u * {}) * {};\n", text_.threads, width_);
    const std::string each = fmt::format("#pragma unroll\nfor (int u = 0; u < {}; ++u) {{\n", at_once_);
    const auto guarded = [&](const std::string& lines) {
      return each +
             Indented(index + fmt::format("if (i < {}) {{\n{}}}\n", Whole(packs * width_), Indented(lines))) +
             "}\n";
    };
    std::string lines = Declarations(fmt::format("[{}]", at_once_), width_);
    lines += guarded(Loads("i", "[u]", width_)) + guarded(Results("[u]", "i"));
    std::string body = fmt::format(
        "for (Index pack = (Index)blockIdx.x * {0} + (Index)threadIdx.x; pack < {1}; pack += (Index)gridDim.x * {0}) "
        "{{\n{2}}}\n",
        per_block, Whole(packs), Indented(lines));
    if (rest > 0) {
      width_ = 1;
      body += fmt::format("if (blockIdx.x == 0 && threadIdx.x < {}) {{\n", rest);
      body += Indented(fmt::format("const Index i = {} + (Index)threadIdx.x;\n", Whole(count_ - rest)) +
                       Declarations("[1]", 1) + Loads("i", "[0]", 1) + Results("[0]", "i"));
      body += "}\n";
    }
    text_.body = Indented(body);
    return Finish(text_);
  }

 private:
  const Type& TypeOf(int op) const { return ops_[static_cast<size_t>(op)].spec->results[0].local; }

  void ChooseWidth(int64_t alignment) {
    int64_t widest = 1;
    for (const auto* side : {&text_.in, &text_.out})
      for (const Type& type : *side) widest = std::max<int64_t>(widest, DTypeSize(type.dtype));
    const bool is_long =
        std::any_of(ops_.begin(), ops_.end(), [](const CudaChainOp& op) { return IsLong(*op.row); });
    width_ =
        is_long ? 1 : std::min<int64_t>(8, std::max<int64_t>(1, std::min<int64_t>(alignment, 16) / widest));
    const auto packs = [&](const ChainInput& input) { return input.PacksBy(width_); };
    while (!std::all_of(inputs_.begin(), inputs_.end(), packs)) width_ /= 2;
    if (width_ > 1) text_.alignment = width_ * widest;
    const bool is_much = count_ / width_ > kThreadsOfGpu;
    const auto registers = (std::ssize(inputs_) + 1) * width_;
    at_once_ = is_long || !is_much || registers > 32 || ops_.size() > 24 ? 1 : width_ == 1 ? 4 : 2;
  }

  // Registers for the elements that are read.
  std::string Declarations(std::string_view array, int64_t width) const {
    std::string lines;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      const DType dtype = inputs_[o].type.dtype;
      lines +=
          fmt::format("{} m{}{};\n",
                      inputs_[o].moves() && width > 1 ? PackName(dtype, width) : StoredName(dtype), o, array);
    }
    return lines;
  }
  std::string Loads(std::string_view index, std::string_view at, int64_t width) const {
    std::string lines;
    for (size_t o = 0; o < inputs_.size(); ++o)
      lines += inputs_[o].LinesOfLoad(o, index, fmt::format("m{}{}", o, at), width);
    return lines;
  }
  // Computes and writes.
  std::string Results(std::string_view at, std::string_view index) const {
    std::string of_element;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      const DType dtype = inputs_[o].type.dtype;
      const std::string_view part = inputs_[o].moves() && width_ > 1 ? ".at[e]" : "";
      of_element += fmt::format("const {} x{} = {};\n", ComputeName(dtype), o,
                                Loaded(dtype, fmt::format("m{}{}{}", o, at, part)));
    }
    const ElementPlace place{width_ > 1 ? fmt::format("{} + e", index) : std::string(index), count_};
    for (size_t i = 0; i < ops_.size(); ++i) of_element += LinesOfOp(ops_[i], i, place);
    std::string before, behind;
    for (size_t r = 0; r < stored_.size(); ++r) {
      const DType dtype = TypeOf(stored_[r]).dtype;
      const auto op = static_cast<size_t>(stored_[r]);
      const std::string number = ElementOfOp(ops_[op], op);
      if (width_ == 1) {
        of_element += fmt::format("r{}[{}] = {};\n", r, index, number);
        continue;
      }
      before += fmt::format("{} n{};\n", PackName(dtype, width_), r);
      of_element += fmt::format("n{}.at[e] = {};\n", r, number);
      behind += fmt::format("*({}*)(r{} + {}) = n{};\n", PackName(dtype, width_), r, index, r);
    }
    if (width_ == 1) return of_element;
    return fmt::format("{}#pragma unroll\nfor (int e = 0; e < {}; ++e) {{\n{}}}\n{}", before, width_,
                       Indented(of_element), behind);
  }

  std::span<const CudaChainOp> ops_;
  std::span<const int> stored_;
  std::vector<ChainInput> inputs_;
  KernelText text_{.name = {}, .in = {}, .out = {}, .body = {}};
  int64_t count_ = 0;
  int64_t width_ = 1;    // elements of a Pack
  int64_t at_once_ = 1;  // Packs of a thread
};

}  // namespace
}  // namespace cuda

CudaKernel MakeCudaChain(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment) {
  return cuda::ChainText(ops, stored, alignment).Make();
}

}  // namespace meshwork
