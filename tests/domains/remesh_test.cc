// Sessions that continue on another mesh, over each transport (support/ends.h).
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "support/ends.h"

namespace meshwork::remesh_test {
namespace {

constexpr int64_t kExamples = 24;

// 40-48-10. The hidden dim is sharded over `model`, if the mesh has it; 4 divides neither 10 rows nor 10 columns.
Graph TwoLayers(const Mesh& mesh) {
  Graph g(mesh);
  const DimSpec model = g.mesh().FindAxes("model").ok() ? DimSpec("model") : DimSpec(UNSHARDED);
  Value x = g.Input("x", F32, {kExamples, 40}, {"batch", UNSHARDED});
  Dense hidden(g, "hidden", 40, 48, {.kernel_layout = {UNSHARDED, model}, .bias_layout = {model}});
  Dense last(g, "last", 48, 10, {.kernel_layout = {model, UNSHARDED}});
  Value y = last(Tanh(hidden(x)));
  Value loss = ReduceMean(y * y, {0, 1});
  Adam({.learning_rate = 0.01}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

Tensors StateIn(const Session& session) {
  Tensors state;
  for (const std::string& name : session.variable_names()) state[name] = session.Get(name).value();
  return state;
}

void TrainOn(Transport& end, const std::vector<std::string>& meshes, bool shards_state) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.executor.transport = &end;
  options.compile.shard_weight_update = shards_state;
  Session session = Session::Create(TwoLayers(Mesh::Parse(meshes[0]).value()), options).value();
  const Feeds feeds = {{"x", Rough({F32, {kExamples, 40}})}};
  for (size_t m = 1; m < meshes.size(); ++m) {
    SCOPED_TRACE(
        fmt::format("{} to {}, domain {} of {}", meshes[m - 1], meshes[m], end.domain(), end.num_domains()));
    for (int step = 0; step < 2; ++step) ASSERT_EQ(MessageOf(session.Run(feeds).status()), "");
    const Tensors before = StateIn(session);
    const Graph next = TwoLayers(Mesh::Parse(meshes[m]).value());
    const absl::StatusOr<RemeshReport> report =
        session.Remesh(next, {.max_bytes_in_flight = m % 2 == 0 ? 2048 : 1 << 20});
    ASSERT_EQ(MessageOf(report.status()), "");
    ExpectBitwiseEqual(before, StateIn(session));
    Session there = Session::Create(next, options).value();
    for (const auto& [name, value] : before) ASSERT_EQ(MessageOf(there.Set(name, value)), "");
    for (int step = 0; step < 2; ++step) {
      const Tensor here = session.Run(feeds)->Get("loss").value(),
                   other = there.Run(feeds)->Get("loss").value();
      EXPECT_TRUE(BitwiseEqual(here, other));
    }
    ExpectBitwiseEqual(StateIn(session), StateIn(there));
  }
}

TEST(DomainsTest, SessionsGoOnOnAnotherMesh) {
  const std::pair<int64_t, std::vector<std::string>> trials[] = {
      {2, {"batch=8", "batch=4,model=2", "model=2,batch=3", "batch=6"}},
      {3, {"batch=12", "model=6,batch=2", "batch=6"}},
      {4, {"batch=8", "model=4,batch=2", "batch=4,model=1", "batch=12"}}};
  for (const auto& [domains, meshes] : trials) {
    for (bool shards_state : {false, true}) {
      const Ends ends = MakeEnds(domains, std::chrono::seconds(20));
      std::vector<std::thread> threads;
      for (const std::unique_ptr<Transport>& end : ends) {
        if (end == nullptr) continue;
        threads.emplace_back([&, meshes = meshes] { TrainOn(*end, meshes, shards_state); });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

}  // namespace
}  // namespace meshwork::remesh_test
