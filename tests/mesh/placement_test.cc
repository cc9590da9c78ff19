#include "meshwork/mesh/placement.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "mesh/all_meshes.h"
#include "meshwork/base/status.h"

namespace meshwork::placement_test {
namespace {

// True if devices [first, first + count) are exactly those that share the coordinates of `first` on some axes.
bool IsBox(const Mesh& mesh, int64_t first, int64_t count) {
  int64_t box = 1;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    bool varies = false;
    for (int64_t d = first; d < first + count; ++d)
      varies |= mesh.CoordinateOn(axis, d) != mesh.CoordinateOn(axis, first);
    if (varies) box *= mesh.axis(axis).size;
  }
  return box == count;
}

TEST(PlacementTest, OneDomainHoldsAll) {
  for (const Mesh& mesh : AllMeshes(12)) {
    for (const Placement& placement : {Placement(mesh), Placement::Create(mesh, 1).value()}) {
      EXPECT_EQ(placement.mesh(), mesh);
      EXPECT_EQ(placement.num_domains(), 1);
      EXPECT_TRUE(placement.across().empty());
      for (int64_t d = 0; d < mesh.num_devices(); ++d) EXPECT_EQ(placement.DomainOf(d), 0);
    }
  }
}

// On every mesh of up to 24 devices, for every number of domains that divides them: a placement exists, and its
// laws hold, if and only if some cut of the mesh makes every domain a box.
TEST(PlacementTest, LawsHoldOnAllMeshes) {
  int made = 0, refused = 0;
  for (int64_t devices : {2, 4, 6, 8, 12, 24}) {
    for (const Mesh& mesh : AllMeshes(devices)) {
      for (int64_t domains = 2; domains <= devices; ++domains) {
        if (devices % domains != 0) continue;
        SCOPED_TRACE(testing::Message() << mesh.ToString() << ", " << domains);
        const int64_t each = devices / domains;
        const absl::StatusOr<Placement> placement = Placement::Create(mesh, domains);
        if (!placement.ok()) {
          ++refused;
          // No further part of an axis exists at which the mesh could have been cut.
          for (int axis = 0; axis < mesh.num_axes(); ++axis) {
            for (int64_t major = 2; major < mesh.axis(axis).size; ++major) {
              if (mesh.axis(axis).size % major != 0) continue;
              const Mesh cut = mesh.CutAxis(axis, major).value();
              EXPECT_FALSE(IsBox(cut, 0, each)) << cut.ToString();
            }
          }
          EXPECT_FALSE(IsBox(mesh, 0, each));
          continue;
        }
        ++made;
        const Mesh& cut = placement->mesh();
        EXPECT_EQ(cut.num_devices(), devices);
        EXPECT_EQ(placement->num_domains(), domains);
        EXPECT_EQ(placement->devices_per_domain(), each);
        EXPECT_EQ(cut.GroupSize(placement->across().ToList()), domains);
        EXPECT_EQ(cut.GroupSize(placement->within().ToList()), each);
        EXPECT_FALSE(placement->across().Intersects(placement->within()));
        const AxisGroup across(cut, placement->across().ToList()), within(cut, placement->within().ToList());
        for (int64_t d = 0; d < devices; ++d) {
          EXPECT_EQ(placement->DomainOf(d), across.RankOf(d));
          EXPECT_EQ(d - placement->FirstDevice(placement->DomainOf(d)), within.RankOf(d));
        }
        EXPECT_EQ(Placement::Create(cut, domains).value(), *placement);
      }
    }
  }
  EXPECT_GT(made, 300);
  EXPECT_GT(refused, 50);
}

TEST(PlacementTest, CutsTheAxisInsideWhichDomainsEnd) {
  const auto text = [](const char* mesh, int64_t domains) {
    return Placement::Create(Mesh::Parse(mesh).value(), domains).value().ToString();
  };
  EXPECT_EQ(text("batch=4,model=2", 2), "2 domains of 4 devices on [batch=2*2, model=2]");
  EXPECT_EQ(text("batch=4,model=2", 4), "4 domains of 2 devices on [batch=4, model=2]");
  EXPECT_EQ(text("batch=4,model=2", 8), "8 domains of 1 device on [batch=4, model=2]");
  EXPECT_EQ(text("batch=2*6,model=2", 6), "6 domains of 4 devices on [batch=2*3*2, model=2]");
  EXPECT_EQ(text("one=1,x=6", 3), "3 domains of 2 devices on [one=1, x=3*2]");
  // On 2^40 devices the result is the same as on 8.
  EXPECT_EQ(text("x=1048576,y=1048576", 2048),
            "2048 domains of 536870912 devices on [x=2048*512, y=1048576]");
}

TEST(PlacementTest, ErrorsNameTheMesh) {
  const auto error = [](const char* mesh, int64_t domains) {
    return std::string(MessageOf(Placement::Create(Mesh::Parse(mesh).value(), domains).status()));
  };
  EXPECT_EQ(error("batch=4,model=2", 0),
            "Placement: 0 domains on [batch=4, model=2]; there is at least one domain.");
  EXPECT_EQ(
      error("batch=4,model=2", 3),
      "Placement: 3 domains on [batch=4, model=2] of 8 devices; each domain holds equally many devices, so "
      "their number divides 8.");
  EXPECT_EQ(
      error("x=3,y=6", 2),
      "Placement: 2 domains on [x=3, y=6] hold 9 devices each, which is no box of the mesh; a domain holds "
      "whole axes, from the last one on, and at most a part of one more.");
}

}  // namespace
}  // namespace meshwork::placement_test
