#include "meshwork/mesh/mesh.h"

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/mesh/placement.h"

namespace meshwork::mesh_test {
namespace {

Mesh Read(std::string_view text) { return Mesh::Parse(text).value(); }

TEST(MeshErrors, Axes) {
  std::string parts = "2";
  for (int i = 1; i < 32; ++i) parts += "*2";
  ExpectErrors("mesh", {
                           MISTAKE(Mesh::Create({{"batch", 2}, {"model", 4}, {"batch", 2}})),
                           MISTAKE(Mesh::Create({{"ok", 2}, {"", 3}})),
                           MISTAKE(Mesh::Create({{"2d", 3}})),
                           MISTAKE(Mesh::Create({{"_x", 3}})),
                           MISTAKE(Mesh::Create({{"a b", 3}})),
                           MISTAKE(Mesh::Create({{"a-b", 3}})),
                           MISTAKE(Mesh::Create({{"bätch", 3}})),
                           MISTAKE(Mesh::Create({{"a", 2}, {"b", 0}})),
                           MISTAKE(Mesh::Create({{"a", std::numeric_limits<int64_t>::min()}})),
                           MISTAKE(Mesh::Create(std::vector<Axis>(17, {"a", 1}))),
                           MISTAKE(Mesh::Parse("a=-3")),
                           MISTAKE(Mesh::Parse("a=1048576,b=1048577")),
                           MISTAKE(Mesh::Parse("a=4294967296,b=4294967296")),  // wraps around 64 bits to 0
                           MISTAKE(Mesh::Parse("[a=2")),
                           MISTAKE(Mesh::Parse("[")),
                           MISTAKE(Mesh::Parse("batch")),
                           MISTAKE(Mesh::Parse("a=2,,b=3")),
                           MISTAKE(Mesh::Parse("a=2 b")),
                           MISTAKE(Mesh::Parse("a=")),
                           MISTAKE(Mesh::Parse("a=2.5")),
                           MISTAKE(Mesh::Parse("a=9223372036854775808")),
                           MISTAKE(Mesh::Parse("a=2,")),
                           MISTAKE(Mesh::Parse("=2")),
                           MISTAKE(Mesh::Parse("a=2]")),
                           MISTAKE(Mesh::Parse("a=\xff")),
                           // Cut axes.
                           MISTAKE(Mesh::Parse("m=2*1")),
                           MISTAKE(Mesh::Parse("m=1*2")),
                           MISTAKE(Mesh::Parse("m=2*-3")),
                           MISTAKE(Mesh::Parse("m=1048576*1048577")),
                           MISTAKE(Mesh::Parse("m=2*")),
                           MISTAKE(Mesh::Parse("m=*2")),
                           MISTAKE(Mesh::Parse("n=1048576,m=2048*1024")),
                           {"more than 32 parts", [&] { return Mesh::Parse("m=" + parts + ",b=4"); }},
                       });
}

TEST(MeshErrors, Placements) {
  ExpectErrors("placement", {
                                MISTAKE(Placement::Create(Read("batch=4,model=2"), 0)),
                                MISTAKE(Placement::Create(Read("batch=4,model=2"), -2)),
                                MISTAKE(Placement::Create(Read("batch=4,model=2"), 3)),
                                MISTAKE(Placement::Create(Read("batch=4,model=2"), 16)),
                                MISTAKE(Placement::Create(Read("x=3,y=6"), 2)),
                                MISTAKE(Placement::Create(Read("x=2*6"), 3)),
                            });
}

TEST(MeshErrors, Names) {
  const Mesh mesh = Read("batch=2,model=4"), cut = Read("batch=4,model=2*6");
  ExpectErrors("axis_names",
               {
                   MISTAKE(mesh.FindAxes("modle")),     MISTAKE(mesh.FindAxes("Batch")),
                   MISTAKE(mesh.FindAxes("expert")),    MISTAKE(mesh.FindAxes("")),
                   MISTAKE(mesh.Cut("modle:(2)2")),     MISTAKE(Mesh().FindAxes("x")),
                   MISTAKE(mesh.Cut("model:")),         MISTAKE(mesh.Cut("model:2")),
                   MISTAKE(mesh.Cut("model:(2)")),      MISTAKE(mesh.Cut("model:(2)2 ")),
                   MISTAKE(mesh.Cut("model:)2(2")),     MISTAKE(mesh.Cut("model:(2)9223372036854775808")),
                   MISTAKE(mesh.Cut("model:(0)2")),     MISTAKE(mesh.Cut("model:(1)1")),
                   MISTAKE(mesh.Cut("model:(-2)-2")),   MISTAKE(mesh.Cut("model:(4611686018427387904)4")),
                   MISTAKE(mesh.Cut("model:(2)4")),     MISTAKE(cut.FindAxes("model:(2)3")),
                   MISTAKE(cut.FindAxes("model:(1)4")), MISTAKE(cut.Cut("model:(3)4")),
               });
}

}  // namespace
}  // namespace meshwork::mesh_test
