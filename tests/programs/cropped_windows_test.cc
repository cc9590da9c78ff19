// Convolutions, pooling and their gradients with negative padding, on blocks of every spatial dim: as on one
// device.
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "support/program_trial.h"

namespace meshwork::cropped_windows_test {
namespace {

struct Windows {
  int64_t size, filter, stride, low, high;

  int64_t count() const { return (size + low + high - filter) / stride + 1; }
};

// A pooling and a convolution, and their gradients, along a sharded dim. Some blocks of the results read only
// their own block of the image.
std::string ProgramOf(const Windows& w, std::string_view mesh) {
  const std::string x = fmt::format("f64[2,{},2]", w.size), y = fmt::format("f64[2,{},2]", w.count());
  const std::string slide = fmt::format("strides=[{}] low=[{}] high=[{}]", w.stride, w.low, w.high);
  const std::string shape = fmt::format("shape=[2,{},2] ", w.size);
  return fmt::format(R"(mesh {0}
func f(%x: {1} {{_,x,_}}, %g: {2} {{_,x,_}}, %w: f64[{3},2,2] {{_,_,_}}) {{
  %m, %i = max_pool %x window=[{3}] {4}
  %s = sum_pool %x window=[{3}] {4}
  %c = conv %x, %w {4}
  %mg = max_pool_grad %g, %i window=[{3}] {5}{4} : {1} {{_,x,_}}
  %ma = max_pool_at %x, %i window=[{3}] {4}
  %sg = sum_pool_grad %g window=[{3}] {5}{4} : {1} {{_,x,_}}
  %xg = conv_input_grad %g, %w {5}{4} : {1} {{_,x,_}}
  %wg = conv_filter_grad %x, %g shape=[{3},2,2] {4}
  return m=%m, s=%s, c=%c, mg=%mg, ma=%ma, sg=%sg, xg=%xg, wg=%wg
}}
)",
                     mesh, x, y, w.filter, slide, shape);
}

TEST(CroppedWindowsTest, AreThoseOfOneDevice) {
  CpuBackend backend(2);
  int tried = 0, own = 0;
  for (int64_t size : {8, 12, 13}) {
    for (int64_t filter : {1, 2, 3}) {
      for (int64_t stride : {1, 2, 3}) {
        for (int64_t low : {-3, -1, 0, 1}) {
          for (int64_t high : {-4, -1, 0, 2}) {
            const Windows w{size, filter, stride, low, high};
            // Windows of padding alone give -inf.
            if (low >= filter || high >= filter || size + low + high < filter) continue;
            for (std::string_view mesh : {"[x=2]", "[x=3]"}) {
              const RandomProgram random = WithFeeds(ParseGraph(ProgramOf(w, mesh)).value());
              const Trial trial = TryProgram(random, ExpectedOf(random), backend);
              ASSERT_EQ(trial.error(), "") << ProgramOf(w, mesh);
              const Window of_elements{
                  .stride = 1, .offset = low - (filter - 1), .extent = filter, .spacing = stride};
              own += low < 0 && AreBlocks(of_elements, random.graph.mesh(), {0}, size, w.count()) ? 1 : 0;
              ++tried;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 400);
  EXPECT_GT(own, 5);
}

// The transpose of a cropping convolution has more results than that of one without cropping: nothing reaches some.
TEST(CroppedWindowsTest, TransposedOnes) {
  CpuBackend backend(2);
  for (std::string_view mesh : {"x=2", "x=4"}) {
    for (int64_t low : {-2, -1, 0}) {
      for (int64_t high : {-2, -1, 0}) {
        RandomProgram random{Graph(Mesh::Parse(mesh).value()), {}};
        const Value x = random.graph.Input("x", F64, {1, 8, 2}, {UNSHARDED, "x", UNSHARDED});
        const Value w = random.graph.Input("w", F64, {2, 3, 2}, {UNSHARDED, UNSHARDED, UNSHARDED});
        const Value y = ConvTranspose(
            x, w, {.window = {.strides = {3}, .padding = WindowPadding::Explicit({low}, {high})}});
        ASSERT_TRUE(random.graph.status().ok()) << random.graph.status();
        EXPECT_EQ(y.shape()[1], 7 * 3 + 2 - low - high);
        random.graph.Output("y", WithLayout(y, {UNSHARDED, "x", UNSHARDED}));
        for (int64_t i = 0; i < 16; ++i) random.feeds["x"].push_back(static_cast<double>(i % 7) - 3);
        for (int64_t i = 0; i < 12; ++i) random.feeds["w"].push_back(static_cast<double>(i % 5) - 2);
        EXPECT_EQ(TryProgram(random, ExpectedOf(random), backend).error(), "") << low << " " << high;
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::cropped_windows_test
