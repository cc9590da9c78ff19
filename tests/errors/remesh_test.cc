// What Session::Remesh refuses.
#include <memory>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ops/control/manual.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"
#include "meshwork/train/nn/initializers.h"
#include "support/in_domains.h"

namespace meshwork::remesh_test {
namespace {

// w: f32[6,4], b: f32[4].
Graph Affine(std::string_view mesh, const LayoutSpec& layout = {UNSHARDED, UNSHARDED}) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", F32, {6, 6}, {UNSHARDED, UNSHARDED});
  Value w = g.Var("w", Zeros({6, 4}), layout);
  g.Output("y", MatMul(x, w) + g.Var("b", Zeros({4}), {UNSHARDED}));
  return g;
}

TEST(RemeshErrors, Sessions) {
  Session session = Session::Create(Affine("x=2")).value();
  const Mesh six = Mesh::Parse("x=6").value();
  const auto with = [&](NamedLayouts layouts) { return session.Remesh(six, layouts); };
  const auto of = [&](const std::vector<std::pair<std::string, Type>>& variables) {
    Graph g(six);
    for (const auto& [name, type] : variables)
      g.Var(name, Zeros(type.shape, type.dtype), LayoutSpec(type.shape.size(), UNSHARDED));
    return session.Remesh(g);
  };
  Graph computes_nothing(six);
  computes_nothing.Input("x", F32, {2}, {UNSHARDED});
  const auto by_hand = [&](CallSite loc = CallSite::Current()) {
    Graph g(Mesh::Parse("x=2").value());
    Value w = g.Var("w", Zeros({6, 4}), {"x", UNSHARDED});
    g.Output("y", manual::Region(
                      g, {w}, {{"x", UNSHARDED}}, {{UNSHARDED, UNSHARDED}},
                      [&](Graph&, const std::vector<Value>& block) -> std::vector<Value> {
                        return {manual::AllReduce(block[0], {"x"}, ReduceOp::kSum, loc)};
                      },
                      loc)[0]);
    return Session::Create(g)->Remesh(six);
  };
  Session cut = Session::Create(Affine("batch=2", {"batch", UNSHARDED})).value();
  Session other = Session::Create(Affine("x=2")).value();
  const Session moved = std::move(other);
  ExpectErrors("remesh", {
                             MISTAKE(with({{"v", {UNSHARDED}}})),
                             MISTAKE(with({{"bias", {UNSHARDED}}})),
                             MISTAKE(with({{"w", {UNSHARDED}}})),
                             MISTAKE(with({{"w*", {UNSHARDED}}})),
                             MISTAKE(with({{"v*", {UNSHARDED, "x"}}})),
                             MISTAKE(with({{"w", {"y", UNSHARDED}}})),
                             MISTAKE(with({{"w", {"x", "x"}}})),
                             MISTAKE(cut.Remesh(Mesh::Parse("bacth=2").value())),
                             MISTAKE(by_hand()),
                             MISTAKE(of({{"w", {F32, {6, 4}}}})),
                             MISTAKE(of({{"w", {F64, {6, 4}}}, {"b", {F32, {5}}}, {"c", {I32, {}}}})),
                             MISTAKE(session.Remesh(computes_nothing)),
                             MISTAKE(session.Remesh(six, {}, {.max_bytes_in_flight = 10})),
                             MISTAKE(session.Remesh(six, {}, {.memory_budget = -1})),
                             MISTAKE(session.Remesh(six, {}, {.memory_budget = 200})),
                             MISTAKE(other.Remesh(six)),
                         });
  EXPECT_TRUE(session.Remesh(six).ok()) << "it is as it was";
}

TEST(RemeshErrors, SharedVariables) {
  const auto declares = [](std::string_view mesh, const Type& type, bool updates = false) {
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Variable w = g.Var("w", Zeros(type.shape, type.dtype), LayoutSpec(type.shape.size(), UNSHARDED));
    g.Output("y", w);
    if (updates) g.Update(w, w);
    return g;
  };
  Session session = Session::Create(Affine("x=2")).value();
  const Session atomic = Session::Create(Affine("x=2"), {.executor = {.atomic = true}}).value();
  const Session shared = session.Share(declares("x=2", {F32, {6, 4}})).value();
  Session ended = Session::Create(Affine("x=2")).value();
  const Session moved = std::move(ended);
  ExpectErrors("share", {
                            MISTAKE(session.Share(declares("x=2", {F64, {6, 4}}))),
                            MISTAKE(session.Share(declares("x=4", {F32, {6, 4}}))),
                            MISTAKE(atomic.Share(declares("x=2", {F32, {6, 4}}, true))),
                            MISTAKE(session.Share(Graph(Mesh::VirtualCpus("x=2").value()))),
                            MISTAKE(ended.Share(declares("x=2", {F32, {6, 4}}))),
                            MISTAKE(session.Remesh(Mesh::Parse("x=6").value())),
                        });
}

// The message of either domain.
TEST(RemeshErrors, Domains) {
  const auto in_domains = [](int64_t asked, const std::string& mesh, const std::string& other_mesh) {
    std::vector<absl::Status> statuses(2);
    InDomains(2, [&](Transport& end) {
      SessionOptions options{.workers = 1, .own_cores = false};
      options.executor.transport = &end;
      Session session = Session::Create(Affine("x=4", {"x", UNSHARDED}), options).value();
      statuses[static_cast<size_t>(end.domain())] =
          session.Remesh(Mesh::Parse(end.domain() == 0 ? mesh : other_mesh).value()).status();
    });
    return statuses[static_cast<size_t>(asked)];
  };
  ExpectErrors("remesh_domains", {
                                     MISTAKE(in_domains(0, "x=3", "x=3")),
                                     MISTAKE(in_domains(1, "x=2", "x=6")),
                                 });
}

}  // namespace
}  // namespace meshwork::remesh_test
