// Sub-axes: meshes whose axes are cut into parts.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mesh/all_meshes.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork::cut_test {
namespace {

using ::testing::ElementsAre;

Mesh Read(std::string_view text) { return Mesh::Parse(text).value(); }
TEST(CutMeshTest, ReadsItsTextInEverySpelling) {
  EXPECT_EQ(Read("batch=4,model=2*4").ToString(), "[batch=4, model=2*4]");
  EXPECT_EQ(Read(" [ m = 2 * 2*3 ,b=1] ").ToString(), "[m=2*2*3, b=1]");
  EXPECT_NE(Read("m=2*4"), Read("m=8"));
  EXPECT_NE(Read("m=2*4"), Read("m=4*2"));
  EXPECT_NE(Read("m=2*4"), Read("m=2,n=4"));
}

TEST(CutMeshTest, ListsThePartsAsAxes) {
  const Mesh mesh = Read("batch=4,model=2*3*5");
  EXPECT_THAT(mesh.axes(), ElementsAre(Axis{"batch", 4}, Axis{"model:(1)2", 2}, Axis{"model:(2)3", 3},
                                       Axis{"model:(6)5", 5}));
  EXPECT_EQ(mesh.num_devices(), 120);
  EXPECT_EQ(mesh.stride(1), 15);
  EXPECT_EQ(mesh.stride(2), 5);
  EXPECT_FALSE(mesh.Continues(0));
  EXPECT_FALSE(mesh.Continues(1));
  EXPECT_TRUE(mesh.Continues(2));
  EXPECT_TRUE(mesh.Continues(3));
  // 29 of 30 is (1, 4 of 15): (1, 2, 4).
  const Coordinates last = mesh.Coordinate(3 * 30 + 29);
  EXPECT_THAT(std::vector<int64_t>(last.begin(), last.end()), ElementsAre(3, 1, 2, 4));
}

TEST(CutMeshTest, FindsPartsByName) {
  const Mesh mesh = Read("batch=4,model=2*2*3,one=1");
  EXPECT_EQ(mesh.FindAxes("model").value(), (AxisList{1, 2, 3}));
  EXPECT_EQ(mesh.FindAxes("model:(1)12").value(), (AxisList{1, 2, 3}));
  EXPECT_EQ(mesh.FindAxes("model:(1)4").value(), (AxisList{1, 2}));
  EXPECT_EQ(mesh.FindAxes("model:(2)6").value(), (AxisList{2, 3}));
  EXPECT_EQ(mesh.FindAxes("model:(4)3").value(), (AxisList{3}));
  EXPECT_EQ(mesh.FindAxes("batch:(1)4").value(), (AxisList{0}));
  EXPECT_EQ(mesh.FindAxes("one").value(), (AxisList{4}));
}

TEST(CutMeshTest, NamesPartsInARowAsOne) {
  const Mesh mesh = Read("batch=4,model=2*2*3");
  EXPECT_EQ(mesh.AxesToString({1, 2, 3}), "(model)");
  EXPECT_EQ(mesh.AxesToString({1, 2}), "(model:(1)4)");
  EXPECT_EQ(mesh.AxesToString({2, 3, 0}), "(model:(2)6,batch)");
  EXPECT_EQ(mesh.AxesToString({2, 1}), "(model:(2)2,model:(1)2)");
  EXPECT_EQ(mesh.AxesToString({1, 3}), "(model:(1)2,model:(4)3)");
  EXPECT_EQ(mesh.AxesToString({0, 1}), "(batch,model:(1)2)");
}

TEST(CutMeshTest, CutsWhereANameBeginsAndEnds) {
  const Mesh mesh = Read("batch=4,model=12");
  EXPECT_EQ(mesh.Cut("model").value(), mesh);
  EXPECT_EQ(mesh.Cut("model:(1)12").value(), mesh);
  EXPECT_EQ(mesh.Cut("model:(1)2").value(), Read("batch=4,model=2*6"));
  EXPECT_EQ(mesh.Cut("model:(4)3").value(), Read("batch=4,model=4*3"));
  EXPECT_EQ(mesh.Cut("model:(2)2").value(), Read("batch=4,model=2*2*3"));
  EXPECT_EQ(mesh.Cut("model:(2)2")->Cut("batch:(2)2").value(), Read("batch=2*2,model=2*2*3"));
  EXPECT_EQ(mesh.Cut("model:(2)2")->Cut("model:(2)2").value(), Read("batch=4,model=2*2*3"));
}

// ---- Laws.

std::set<int64_t> EndsOf(const Mesh& mesh) {  // where the parts of a mesh of one axis begin and end
  std::set<int64_t> ends = {1};
  int64_t end = 1;
  for (const Axis& part : mesh.axes()) ends.insert(end *= part.size);
  return ends;
}

void ForEachCut(const std::function<void(const Mesh&)>& f) {
  for (int64_t n : {2, 4, 6, 8, 9, 12, 24})
    for (const Mesh& mesh : AllCuts(n)) f(mesh);
}

TEST(CutMeshTest, ACutChangesNoDevice) {
  ForEachCut([](const Mesh& mesh) {
    const Mesh whole = Read(fmt::format("a={}", mesh.num_devices()));
    EXPECT_EQ(Read(mesh.ToString()), mesh);
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      const Coordinates at = mesh.Coordinate(device);
      int64_t joined = 0;
      for (int i = 0; i < mesh.num_axes(); ++i) joined = joined * mesh.axis(i).size + at[i];
      EXPECT_EQ(joined, whole.Coordinate(device)[0]);
      EXPECT_EQ(mesh.DeviceAt(at), device);
    }
  });
}

TEST(CutMeshTest, NamesOfEveryAxisListLeadBack) {
  for (int64_t n = 1; n <= 24; ++n) {
    for (const Mesh& mesh : AllMeshes(n)) {
      for (const AxisList& axes : AllAxisLists(mesh)) {
        AxisList found;
        for (const std::string& name : mesh.NamesOf(axes)) {
          const AxisList part = mesh.FindAxes(name).value();
          found.insert(found.end(), part.begin(), part.end());
        }
        ASSERT_EQ(found, axes) << mesh.ToString();
      }
      for (int i = 0; i < mesh.num_axes(); ++i)
        EXPECT_EQ(mesh.FindAxes(mesh.axis(i).name).value(), AxisList{i}) << mesh.ToString();
    }
  }
}

TEST(CutMeshTest, APartIsFoundExactlyWhereTheMeshIsCut) {
  ForEachCut([](const Mesh& mesh) {
    const std::set<int64_t> ends = EndsOf(mesh);
    for (int64_t before = 1; before <= mesh.num_devices(); ++before) {
      for (int64_t size = 2; size <= mesh.num_devices(); ++size) {
        const absl::StatusOr<AxisList> found = mesh.FindAxes(fmt::format("a:({}){}", before, size));
        ASSERT_EQ(found.ok(), ends.contains(before) && ends.contains(before * size))
            << mesh.ToString() << " " << before << " " << size;
        if (found.ok()) {
          EXPECT_EQ(mesh.GroupSize(*found), size);
        }
      }
    }
  });
}

TEST(CutMeshTest, ACutAddsItsEndsOrClashes) {
  ForEachCut([](const Mesh& mesh) {
    const int64_t n = mesh.num_devices();
    for (int64_t before = 1; before <= n; ++before) {
      for (int64_t size = 2; before * size <= n; ++size) {
        if (n % (before * size) != 0) continue;
        std::set<int64_t> ends = EndsOf(mesh);
        ends.insert({before, before * size});
        bool divide = true;
        for (auto end = std::next(ends.begin()); end != ends.end(); ++end)
          divide &= *end % *std::prev(end) == 0;
        const absl::StatusOr<Mesh> cut = mesh.Cut(fmt::format("a:({}){}", before, size));
        ASSERT_EQ(cut.ok(), divide) << mesh.ToString() << " " << before << " " << size;
        if (cut.ok()) {
          EXPECT_EQ(EndsOf(*cut), ends);
        }
      }
    }
  });
}

TEST(CutMeshTest, GroupsAreTheSameOnEveryFinerMesh) {
  for (int64_t n : {8, 12, 24}) {
    const std::vector<Mesh> meshes = AllCuts(n);
    for (const Mesh& coarse : meshes) {
      for (const Mesh& finer : meshes) {
        const std::set<int64_t> have = EndsOf(coarse), more = EndsOf(finer);
        if (!std::includes(more.begin(), more.end(), have.begin(), have.end())) continue;
        for (const AxisList& axes : AllAxisLists(coarse)) {
          const AxisList on = coarse.On(finer, axes);
          EXPECT_EQ(finer.NamesOf(on), coarse.NamesOf(axes));
          const AxisGroup group(coarse, axes), same(finer, on);
          ASSERT_EQ(group.size(), same.size());
          for (int64_t device = 0; device < n; ++device)
            for (int64_t rank = 0; rank < group.size(); ++rank)
              ASSERT_EQ(group.Member(device, rank), same.Member(device, rank));
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::cut_test
