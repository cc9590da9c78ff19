#include "meshwork/runtime/plan/sharing.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"

namespace meshwork::sharing_test {
namespace {

using ::testing::ElementsAre;

// "%x:batch %w: %0:batch,model": the axes over which each value varies. Arguments vary over the axes of their layouts.
std::string Describe(std::string_view text, bool share = true) {
  const Graph graph = ParseGraph(text).value();
  std::vector<AxisSet> arguments;
  for (const Argument& argument : graph.arguments())
    arguments.push_back(graph.value(argument.value).layout->ShardedAxes());
  const std::vector<AxisSet> varying = VaryingAxes(graph, arguments, share);
  std::string out;
  for (size_t v = 0; v < varying.size(); ++v) {
    out += fmt::format("{}{}:{}", v == 0 ? "" : " ", graph.values()[v].name,
                       graph.mesh().AxesToString(varying[v].ToList()));
  }
  return out;
}

TEST(SharingTest, InstanceMapLaws) {
  const Mesh mesh = Mesh::Parse("a=2,b=3,c=1,d=2").value();
  for (int bits = 0; bits < 16; ++bits) {
    AxisSet axes;
    for (int axis = 0; axis < 4; ++axis)
      if (bits >> axis & 1) axes.Add(axis);
    const InstanceMap map(mesh, axes);
    EXPECT_FALSE(map.axes().Contains(2)) << "nothing varies over an axis of size 1";
    for (int64_t i = 0; i < map.count(); ++i) EXPECT_EQ(map.Of(map.Representative(i)), i);
    for (int64_t d = 0; d < mesh.num_devices(); ++d) {
      EXPECT_LE(map.Representative(map.Of(d)), d);
      for (int axis : map.axes().ToList())
        EXPECT_EQ(mesh.CoordinateOn(axis, map.Representative(map.Of(d))), mesh.CoordinateOn(axis, d));
    }
  }
}

constexpr std::string_view kDataParallel = R"(mesh [batch=2, model=2]
func step(%x: f32[3,4] of f32[6,4] {batch,_}, var %w: f32[4,4] {_,_}) {
  %h = matmul %x, %w : f32[3,4] of f32[6,4] {batch,_}
  %g = matmul %x, %h transpose_a=true : f32[4,4] of f32[4,4] {_,_ | sum:batch}
  %G = all_reduce %g axes=(batch) op=sum : f32[4,4] of f32[4,4] {_,_}
  %n = sub %w, %G : f32[4,4] of f32[4,4] {_,_}
  update %w = %n
})";

TEST(SharingTest, TheOptimizerRunsOncePerProcess) {
  EXPECT_EQ(Describe(kDataParallel), "x:(batch) w:() h:(batch) g:(batch) G:() n:()");
}

TEST(SharingTest, WithoutSharingEveryResultHasAnInstancePerDevice) {
  EXPECT_EQ(Describe(kDataParallel, /*share=*/false),
            "x:(batch) w:() h:(batch,model) g:(batch,model) G:(batch,model) n:(batch,model)");
}

TEST(SharingTest, FollowsCollectives) {
  EXPECT_EQ(Describe(R"(mesh [x=2, y=2]
func step(%a: f32[2,2] of f32[4,4] {x,y}) {
  %g = all_gather %a axes=(y) dim=1 : f32[2,4] of f32[4,4] {x,_}
  %t = all_to_all %a axes=(x) from=0 to=1 : f32[4,1] of f32[4,4] {_,(y,x)}
  %p = collective_permute %a : f32[2,2] of f32[4,4] {y,x}
  %s = shard_slice %g axes=(y) dim=0 : f32[1,4] of f32[4,4] {(x,y),_}
  %i = iota dim=0 shape=[2] : f32[2] of f32[4] {x}
  %c = constant value=1 shape=[2] : f32[2] of f32[4] {x}
  %m = mask_padding %c dims=[0] op=sum : f32[2] of f32[4] {x}
})"),
            "a:(x,y) g:(x) t:(x,y) p:(x,y) s:(x,y) i:(x) c:() m:(x)");
}

TEST(SharingTest, PartialsStayApart) {
  EXPECT_EQ(Describe(R"(mesh [x=2, y=2]
func step(%a: f32[2,2] of f32[4,4] {x,y}) {
  %r = reduce_sum %a dims=[1] : f32[2] of f32[4] {x | sum:y}
  %g = all_gather %r axes=(x) dim=0 : f32[4] of f32[4] {_ | sum:y}
  %s = reduce_scatter %g axes=(y) dim=0 op=sum : f32[2] of f32[4] {y}
})"),
            "a:(x,y) r:(x,y) g:(y) s:(y)");
}

}  // namespace
}  // namespace meshwork::sharing_test
