// Layouts of tensors that are read under another shape.
#include "meshwork/layout/reshape.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"
#include "support/long_tests.h"

namespace meshwork::reshape_test {
namespace {

// The place in the tensor, row-major, of each element of each device's buffer; -1 for padding.
std::vector<int64_t> Places(const Layout& layout, const Shape& shape) {
  std::vector<int64_t> places;
  for (int64_t device = 0; device < layout.mesh().num_devices(); ++device) {
    ForEachIndex(FullBlock(layout.LocalShape(shape)), [&](const Shape& local) {
      places.push_back(
          layout.IsHeld(shape, device, local) ? Linear(shape, layout.GlobalIndex(shape, device, local)) : -1);
    });
  }
  return places;
}

bool IsPadded(const Layout& layout, const Shape& shape) {
  for (int d = 0; d < layout.rank(); ++d)
    if (layout.IsPadded(shape, d)) return true;
  return false;
}

TEST(ReshapeTest, SaysHowTheResultLies) {
  struct Case {
    const char *mesh, *from;
    Shape shape, to;
    const char* result;  // empty: there is none
  };
  const Case kCases[] = {
      {"x=4,y=2", "{x,y,_}", {8, 8, 16}, {64, 16}, "{8@x*8@y,_}"},
      {"x=4,y=2", "{8@x*8@y,_}", {64, 16}, {8, 8, 16}, "{x,y,_}"},
      {"x=2*2", "{x}", {8}, {2, 4}, "{x:(1)2,x:(2)2}"},
      {"x=2*2", "{x:(1)2,x:(2)2}", {2, 4}, {8}, "{x}"},
      {"x=4", "{x}", {8}, {2, 4}, ""},  // the axis would have to be cut
      {"x=2", "{x,_}", {4, 3}, {12}, "{x}"},
      {"x=2", "{_,x}", {4, 6}, {24}, "{4*6@x}"},
      {"x=4,y=2", "{(x,y),_}", {8, 5}, {40}, "{(x,y)}"},
      {"x=2", "{x}", {6}, {3, 2}, ""},  // 3 rows of 2 in 2 parts of 3
      {"x=3", "{x,_}", {7, 2}, {14}, "{7@x*2}"},
      {"x=3", "{x,_}", {7, 2}, {7, 1, 2}, "{x,_,_}"},
      {"x=2,y=2", "{x,_ | sum:y}", {4, 3}, {12}, "{x | sum:y}"},
      {"x=2", "{x,_}", {4, 0}, {0}, ""},
      {"x=2", "{_,_}", {2, 3}, {3, 2}, "{_,_}"},
      {"x=2", "{}", {}, {1, 1}, "{_,_}"},
  };
  for (const Case& c : kCases) {
    const Mesh mesh = Mesh::Parse(c.mesh).value();
    const std::optional<Layout> to = Reshaped(Layout::Parse(mesh, c.from).value(), c.shape, c.to);
    EXPECT_EQ(to.has_value() ? to->ToString() : "", c.result) << c.from << " of " << ShapeToString(c.shape);
  }
}

TEST(ReshapeTest, SaysWhereToCutAnAxis) {
  struct Case {
    const char *mesh, *from;
    int64_t size;
    std::vector<int64_t> to;
    std::optional<AxisCut> cut;
  };
  const Case kCases[] = {
      {"x=4", "{x}", 8, {2, 4}, AxisCut{0, 2}},
      {"x=4", "{x}", 12, {6, 2}, AxisCut{0, 2}},
      {"x=4", "{x}", 12, {3, 4}, std::nullopt},
      {"x=2*2", "{x}", 8, {2, 4}, std::nullopt},  // it is cut there
      {"x=8", "{x}", 16, {2, 2, 4}, AxisCut{0, 2}},
      {"x=2*4", "{x}", 16, {2, 2, 4}, AxisCut{1, 2}},
      {"y=2,x=4", "{(y,x)}", 16, {4, 4}, AxisCut{1, 2}},
      {"x=4,y=2", "{(x,y)}", 16, {4, 4}, std::nullopt},
      {"x=4", "{2@x*8}", 16, {16}, std::nullopt},  // uneven
      {"x=4", "{x}", 10, {2, 5}, std::nullopt},
      {"x=4", "{2*8@x}", 16, {4, 4}, AxisCut{0, 2}},
      {"x=4", "{2*8@x}", 16, {16}, std::nullopt},
  };
  for (const Case& c : kCases) {
    const Mesh mesh = Mesh::Parse(c.mesh).value();
    const Layout layout = Layout::Parse(mesh, c.from).value();
    const FactorList factors = layout.Factors(0, c.size);
    EXPECT_EQ(CutForReshape(mesh, factors, c.to), c.cut) << c.mesh << " " << c.from;
    EXPECT_FALSE(c.cut.has_value() && ReshapeFactors(mesh, factors, c.to).has_value()) << c.mesh;
  }
}

TEST(ReshapeTest, GroupsHoldTheSameElements) {
  auto text = [](const Shape& from, const Shape& to) {
    std::string out;
    for (const ReshapeGroup& g : ReshapeGroups(from, to))
      out += fmt::format("[{},{})-[{},{}) ", g.from, g.from_end, g.to, g.to_end);
    return out;
  };
  EXPECT_EQ(text({4, 6, 5}, {24, 5}), "[0,2)-[0,1) [2,3)-[1,2) ");
  EXPECT_EQ(text({4, 1, 6}, {4, 6}), "[0,1)-[0,1) [2,3)-[1,2) ");
  EXPECT_EQ(text({8}, {2, 4, 1}), "[0,1)-[0,2) ");
  EXPECT_EQ(text({}, {1}), "");
}

// Every layout of a shape, read as every other shape of as many elements: no element moves. If some layout
// without padding is possible, one is found. MESHWORK_LONG_TESTS=1 takes every pair of shapes; without it,
// every nth.
TEST(ReshapeTest, MovesNothingAndMissesNothing) {
  int64_t pairs = 0, found = 0, none = 0;
  for (const char* name : {"x=2", "x=3", "x=4", "x=2*2", "x=2,y=2", "x=2,y=3"}) {
    const Mesh mesh = Mesh::Parse(name).value();
    for (const Shape& base : {Shape{4}, Shape{6}, Shape{8}, Shape{12}}) {
      std::vector<Shape> shapes;
      for (const std::vector<int64_t>& factors : AllFactorings(base[0], 1, 3))
        shapes.emplace_back(factors.begin(), factors.end());
      for (const Shape& from : shapes) {
        const std::vector<Layout> layouts = AllStridedLayouts(mesh, from, from.size() == 1 ? 3 : 1);
        for (const Shape& to : shapes) {
          if (pairs++ % EverySo(7) != 0) continue;
          std::vector<std::vector<int64_t>> all;
          for (const Layout& layout : AllStridedLayouts(mesh, to, to.size() == 1 ? 3 : 2))
            all.push_back(Places(layout, to));
          for (const Layout& layout : layouts) {
            const std::vector<int64_t> places = Places(layout, from);
            const std::optional<Layout> result = Reshaped(layout, from, to);
            const std::string what = fmt::format("{} of {} on {} as {}", layout.ToString(),
                                                 ShapeToString(from), mesh.ToString(), ShapeToString(to));
            ++(result.has_value() ? found : none);
            if (result.has_value()) {
              ASSERT_EQ(Places(*result, to), places) << what << " is " << result->ToString();
            } else if (!IsPadded(layout, from)) {
              ASSERT_EQ(std::count(all.begin(), all.end(), places), 0) << what;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(found, 1000);
  EXPECT_GT(none, 100);
}

}  // namespace
}  // namespace meshwork::reshape_test
