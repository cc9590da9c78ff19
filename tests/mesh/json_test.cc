#include "meshwork/mesh/json.h"

#include <string>

#include "gtest/gtest.h"
#include "mesh/all_meshes.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork::json_test {
namespace {

TEST(MeshJsonTest, WritesTheAxesInOrder) {
  EXPECT_EQ(ToJson(Mesh::Parse("z=4,model=2*4,b=1").value()),
            nlohmann::json::parse(R"({"axes": [{"name": "z", "size": 4}, {"name": "model", "size": [2, 4]},
                                               {"name": "b", "size": 1}]})"));
  EXPECT_EQ(ToJson(Mesh()).dump(), R"({"axes":[]})");
}

TEST(MeshJsonTest, ReadsEveryMeshBack) {
  for (int64_t n = 1; n <= 24; ++n)
    for (const Mesh& mesh : AllMeshes(n))
      ASSERT_EQ(MeshFromJson(nlohmann::json::parse(ToJson(mesh).dump())).value(), mesh) << mesh.ToString();
  for (const char* text : {"a=1", "a=1,b=4,c=1", "a=1048576,b=1024*1024"})
    EXPECT_EQ(MeshFromJson(ToJson(Mesh::Parse(text).value()))->ToString(), Mesh::Parse(text)->ToString());
}

}  // namespace
}  // namespace meshwork::json_test
