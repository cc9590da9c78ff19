#include "meshwork/mesh/mesh.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mesh/all_meshes.h"
#include "meshwork/base/status.h"

namespace meshwork::mesh_test {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> List(const Coordinates& coordinate) { return {coordinate.begin(), coordinate.end()}; }

// ---- Construction and text.

TEST(MeshTest, WithoutAxesIsOneDevice) {
  for (const Mesh& mesh :
       {Mesh(), Mesh::Parse("").value(), Mesh::Parse(" [ ] ").value(), Mesh::Create({}).value()}) {
    EXPECT_EQ(mesh.num_axes(), 0);
    EXPECT_EQ(mesh.num_devices(), 1);
    EXPECT_EQ(mesh.ToString(), "[]");
    EXPECT_TRUE(mesh.Coordinate(0).empty());
    EXPECT_EQ(mesh, Mesh());
  }
}

TEST(MeshTest, NumbersDevicesRowMajor) {
  const Mesh mesh = Mesh::Create({{"batch", 4}, {"model", 2}}).value();
  EXPECT_EQ(mesh.num_axes(), 2);
  EXPECT_EQ(mesh.num_devices(), 8);
  EXPECT_EQ(mesh.axis(0), (Axis{"batch", 4}));
  EXPECT_EQ(mesh.stride(0), 2);
  EXPECT_EQ(mesh.stride(1), 1);
  EXPECT_THAT(List(mesh.Coordinate(5)), ElementsAre(2, 1));
  EXPECT_EQ(mesh.DeviceAt(std::vector<int64_t>{2, 1}), 5);
}

TEST(MeshTest, ReadsItsTextInEverySpelling) {
  struct Case {
    const char *text, *canonical;
  };
  const Case kCases[] = {
      {"batch=4,model=2", "[batch=4, model=2]"},
      {"[batch=4, model=2]", "[batch=4, model=2]"},
      {"  [ batch = 4 ,model=2 ]\n", "[batch=4, model=2]"},
      {"x=1", "[x=1]"},
      {"X_9=007", "[X_9=7]"},
      {"a=1048576,b=1048576", "[a=1048576, b=1048576]"},  // 2^40 devices
  };
  for (const Case& c : kCases) {
    const absl::StatusOr<Mesh> mesh = Mesh::Parse(c.text);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    EXPECT_EQ(mesh->ToString(), c.canonical);
    EXPECT_EQ(Mesh::Parse(mesh->ToString()).value(), *mesh);
    EXPECT_EQ(Mesh::VirtualCpus(c.text).value(), *mesh);
  }
}

TEST(MeshTest, AllowsSixteenAxes) {
  std::vector<Axis> axes;
  for (int i = 0; i < Mesh::kMaxAxes; ++i) axes.push_back({"a" + std::to_string(i), 2});
  const Mesh mesh = Mesh::Create(axes).value();
  EXPECT_EQ(mesh.num_devices(), 65536);
  EXPECT_EQ(Mesh::Parse(mesh.ToString()).value(), mesh);
}

TEST(MeshTest, EqualsByNamesSizesAndOrder) {
  const Mesh mesh = Mesh::Parse("a=2,b=3").value();
  EXPECT_EQ(mesh, Mesh::Parse("a=2,b=3").value());
  for (const char* other : {"b=3,a=2", "a=3,b=2", "a=2", "a=2,c=3", "a=2,b=3,c=1", ""})
    EXPECT_NE(mesh, Mesh::Parse(other).value()) << other;
}

TEST(MeshTest, FindsAxesByName) {
  const Mesh mesh = Mesh::Parse("batch=2,model=4").value();
  EXPECT_EQ(mesh.FindAxes("batch").value(), AxisList{0});
  EXPECT_EQ(mesh.FindAxes("model").value(), AxisList{1});
}

TEST(MeshTest, NamesAxisLists) {
  const Mesh mesh = Mesh::Parse("batch=2,model=4,expert=3").value();
  EXPECT_EQ(mesh.AxesToString({}), "()");
  EXPECT_EQ(mesh.AxesToString({2, 0}), "(expert,batch)");
  EXPECT_EQ(mesh.GroupSize({}), 1);
  EXPECT_EQ(mesh.GroupSize({2, 0}), 6);
}

// ---- Laws.

constexpr const char* kMeshes[] = {
    "", "a=1", "a=7", "a=4,b=2", "a=1,b=5,c=1", "a=2,b=3,c=2", "a=2,b=2,c=2,d=2"};

TEST(MeshTest, CoordinatesAndDevicesAreInverse) {
  for (const char* text : kMeshes) {
    const Mesh mesh = Mesh::Parse(text).value();
    std::vector<int64_t> previous;
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      const std::vector<int64_t> coordinate = List(mesh.Coordinate(device));
      EXPECT_EQ(mesh.DeviceAt(coordinate), device);
      if (device > 0) {
        EXPECT_LT(previous, coordinate);  // row-major: lexicographic
      }
      for (int axis = 0; axis < mesh.num_axes(); ++axis) {
        EXPECT_EQ(mesh.CoordinateOn(axis, device), coordinate[axis]);
        EXPECT_LT(coordinate[axis], mesh.axis(axis).size);
        if (coordinate[axis] + 1 == mesh.axis(axis).size) continue;
        std::vector<int64_t> neighbour = coordinate;
        ++neighbour[axis];
        EXPECT_EQ(mesh.DeviceAt(neighbour), device + mesh.stride(axis));
      }
      previous = coordinate;
    }
  }
}

TEST(AxisGroupTest, GivesThePeersOfTheExample) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  const AxisGroup group(mesh, {0});
  std::vector<int64_t> peers;
  for (int64_t rank = 0; rank < group.size(); ++rank) peers.push_back(group.Member(5, rank));
  EXPECT_THAT(peers, ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(group.RankOf(5), 2);
}

TEST(AxisGroupTest, OrdersMembersByTheGivenAxesMajorToMinor) {
  const Mesh mesh = Mesh::Parse("a=2,b=3").value();
  auto members = [&](const AxisList& axes) {
    const AxisGroup group(mesh, axes);
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < group.size(); ++rank) all.push_back(group.Member(4, rank));
    return all;
  };
  EXPECT_THAT(members({}), ElementsAre(4));
  EXPECT_THAT(members({0, 1}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(members({1, 0}), ElementsAre(0, 3, 1, 4, 2, 5));
}

void ExpectGroupLaws(const Mesh& mesh, const AxisList& axes, int64_t device,
                     const std::vector<int64_t>& ranks) {
  const AxisGroup group(mesh, axes);
  EXPECT_EQ(group.size(), mesh.GroupSize(axes));
  EXPECT_EQ(group.Member(device, group.RankOf(device)), device);
  for (int64_t i : ranks) {
    const int64_t member = group.Member(device, i);
    EXPECT_EQ(group.RankOf(member), i);
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (AxisSet(axes).Contains(axis)) continue;
      EXPECT_EQ(mesh.CoordinateOn(axis, member), mesh.CoordinateOn(axis, device));
    }
    for (int64_t j : ranks) EXPECT_EQ(group.Member(member, j), group.Member(device, j));
  }
}

TEST(AxisGroupTest, RanksAndMembersAreInverseOnEveryAxisList) {
  for (const char* text : kMeshes) {
    const Mesh mesh = Mesh::Parse(text).value();
    for (const AxisList& axes : AllAxisLists(mesh)) {
      std::vector<int64_t> ranks(mesh.GroupSize(axes));
      std::iota(ranks.begin(), ranks.end(), 0);
      for (int64_t device = 0; device < mesh.num_devices(); ++device)
        ExpectGroupLaws(mesh, axes, device, ranks);
    }
  }
}

TEST(AxisGroupTest, HoldsItsLawsOnAMillionDevices) {
  const Mesh mesh = Mesh::Parse("host=1024,rack=32,chip=32").value();
  ASSERT_EQ(mesh.num_devices(), int64_t{1} << 20);
  for (const AxisList& axes : AllAxisLists(mesh)) {
    const int64_t last = mesh.GroupSize(axes) - 1;
    for (int64_t device : {int64_t{0}, int64_t{524'287}, int64_t{700'001}, mesh.num_devices() - 1}) {
      EXPECT_EQ(mesh.DeviceAt(mesh.Coordinate(device)), device);
      ExpectGroupLaws(mesh, axes, device, {0, last / 3, last / 2, last});
    }
  }
  EXPECT_EQ(AxisGroup(mesh, {1, 0}).Member(5, 1025), mesh.DeviceAt(std::vector<int64_t>{1, 1, 5}));
}

// ---- AxisSet.

std::set<int> SetOf(AxisSet axes) {
  const AxisList list = axes.ToList();
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  return {list.begin(), list.end()};
}

TEST(AxisSetTest, AgreesWithASetOfNumbers) {
  std::vector<AxisSet> sets;
  std::vector<std::set<int>> models;
  for (int bits = 0; bits < 32; ++bits) {
    AxisList list;
    for (int i = 4; i >= 0; --i)
      if (bits >> i & 1) list.push_back(3 * i);  // 0, 3, 6, 9, 12; given in reverse
    sets.push_back(AxisSet(list));
    models.push_back({list.begin(), list.end()});
  }
  for (size_t a = 0; a < sets.size(); ++a) {
    EXPECT_EQ(SetOf(sets[a]), models[a]);
    EXPECT_EQ(sets[a].empty(), models[a].empty());
    for (int axis = 0; axis < Mesh::kMaxAxes; ++axis)
      EXPECT_EQ(sets[a].Contains(axis), models[a].contains(axis));
    for (size_t b = 0; b < sets.size(); ++b) {
      std::set<int> both, either = models[a], without = models[a];
      for (int axis : models[b]) {
        if (models[a].contains(axis)) both.insert(axis);
        either.insert(axis);
        without.erase(axis);
      }
      EXPECT_EQ(sets[a].Intersects(sets[b]), !both.empty());
      EXPECT_EQ(SetOf(sets[a].Union(sets[b])), either);
      EXPECT_EQ(SetOf(sets[a].Minus(sets[b])), without);
      EXPECT_EQ(sets[a] == sets[b], a == b);
    }
  }
}

TEST(AxisSetTest, AddsAndRemoves) {
  AxisSet set;
  EXPECT_TRUE(set.empty());
  set.Add(15);
  set.Add(2);
  set.Add(2);
  EXPECT_EQ(SetOf(set), (std::set<int>{2, 15}));
  set.Remove(15);
  set.Remove(7);
  EXPECT_EQ(SetOf(set), std::set<int>{2});
}

}  // namespace
}  // namespace meshwork::mesh_test
