// The elements that exchanges take, by loops over every position; attributes that CheckExchange refuses.
#include "meshwork/ir/exchange.h"

#include <limits>
#include <map>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/text.h"

namespace meshwork::exchange_test {
namespace {

using testing::HasSubstr;

// Local position -> operand's position, as the attributes are defined.
std::map<int64_t, int64_t> Taken(const ExchangeDim& dim, const Extent& block, const Extent& held) {
  std::map<int64_t, int64_t> taken;
  for (int64_t i = 0; i < block.size; ++i) {
    const int64_t at = (block.start + i) * dim.stride + dim.offsets[0];
    if (at % dim.spacing != 0) continue;
    const int64_t from = at / dim.spacing;
    if (from >= held.start && from < held.start + held.size) taken[i] = from;
  }
  return taken;
}

// By local position: all positions that the windows of the block read, in order.
std::map<int64_t, int64_t> Needed(const Window& window, const Extent& block, const Extent& held) {
  std::map<int64_t, int64_t> needed;
  if (block.size == 0) return needed;
  int64_t local = 0;
  const int64_t first = block.start * window.stride + window.offset,
                last = (block.start + block.size - 1) * window.stride + window.offset + window.extent - 1;
  for (int64_t at = first; at <= last; ++at) {
    if (at % window.spacing != 0) continue;
    const int64_t from = at / window.spacing;
    if (from >= held.start && from < held.start + held.size) needed[local] = from;
    ++local;
  }
  return needed;
}

std::map<int64_t, int64_t> Positions(const ExchangeRun& run) {
  std::map<int64_t, int64_t> positions;
  for (int64_t i = 0; i < run.count; ++i) positions[run.to + i * run.to_step] = run.from + i * run.from_step;
  return positions;
}

template <typename F>
void ForEachExtent(int64_t size, F&& f) {
  for (int64_t start = 0; start <= size; ++start)
    for (int64_t count = 0; start + count <= size; ++count) f(Extent{start, count});
}

TEST(ExchangeTest, TakesWhatItsAttributesSay) {
  for (int64_t stride : {-3, -2, -1, 1, 2, 3})
    for (int64_t spacing : {1, 2, 3, 4})
      for (int64_t offset = -4; offset <= 4; ++offset)
        ForEachExtent(5, [&](const Extent& block) {
          ForEachExtent(6, [&](const Extent& held) {
            const ExchangeDim dim{.stride = stride, .spacing = spacing, .offsets = {offset}};
            EXPECT_EQ(Positions(RunOf(dim, 0, block, held)), Taken(dim, block, held))
                << stride << " " << spacing << " " << offset << " " << block.start << "+" << block.size << " "
                << held.start << "+" << held.size;
          });
        });
}

TEST(ExchangeTest, WindowsHoldAllThatTheirPositionsNeed) {
  for (int64_t stride : {1, 2, 3})
    for (int64_t spacing : {1, 2, 3})
      for (int64_t extent : {1, 2, 3, 5})
        for (int64_t offset = -3; offset <= 2; ++offset)
          ForEachExtent(5, [&](const Extent& block) {
            const Window window{.stride = stride, .offset = offset, .extent = extent, .spacing = spacing};
            const Extent all{-100, 200};
            const auto needed = Needed(window, block, all);
            EXPECT_EQ(WindowOf(window, block).size, std::ssize(needed));
            if (!needed.empty()) {
              EXPECT_EQ(WindowOf(window, block).start, needed.at(0));
            }
            EXPECT_LE(std::ssize(needed), WindowSize(window, block.size));
            ForEachExtent(6, [&](const Extent& held) {
              const ExchangeDim dim{
                  .stride = stride, .spacing = spacing, .offsets = {offset}, .size = 5, .extent = extent};
              EXPECT_EQ(Positions(RunOf(dim, 0, block, held)), Needed(window, block, held));
            });
          });
}

// If AreBlocks is true, each device already holds all positions that its windows read, at the right place.
TEST(ExchangeTest, WindowsThatAreBlocksNeedNothingOfOthers) {
  const Mesh mesh = Mesh::Parse("x=2,y=3").value();
  int blocks = 0, spaced = 0;
  const auto check = [&](const Window& window, const AxisList& axes, int64_t size, int64_t held) {
    if (!AreBlocks(window, mesh, axes, size, held)) return;
    ++(window.spacing > 1 ? spaced : blocks);
    EXPECT_LE(WindowOf(window, {0, size}).size, held);
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      const Extent block = ExtentOf(mesh, axes, size, device), has = ExtentOf(mesh, axes, held, device);
      const Extent need = WindowOf(window, block);
      if (need.size == 0) continue;
      // The window of position i reads the same place of the device's block as it does of the whole.
      EXPECT_EQ(WindowOf(window, {0, 1}).start, WindowOf(window, {block.start, 1}).start - has.start);
      EXPECT_EQ(need.start, has.start);
      EXPECT_LE(need.size, has.size);
    }
  };
  for (const AxisList& axes : {AxisList{0}, AxisList{1}, AxisList{0, 1}, AxisList{1, 0}})
    for (int64_t stride : {1, 2, 3})
      for (int64_t spacing : {1, 2, 3})
        for (int64_t extent : {1, 2, 3})
          for (int64_t offset : {-2, -1, 0, 1})
            for (int64_t size = 0; size <= 14; ++size)
              for (int64_t held = 0; held <= 30; ++held)
                check({.stride = stride, .offset = offset, .extent = extent, .spacing = spacing}, axes, size,
                      held);
  EXPECT_GT(blocks, 100);
  EXPECT_GT(spaced, 100);
}

TEST(ExchangeTest, KnowsWhatReducesToItself) {
  EXPECT_TRUE(ReducesToItself(0.0, ReduceOp::kSum));
  EXPECT_TRUE(ReducesToItself(-0.0, ReduceOp::kSum));
  EXPECT_FALSE(ReducesToItself(1.0, ReduceOp::kSum));
  EXPECT_FALSE(ReducesToItself(std::numeric_limits<double>::quiet_NaN(), ReduceOp::kSum));
  EXPECT_TRUE(ReducesToItself(0.0, ReduceOp::kProd));
  EXPECT_TRUE(ReducesToItself(1.0, ReduceOp::kProd));
  EXPECT_FALSE(ReducesToItself(-0.0, ReduceOp::kProd));
  EXPECT_FALSE(ReducesToItself(-1.0, ReduceOp::kProd));
  EXPECT_TRUE(ReducesToItself(-2.0, ReduceOp::kMax));
}

std::string Error(std::string_view operands, std::string_view exchange) {
  const absl::StatusOr<Graph> graph = ParseGraph(
      fmt::format("mesh [x=2]\nfunc f({}) {{\n  %r = exchange {}\n  return %r\n}}\n", operands, exchange));
  if (!graph.ok()) return std::string(MessageOf(graph.status()));
  return std::string(MessageOf(CheckLocalNode(*graph, graph->nodes()[0])));
}

TEST(ExchangeTest, RefusesWhatIsNoExchange) {
  constexpr std::string_view kX = "%x: f32[2] of f32[4] {x}";
  EXPECT_EQ(Error(kX, "%x offset=[1] : f32[2] of f32[3] {x}"), "");
  EXPECT_EQ(Error(kX, "%x offset=[-1] size=[4] extent=[3] : f32[4] of f32[8] {x}"), "");
  // Empty operands lie at no position.
  constexpr std::string_view kEmpty = "%x: f32[2] of f32[4] {x}, %e: f32[0] of f32[0] {x}";
  EXPECT_EQ(Error(kEmpty, "%e, %x offset=[0,0] : f32[2] of f32[4] {x}"), "");
  EXPECT_EQ(Error(kEmpty, "%x, %e, %e offset=[0,-4,-4] : f32[2] of f32[4] {x}"), "");
  EXPECT_EQ(Error(kEmpty, "%e, %e offset=[0,0] : f32[0] of f32[0] {x}"), "");
  EXPECT_THAT(Error("%x: f32[2,2] of f32[4,2] {x,_}, %y: f32[2,3] of f32[4,3] {x,_}",
                    "%x, %y offset=[0,0,-4,0] : f32[4,3] of f32[8,3] {x,_}"),
              HasSubstr("along one dim"));
  EXPECT_THAT(Error(kX, "%x offset=[1,2] : f32[2] of f32[3] {x}"), HasSubstr("offset has 2 entries"));
  EXPECT_THAT(Error(kX, "%x offset=[1] stride=[0] : f32[2] of f32[3] {x}"), HasSubstr("strides are not 0"));
  EXPECT_THAT(Error(kX, "%x offset=[1] spacing=[0] : f32[2] of f32[3] {x}"), HasSubstr("at least 1"));
  EXPECT_THAT(Error(kX, "%x offset=[1] stride=[1,1] : f32[2] of f32[3] {x}"),
              HasSubstr("stride has 2 entries"));
  EXPECT_THAT(Error(kX, "%x offset=[0] : i32[2] of i32[4] {x}"), HasSubstr("dtype, rank"));
  EXPECT_THAT(Error(kX, "%x offset=[0] : f32[4] {_ | sum:x}"), HasSubstr("what is owed"));
  EXPECT_THAT(Error(kX, "%x offset=[-1] size=[4] extent=[3] : f32[3] of f32[6] {x}"),
              HasSubstr("2 windows have 8"));
  EXPECT_THAT(Error(kX, "%x, %x offset=[0,-3] : f32[4] of f32[8] {x}"), HasSubstr("at place 3"));
  EXPECT_THAT(Error(kX, "%x, %x offset=[0,0] : f32[2] of f32[4] {x}"), HasSubstr("the same places"));
  EXPECT_THAT(Error(kX, "%x, %x offset=[0,-4] stride=[2] : f32[4] of f32[8] {x}"),
              HasSubstr("element by element"));
  EXPECT_THAT(Error(kX, "%x offset=[2305843009213693952] : f32[2] of f32[3] {x}"), HasSubstr("beyond 2^60"));
}

}  // namespace
}  // namespace meshwork::exchange_test
