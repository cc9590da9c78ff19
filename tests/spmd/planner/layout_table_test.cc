// Numbers of layouts, and the cost of relayouts between them.
#include "meshwork/spmd/planner/layout_table.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/spmd/planner/move_seconds.h"

namespace meshwork::layout_table_test {
namespace {

const Mesh& TableMesh() {
  static const auto* const mesh = new Mesh(Mesh::Parse("x=2,y=4").value());
  return *mesh;
}
Layout Of(std::string_view text) { return Layout::Parse(TableMesh(), text).value(); }

const std::vector<Layout>& SomeLayouts() {
  static const auto* const layouts = new std::vector<Layout>{Of("{_, _}"),         Of("{x, _}"),
                                                             Of("{_, x}"),         Of("{x, y}"),
                                                             Of("{(y,x), _}"),     Of("{4@y*8@x, _}"),
                                                             Of("{_, _ | sum:x}"), Of("{y, _ | sum:x}"),
                                                             Of("{(x,y), _}"),     Of("{_, _ | max:(x,y)}")};
  return *layouts;
}

TEST(LayoutTableTest, NumbersStayAndMeanTheirLayouts) {
  CutPool pool;
  LayoutTable table(TableMesh(), pool, {F32, {32, 64}});
  std::vector<int> ids;
  for (const Layout& layout : SomeLayouts()) ids.push_back(table.IdOf(layout));
  EXPECT_EQ(table.size(), SomeLayouts().size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const Layout& layout = SomeLayouts()[i];
    EXPECT_EQ(ids[i], static_cast<int>(i));
    EXPECT_EQ(table.IdOf(layout), ids[i]);
    EXPECT_EQ(table.IdOf(CutIds(table.cuts(ids[i])), table.owed(ids[i])), ids[i]);
    EXPECT_EQ(table.layout(ids[i]), layout) << layout.ToString();
    EXPECT_EQ(table.is_partial(ids[i]), layout.is_partial()) << layout.ToString();
    EXPECT_EQ(table.sharded(ids[i]), layout.ShardedAxes()) << layout.ToString();
  }
  EXPECT_EQ(table.size(), SomeLayouts().size());
}

TEST(LayoutTableTest, TablesOfOnePoolShareCuts) {
  CutPool pool;
  LayoutTable a(TableMesh(), pool, {F32, {32, 64}}), b(TableMesh(), pool, {F32, {64}});
  const CutId x = a.cuts(a.IdOf(Of("{x, _}")))[0];
  EXPECT_NE(x, kWhole);
  EXPECT_EQ(b.cuts(b.IdOf(Of("{x}")))[0], x);
  EXPECT_EQ(a.cuts(a.IdOf(Of("{_, x}"))), (CutIds{kWhole, x}));
  EXPECT_FALSE(pool.is_strided(x));
  EXPECT_TRUE(pool.is_strided(a.cuts(a.IdOf(Of("{4@y*8@x, _}")))[0]));
}

// Earlier queries about types of other sizes have no effect.
TEST(LayoutTableTest, TypesOfOnePoolDoNotChangeEachOther) {
  const std::vector<int64_t> sizes = {1, 8, 100514, 50257, 64, 1 << 20, 1 << 18};
  const std::vector<Layout> layouts = {Of("{_}"),     Of("{x}"),         Of("{y}"),
                                       Of("{(x,y)}"), Of("{_ | sum:x}"), Of("{y | sum:x}")};
  for (const bool is_reversed : {false, true}) {
    CutPool pool;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Type type = {F32, {sizes[is_reversed ? sizes.size() - 1 - i : i]}};
      LayoutTable table(TableMesh(), pool, type);
      for (const Layout& from : layouts) {
        for (const Layout& to : layouts) {
          if (from == to || to.is_partial()) continue;
          const double least = LeastSeconds(from, to, type, {});
          EXPECT_NEAR(table.Seconds(table.IdOf(from), table.IdOf(to), {}), least, 1e-9 * least)
              << type.ToString() << " " << from.ToString() << " to " << to.ToString();
        }
      }
    }
  }
}

// Bytes as in Localize's program: 3/4 of two times four bytes.
TEST(LayoutTableTest, AScalarsSumSendsWholeBytes) {
  CutPool pool;
  LayoutTable table(Mesh::Parse("x=4").value(), pool, {F32, {}});
  const Layout whole(Mesh::Parse("x=4").value(), {});
  const int owing = table.IdOf(whole.WithPartials({{0, ReduceOp::kSum}}));
  EXPECT_EQ(table.Seconds(owing, table.IdOf(whole), {}), 6 / Topology::kAssumedLink.bandwidth);
}

TEST(LayoutTableTest, CollectivesCount) {
  const Type type{F32, {1 << 16, 8}};
  for (const auto& [from, to, count] : {std::tuple("{x,_}", "{_,_}", 1), std::tuple("{_,_}", "{x,_}", 0),
                                        std::tuple("{x,_ | sum:y}", "{_,y}", 2)}) {
    CutPool pool;
    LayoutTable table(TableMesh(), pool, type), priced(TableMesh(), pool, type, {/*seconds=*/1});
    EXPECT_NEAR(priced.Seconds(priced.IdOf(Of(from)), priced.IdOf(Of(to)), {}),
                table.Seconds(table.IdOf(Of(from)), table.IdOf(Of(to)), {}) + count, 1e-12)
        << from << " to " << to;
  }
}

// With an empty block, a device receives more than each one sends in the plan that sends least.
TEST(LayoutTableTest, OfUnevenBlocksTheLeastPlanIsSearchedFor) {
  const Mesh mesh = Mesh::Parse("x=4,y=2").value();
  const Layout from = Layout::Parse(mesh, "{y,x}").value(), to = Layout::Parse(mesh, "{_,_}").value();
  const Shape shape = {1024, 5};
  int64_t elements = 0;
  const RelayoutPlan plan = PlanRelayout(from, to, shape).value();
  for (const RelayoutStep& step : plan.steps) elements += step.wire_elements;
  EXPECT_EQ(elements, 4480);
  EXPECT_NEAR(LeastSeconds(from, to, {F32, shape}, {}) * Topology::kAssumedLink.bandwidth, 4 * 4480, 1e-3);
}

TEST(LayoutTableTest, SecondsAreThoseOfTheLeastPlan) {
  const Topology described = Topology::Create(TableMesh(), {{"x", {1e9, 1e-5}}, {"y", {1e10, 1e-6}}}).value();
  for (const Topology& topology : {Topology(), described}) {
    for (const Type& type : {Type{F32, {32, 64}}, Type{BF16, {32, 64}}}) {
      CutPool pool;
      LayoutTable table(TableMesh(), pool, type);
      for (const Layout& from : SomeLayouts()) {
        for (const Layout& to : SomeLayouts()) {
          const double seconds = table.Seconds(table.IdOf(from), table.IdOf(to), topology);
          if (from == to) {
            EXPECT_EQ(seconds, 0);
          } else if (to.is_partial()) {
            EXPECT_TRUE(std::isinf(seconds)) << to.ToString();
          } else {
            EXPECT_EQ(seconds, LeastSeconds(from, to, type, topology))
                << from.ToString() << " to " << to.ToString();
            EXPECT_LE(seconds, RelayoutSeconds(from, to, type, topology));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::layout_table_test
