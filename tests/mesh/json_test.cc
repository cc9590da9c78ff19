#include "mesh/json.h"

#include <string>

#include "base/status.h"
#include "gtest/gtest.h"
#include "mesh/all_meshes.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

std::string ErrorOf(const char* json) {
  const absl::StatusOr<Mesh> mesh = MeshFromJson(nlohmann::json::parse(json));
  return mesh.ok() ? "no error: " + mesh->ToString() : std::string(MessageOf(mesh.status()));
}

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

TEST(MeshJsonTest, RejectsOtherJson) {
  struct Case {
    const char *json, *error;
  };
  const Case kCases[] = {
      {"[]", "mesh JSON: it is []; it must be an object."},
      {"{}", "mesh JSON: it has no \"axes\"."},
      {R"({"axis": []})", "mesh JSON: it has the key \"axis\"; the keys are axes; did you mean \"axes\"?"},
      {R"({"axes": {}})", "mesh JSON: axes is {}; it must be a list."},
      {R"({"axes": [{"name": "a", "size": 2}, 3]})", "mesh JSON: axes[1] is 3; it must be an object."},
      {R"({"axes": [{"name": "a"}]})", "mesh JSON: axes[0] has no \"size\"."},
      {R"({"axes": [{"size": 3}]})", "mesh JSON: axes[0] has no \"name\"."},
      {R"({"axes": [{"name": "a", "size": 2, "devices": 2}]})",
       "mesh JSON: axes[0] has the key \"devices\"; the keys are name, size."},
      {R"({"axes": [{"name": 7, "size": 2}]})", "mesh JSON: axes[0].name is 7; it must be a string."},
      {R"({"axes": [{"name": "a", "size": "2"}]})",
       "mesh JSON: axes[0].size is \"2\"; it must be a whole number."},
      {R"({"axes": [{"name": "a", "size": 2.5}]})",
       "mesh JSON: axes[0].size is 2.5; it must be a whole number."},
      {R"({"axes": [{"name": "a", "size": 9223372036854775808}]})",
       "mesh JSON: axes[0].size is 9223372036854775808; it must be a whole number."},
      {R"({"axes": [{"name": "a", "size": [4]}]})",
       "mesh JSON: axes[0].size is [4]; it must be a whole number, or a list of two or more."},
      {R"({"axes": [{"name": "a", "size": [4, 1]}]})",
       "mesh JSON: axes[0].size[1] is 1; it must be at least 2, a part of an axis."},
      {R"({"axes": [{"name": "a", "size": [4, true]}]})",
       "mesh JSON: axes[0].size[1] is true; it must be a whole number."},
      {R"({"axes": [{"name": "a", "size": [4294967296, 4294967296]}]})",
       "mesh JSON: axes[0].size is [4294967296,4294967296]; it must be below 2^40 devices."},
      {R"({"axes": [{"name": "a", "size": 0}]})",
       "Mesh: axis \"a\" has size 0 in [a=0]; sizes are at least 1."},
      {R"({"axes": [{"name": "a", "size": 2}, {"name": "a", "size": 2}]})",
       "Mesh: axis \"a\" appears twice in [a=2, a=2]; axis names must be unique."},
  };
  for (const Case& c : kCases) EXPECT_EQ(ErrorOf(c.json), c.error);
}

}  // namespace
}  // namespace meshwork
