// Rows whose rule has windows, on blocks whose windows are cut out of the whole tensor by hand: for every stride,
// dilation, padding and position of a block, the result is the block of the whole result. How windows are
// brought to a device is not part of these tests.
#include <string>
#include <vector>

#include "contract/row_test.h"
#include "gtest/gtest.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/layout/layout.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/tools/check/double_tensor.h"
#include "meshwork/tools/check/run_kernel.h"
#include "support/sample.h"

namespace meshwork::windows_test {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
int64_t CeilDiv(int64_t a, int64_t b) { return -FloorDiv(-a, b); }

// A block along some of the windowed letters; the other letters are whole.
struct Cut {
  std::vector<int64_t> start, size;  // per letter; size 0: the letter is whole
};

// If the windows of blocks of `block` of `size` positions are themselves blocks of a dim of `held` elements, the
// size of these blocks; else 0.
int64_t OwnBlock(const Window& window, int64_t block, int64_t size, int64_t held) {
  const Mesh mesh = Mesh::Create({{"x", (size + block - 1) / block}}).value();
  if (BlockSize(mesh, {0}, size) != block || !AreBlocks(window, mesh, {0}, size, held)) return 0;
  return BlockSize(mesh, {0}, held);
}

// Elements [first, first + size) of `whole` along `dim`; `fill` beyond its ends.
DoubleTensor Along(const DoubleTensor& whole, size_t dim, int64_t first, int64_t size, double fill) {
  DoubleTensor part{whole.type, {}};
  part.type.shape[dim] = size;
  part.values.assign(static_cast<size_t>(part.type.num_elements()), fill);
  int64_t inner = 1;
  for (size_t d = dim + 1; d < whole.type.shape.size(); ++d) inner *= whole.type.shape[d];
  const int64_t from = whole.type.shape[dim];
  for (int64_t i = 0; i < part.type.num_elements(); ++i) {
    const int64_t at = first + i / inner % size;
    if (at < 0 || at >= from) continue;
    part.values[static_cast<size_t>(i)] =
        whole.values[static_cast<size_t>((i / inner / size * from + at) * inner + i % inner)];
  }
  return part;
}

class BlockTrial {
 public:
  explicit BlockTrial(const Sample& sample) : sample_(sample), rule_(sample.rule()) {
    Sampler sampler(5);
    for (const Type& type : sample.operands) operands_.push_back(sampler.Draw(type, *sample.row));
    expected_ = RunKernel(WholeCall(sample, operands_)).value();
  }

  const Rule& rule() const { return rule_; }
  int num_own() const { return num_own_; }

  // Tries all blocks of `block` positions of each windowed letter in `taken`. `own`: where an operand's windows are
  // blocks themselves, the operand is given as these blocks.
  void Try(int64_t block, const std::vector<bool>& taken, bool own) {
    own_ = own;
    Cut cut{std::vector<int64_t>(rule_.letters.size(), 0), std::vector<int64_t>(rule_.letters.size(), 0)};
    bool reduces = false;
    for (size_t l = 0; l < rule_.letters.size(); ++l) {
      if (!taken[l]) continue;
      cut.size[l] = block;
      reduces |= rule_.letters[l].reduced;
    }
    std::vector<DoubleTensor> sums;
    ForEachStart(cut, 0, [&] { TryBlock(cut, reduces, sums); });
    for (size_t r = 0; r < sums.size(); ++r)
      EXPECT_TRUE(Agree(sums[r].type.dtype, sums[r].values, expected_[r].values)) << sample_.ToString();
  }

 private:
  template <typename F>
  void ForEachStart(Cut& cut, size_t letter, F&& f) {
    if (letter == rule_.letters.size()) return f();
    if (cut.size[letter] == 0) return ForEachStart(cut, letter + 1, f);
    for (int64_t start = 0; start < rule_.letters[letter].size; start += cut.size[letter]) {
      cut.start[letter] = start;
      ForEachStart(cut, letter + 1, f);
    }
  }

  DoubleTensor Operand(const Cut& cut, size_t o, std::vector<WindowedDim>& windows) {
    DoubleTensor part = operands_[o];
    for (size_t d = 0; d < part.type.shape.size(); ++d) {
      const int letter = rule_.operands[o][d];
      if (letter == kNoLetter || cut.size[letter] == 0) continue;
      const int64_t start = cut.start[letter], size = cut.size[letter];
      const Window* w = rule_.FindWindow(o, d);
      if (w == nullptr) {
        part = Along(part, d, start, size, 0);
        continue;
      }
      const int64_t held = own_ && !rule_.letters[letter].reduced
                               ? OwnBlock(*w, size, rule_.letters[letter].size, part.type.shape[d])
                               : 0;
      if (held > 0) {
        part = Along(part, d, start / size * held, held, 0);
        windows.push_back({static_cast<int>(o), static_cast<int>(d), *w, /*is_own=*/true});
        ++num_own_;
        continue;
      }
      const int64_t count = FloorDiv((size - 1) * w->stride + w->extent - 1, w->spacing) + 1;
      part = Along(part, d, CeilDiv(start * w->stride + w->offset, w->spacing), count, w->fill);
      windows.push_back({static_cast<int>(o), static_cast<int>(d), *w});
    }
    return part;
  }

  void TryBlock(const Cut& cut, bool reduces, std::vector<DoubleTensor>& sums) {
    KernelCall call{.sample = &sample_, .attrs = {}, .in = {}, .in_blocks = {}, .out = {}, .out_blocks = {}};
    std::vector<WindowedDim> windows;
    std::vector<Type> types;
    for (size_t o = 0; o < operands_.size(); ++o) {
      call.in.push_back(Operand(cut, o, windows));
      call.in_blocks.push_back(WholeBlock(sample_.operands[o].shape));
      types.push_back(call.in.back().type);
    }
    std::vector<Block> held;  // which part of the whole result each block holds
    for (size_t r = 0; r < sample_.results.size(); ++r) {
      call.out.push_back(sample_.results[r]);
      held.push_back(WholeBlock(sample_.results[r].shape));
      for (size_t d = 0; d < held[r].size(); ++d) {
        const int letter = rule_.results[r][d];
        if (letter == kNoLetter || cut.size[letter] == 0) continue;
        call.out[r].shape[d] = cut.size[letter];
        held[r][d] = {cut.start[letter], std::min(cut.size[letter], held[r][d].size - cut.start[letter])};
      }
    }
    call.out_blocks = held;
    const auto resized = ResizedAttrs(*sample_.row, {sample_.operands, sample_.results, sample_.attrs}, types,
                                      call.out[0].shape);
    ASSERT_TRUE(resized.ok()) << resized.status();
    call.attrs = sample_.row->on_windows(*resized, windows);
    const auto inferred = sample_.row->infer({types, {}, call.attrs});
    ASSERT_TRUE(inferred.ok()) << inferred.status() << " " << sample_.ToString();
    ASSERT_EQ(*inferred, call.out) << sample_.ToString();
    std::vector<DoubleTensor> found = RunKernel(call).value();
    for (size_t r = 0; r < found.size(); ++r) {
      if (reduces) {
        if (sums.size() <= r) sums.push_back({found[r].type, std::vector<double>(found[r].values.size(), 0)});
        for (size_t e = 0; e < found[r].values.size(); ++e) sums[r].values[e] += found[r].values[e];
        continue;
      }
      Block own = held[r];
      for (Extent& extent : own) extent.start = 0;
      EXPECT_TRUE(
          Agree(found[r].type.dtype, PartOf(found[r], own).values, PartOf(expected_[r], held[r]).values))
          << sample_.ToString();
    }
  }

  const Sample& sample_;
  const Rule rule_;
  std::vector<DoubleTensor> operands_, expected_;
  bool own_ = false;
  int num_own_ = 0;
};

// Returns how often an operand's windows were blocks themselves.
int TryBlocks(const Sample& sample) {
  BlockTrial trial(sample);
  const std::vector<Letter>& letters = trial.rule().letters;
  for (int64_t block = 1; block <= 5; ++block) {
    std::vector<bool> all(letters.size(), false);
    for (size_t l = 0; l < letters.size(); ++l) {
      if (!letters[l].windowed) continue;
      all[l] = true;
      std::vector<bool> one(letters.size(), false);
      one[l] = true;
      for (bool own : {false, true}) trial.Try(block, one, own);
    }
    for (bool own : {false, true}) trial.Try(block, all, own);
  }
  return trial.num_own();
}

class WindowsTest : public RowTest {};

TEST_P(WindowsTest, ABlockOfWindowsIsTheBlockOfTheWhole) {
  for (const Sample& sample : Samples()) TryBlocks(sample);
}

std::vector<const OpRow*> RowsWithWindows() {
  std::vector<const OpRow*> rows;
  for (const OpRow* row : RowsUnderContract())
    if (row->on_windows != nullptr) rows.push_back(row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Rows, WindowsTest, testing::ValuesIn(RowsWithWindows()),
                         [](const auto& info) { return std::string(info.param->name); });

// One spatial dim, with all kinds of windows: in f64, and in f32 by oneDNN.
TEST(WindowsOfAllForms, GiveTheBlocksOfTheWhole) {
  int tried = 0, own = 0, own_cropped = 0;
  const auto try_all = [&](std::string_view real, int64_t size, int64_t filter, int64_t stride,
                           int64_t dilation, int64_t low) {
    const int64_t extent = (filter - 1) * dilation + 1, high = low < 0 ? 0 : low / 2;
    if (extent > size + low + high) return;  // more is cropped than leaves a window
    const int64_t count = (size + low + high - extent) / stride + 1;
    const std::string slide =
        fmt::format("strides=[{}] low=[{}] high=[{}] dilation=[{}]", stride, low, high, dilation);
    const std::string x = fmt::format("{}[2,{},4]", real, size), y = fmt::format("{}[2,{},4]", real, count);
    const std::string w = fmt::format("{}[{},4,4]", real, filter), index = fmt::format("i32[2,{},4]", count);
    const std::string shape = fmt::format("shape=[2,{},4]", size),
                      window = fmt::format("window=[{}]", filter);
    const std::pair<std::string_view, std::string> samples[] = {
        {"conv", fmt::format("{}, {}; {}", x, w, slide)},
        {"conv_input_grad", fmt::format("{}, {}; {} {}", y, w, shape, slide)},
        {"conv_filter_grad", fmt::format("{}, {}; shape=[{},4,4] {}", x, y, filter, slide)},
        {"max_pool", fmt::format("{}; {} {}", x, window, slide)},
        {"max_pool_grad", fmt::format("{}, {}; {} {} {}", y, index, shape, window, slide)},
        {"max_pool_at", fmt::format("{}, {}; {} {}", x, index, window, slide)},
        {"sum_pool", fmt::format("{}; {} {}", x, window, slide)},
        {"sum_pool_grad", fmt::format("{}; {} {} {}", y, shape, window, slide)},
    };
    for (const auto& [op, text] : samples) {
      const absl::StatusOr<Sample> sample = ParseSample(GetOp(op), text);
      ASSERT_TRUE(sample.ok()) << sample.status();
      const int of_own = TryBlocks(*sample);
      own += of_own;
      own_cropped += low < 0 ? of_own : 0;
      ++tried;
    }
  };
  for (int64_t filter : {1, 2, 3})
    for (int64_t stride : {1, 2, 3})
      for (int64_t dilation : {1, 2})
        for (int64_t low : {-2, -1, 0, 1, 3}) {
          try_all("f64", 9, filter, stride, dilation, low);
          if (dilation == 1 || filter > 1) try_all("f32", 6, filter, stride, dilation, low);
        }
  EXPECT_GT(tried, 500);
  EXPECT_GT(own, 1000);
  EXPECT_GT(own_cropped, 100);
}

}  // namespace
}  // namespace meshwork::windows_test
