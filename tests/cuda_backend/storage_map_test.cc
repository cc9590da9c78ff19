// Where values lie on a GPU.
#include "meshwork/runtime/cuda/storage_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "meshwork/ir/text.h"
#include "meshwork/runtime/plan/loop.h"

namespace meshwork::storage_map_test {
namespace {

StepPlan PlanOf(std::string_view text) {
  auto graph = std::make_shared<const Graph>(LowerLoops(ParseGraph(text).value()));
  return BuildStepPlan(graph, std::vector<InstanceMap>(graph->arguments().size()), {.host_is_read = false})
      .value();
}

// Three values of 1024 bytes in a row: the third lies where the first one lay.
TEST(StorageMapTest, ValuesThatFollowEachOtherShareMemory) {
  const StepPlan plan = PlanOf(R"(mesh []
func f(%x: f32[16,16] {_,_}) {
  %a = matmul %x, %x : f32[16,16] {_,_}
  %b = matmul %a, %a : f32[16,16] {_,_}
  %c = matmul %b, %b : f32[16,16] {_,_}
  %d = reduce_sum %c dims=[0,1] : f32[] {}
  return %d
})");
  const StorageMap map = MapStorages(plan);
  int64_t sum = 0;
  for (const Storage& storage : plan.storages) sum += storage.bytes;
  EXPECT_GT(sum, 4 * 1024);
  EXPECT_LE(map.arena_bytes, 3 * 1024);
  for (size_t s = 0; s < plan.storages.size(); ++s) {
    EXPECT_EQ(map.places[s].offset % 256, 0);
    if (map.places[s].kind == StorageMap::Place::Kind::kArena) {
      EXPECT_LE(map.places[s].offset + plan.storages[s].bytes, map.arena_bytes);
    }
  }
}

// The storages of a loop's body lie in the arena of the program around it, next to the constants of both.
TEST(StorageMapTest, BodiesLieInTheArena) {
  const StepPlan plan = PlanOf(R"(mesh []
func f(%x: f32[16,16] {_,_}) {
  %i = iota dim=0 dtype=f32 shape=[16,16] : f32[16,16] {_,_}
  %y = scan %x length=3 (var %c: f32[16,16] {_,_}) {
    %j = iota dim=1 dtype=f32 shape=[16,16] : f32[16,16] {_,_}
    %p = matmul %c, %j : f32[16,16] {_,_}
    %q = matmul %p, %p : f32[16,16] {_,_}
    update %c = %q
  } : f32[16,16] {_,_}
  %z = add %y, %i : f32[16,16] {_,_}
  return %z
})");
  const StorageMap map = MapStorages(plan);
  const StorageMap* body = nullptr;
  for (const auto& bodies : map.bodies)
    if (!bodies.empty()) body = &bodies[0];
  ASSERT_NE(body, nullptr);
  EXPECT_GE(map.constant_bytes, 2 * 1024);
  bool has_values = false;
  for (const StorageMap::Place& place : body->places) {
    if (place.kind == StorageMap::Place::Kind::kConstant) {
      EXPECT_LT(place.offset, map.constant_bytes);
    }
    if (place.kind != StorageMap::Place::Kind::kArena) continue;
    has_values = true;
    EXPECT_LT(place.offset, map.arena_bytes);
  }
  EXPECT_TRUE(has_values);
}

}  // namespace
}  // namespace meshwork::storage_map_test
