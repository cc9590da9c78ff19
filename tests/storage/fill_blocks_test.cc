#include "meshwork/storage/fill_blocks.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "support/safetensors_bytes.h"

namespace meshwork::fill_blocks_test {
namespace {

using ::testing::ElementsAre;

DTensor Zeros(const std::string& mesh, const Type& type, const std::string& layout, bool share = true) {
  const Mesh on = Mesh::VirtualCpus(mesh).value();
  return DTensor(CpuMemory(), type, Layout::Parse(on, layout).value(), share);
}

Tensor Counted(const Type& type) {
  Tensor tensor(type);
  std::iota(tensor.mutable_values<float>().begin(), tensor.mutable_values<float>().end(), 1.0F);
  return tensor;
}

// A box of `whole`, cut out as slices.
Tensor BoxOf(const Tensor& whole, const Block& box) {
  std::vector<TensorSlice> slices;
  for (const Extent& extent : box) slices.push_back({extent.start, extent.start + extent.size});
  return whole.Sliced(slices);
}

TEST(FillBlocksTest, PermutesAndBack) {
  const Block block = {{0, 2}, {3, 4}, {5, 6}};
  EXPECT_EQ(Permuted(block, {2, 0, 1}), (Block{{5, 6}, {0, 2}, {3, 4}}));
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{0, 1, 2}, {1, 2, 0}, {2, 1, 0}})
    EXPECT_EQ(Permuted(Permuted(block, dims), Inverse(dims)), block);
}

// Each element once for each block, on whichever devices, in any order of dims.
TEST(FillBlocksTest, ReadsEachBoxOnce) {
  const Type type{F32, {12, 7}};
  const Tensor whole = Counted(type);
  for (const std::string layout : {"{_,_}", "{a,_}", "{b,a}", "{4*3@a,_}", "{_,a}"}) {
    for (const bool share : {true, false}) {
      for (const std::vector<int64_t>& order : {std::vector<int64_t>{}, {1, 0}}) {
        const DTensor to = Zeros("a=3,b=2", type, layout, share);
        std::atomic<int64_t> read{0};
        const auto read_box = [&](const Block& box) -> absl::StatusOr<Tensor> {
          read += NumElements(box);
          return BoxOf(whole, box);
        };
        ASSERT_EQ(MessageOf(FillBlocks({{.to = to, .read = read_box, .order = order}})), "");
        EXPECT_EQ(read, 84) << layout;
        EXPECT_EQ(RawBytes(Unpack(to, /*check_replicas=*/true).value()), RawBytes(whole)) << layout;
      }
    }
  }
}

// 80 MiB, which are read in pieces by several threads.
TEST(FillBlocksTest, ReadsLargeBoxesInPieces) {
  const Type type{F32, {5 << 10, 4 << 10}};
  const Tensor whole = Counted(type);
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{}, {1, 0}}) {
    const DTensor to = Zeros("a=2", type, "{a,_}");
    std::atomic<int64_t> pieces{0}, tall{0};
    const auto read_box = [&](const Block& box) -> absl::StatusOr<Tensor> {
      ++pieces;
      if (box[0].size == 5 << 9) ++tall;
      return BoxOf(whole, box);
    };
    ASSERT_EQ(MessageOf(FillBlocks({{.to = to, .read = read_box, .order = order}})), "");
    EXPECT_GE(pieces, 5);
    EXPECT_EQ(tall > 0, !order.empty());  // cut along the order of the file
    EXPECT_TRUE(RawBytes(Unpack(to).value()) == RawBytes(whole));
  }
}

// The failure that counts is the first in the order of the variables, however many threads there are.
TEST(FillBlocksTest, GivesTheFirstFailure) {
  const Type type{F32, {3 << 10, 4 << 10}};
  const auto fails = [&](const std::string& why) {
    return BlocksToFill{
        .to = Zeros("a=2", type, "{a,_}"),
        .read = [why](const Block&) -> absl::StatusOr<Tensor> { return absl::DataLossError(why); }};
  };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(MessageOf(FillBlocks({fails("one"), fails("two")})), "one");
}

TEST(FillBlocksTest, ThrowsWhatReadThrows) {
  const BlocksToFill throws = {
      .to = Zeros("a=2", {F32, {5 << 10, 4 << 10}}, "{a,_}"),
      .read = [](const Block&) -> absl::StatusOr<Tensor> { throw std::bad_alloc(); }};
  EXPECT_THROW(FillBlocks({throws}).IgnoreError(), std::bad_alloc);
}

TEST(FillBlocksTest, ReadsNothingOfEmptyTensors) {
  const auto never = [](const Block&) -> absl::StatusOr<Tensor> { return absl::InternalError("read"); };
  EXPECT_EQ(MessageOf(FillBlocks({{.to = Zeros("a=2", {F32, {0, 3}}, "{a,_}"), .read = never}})), "");
  EXPECT_EQ(MessageOf(FillBlocks({})), "");
}

}  // namespace
}  // namespace meshwork::fill_blocks_test
