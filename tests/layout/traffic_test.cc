#include "meshwork/layout/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace meshwork::traffic_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

AxisList EveryAxis(const Mesh& mesh) {
  AxisList axes;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) axes.push_back(axis);
  return axes;
}

TEST(SomeDevicesTest, AreAllOfAFew) {
  const Mesh mesh = Mesh::Parse("x=2,y=3,z=2").value();
  EXPECT_THAT(SomeDevices(mesh, {0, 2}, 4), ElementsAre(0, 1, 6, 7));
  EXPECT_EQ(SomeDevices(mesh, EveryAxis(mesh), 12).size(), 12);
  EXPECT_THAT(SomeDevices(mesh, {}, 4), ElementsAre(0));
}

TEST(SomeDevicesTest, LieAtTheEndsBesideThemAndInTheMiddleOfMany) {
  const Mesh mesh = Mesh::Parse("x=1000").value();
  EXPECT_THAT(SomeDevices(mesh, {0}, 999), ElementsAre(0, 1, 500, 998, 999));
  EXPECT_THAT(SomeDevices(mesh, {0}, 4), ElementsAre(0, 500, 999));
  EXPECT_THAT(SomeDevices(mesh, {0}, 2), ElementsAre(0, 999));
}

TEST(SomeDevicesTest, OfShortAxesAreAll) {
  const Mesh mesh = Mesh::Parse("x=4,y=1000").value();
  EXPECT_EQ(SomeDevices(mesh, {0, 1}, 20).size(), 20);
  EXPECT_THAT(SomeDevices(mesh, {0, 1}, 20), IsSupersetOf({1001, 1500, 2000}));
}

// Meshes have up to 2^40 devices, and up to 16 axes.
TEST(SomeDevicesTest, AreNeverMore) {
  for (const char* text :
       {"x=1099511627776", "x=1048576,y=1048576", "a=8,b=8,c=8,d=8,e=8,f=8,g=8,h=8,i=8,j=8",
        "a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2,i=2,j=2,k=2,l=2,m=2,n=2,o=2,p=2"}) {
    const Mesh mesh = Mesh::Parse(text).value();
    for (int64_t most : {1, 5, 64, 1000}) {
      const std::vector<int64_t> some = SomeDevices(mesh, EveryAxis(mesh), most);
      EXPECT_LE(some.size(), most) << text;
      EXPECT_EQ(std::set<int64_t>(some.begin(), some.end()).size(), some.size()) << text;
      for (int64_t device : some) EXPECT_LT(device, mesh.num_devices());
    }
  }
}

}  // namespace
}  // namespace meshwork::traffic_test
