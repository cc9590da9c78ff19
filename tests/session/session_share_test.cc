// Sessions of several programs over one set of variables (Session::Share).
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::session_share_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One step of gradient descent: w - 0.5 x.
Graph Trainer(const Mesh& mesh, const LayoutSpec& layout = {}) {
  Graph g(mesh);
  const Variable w = g.Var("w", Filled(4, {6}, F64), layout);
  const Value x = g.Input("x", F64, {6});
  g.Update(w, w - x * 0.5);
  g.Output("old", ReduceSum(w * x, {0}));
  return g;
}

// Reads w and counts how often.
Graph Reader(const Mesh& mesh, DType dtype = F64) {
  Graph g(mesh);
  const Variable w = g.Var("w", Zeros({6}, dtype));
  const Variable count = g.Var("count", Filled(10, {}, F64));
  g.Update(count, count + 1.0);
  g.Output("twice", w * 2.0);
  g.Output("count", count);
  return g;
}

Tensor Ones() { return Tensor::From<double>({6}, {1, 1, 1, 1, 1, 1}); }

TEST(ShareTest, ProgramsSeeEachOthersUpdates) {
  for (const char* text : {"x=1", "x=2", "x=4"}) {
    const Mesh mesh = Mesh::VirtualCpus(text).value();
    Session trainer = Session::Create(Trainer(mesh, {"x"})).value();
    absl::StatusOr<Session> reader = trainer.Share(Reader(mesh));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->LayoutOf("w").value(), trainer.LayoutOf("w").value());
    EXPECT_EQ(reader->State().at("w").instance(0), trainer.State().at("w").instance(0));
    const auto twice = [&] { return reader->Run({})->Get("twice").value(); };
    EXPECT_THAT(twice().values<double>(), ElementsAre(8, 8, 8, 8, 8, 8));
    ASSERT_TRUE(trainer.Run({{"x", Ones()}}).ok());
    EXPECT_THAT(twice().values<double>(), ElementsAre(7, 7, 7, 7, 7, 7));
    ASSERT_TRUE(reader->Set("w", Ones()).ok());
    EXPECT_EQ(trainer.Run({{"x", Ones()}})->scalar("old").value(), 6);
    EXPECT_EQ(reader->Run({})->scalar("count").value(), 12);
    EXPECT_EQ(trainer.variable_names(), std::vector<std::string>{"w"});
    EXPECT_EQ(trainer.steps_done(), 2);
    EXPECT_EQ(reader->steps_done(), 3);
  }
}

TEST(ShareTest, EitherMayEndFirst) {
  const Mesh mesh = Mesh::VirtualCpus("x=2").value();
  std::optional<Session> trainer = Session::Create(Trainer(mesh)).value();
  std::optional<Session> first = trainer->Share(Reader(mesh)).value(),
                         second = first->Share(Reader(mesh)).value();
  first.reset();
  ASSERT_TRUE(trainer->Run({{"x", Ones()}}).ok());
  trainer.reset();
  EXPECT_THAT(second->Run({})->Get("twice")->values<double>(), ElementsAre(7, 7, 7, 7, 7, 7));
}

// The mesh that the first program has cut is the other's, too.
TEST(ShareTest, VariablesStayWhereTheyLie) {
  const Mesh mesh = Mesh::VirtualCpus("x=4").value();
  Graph g(mesh);
  const Variable w = g.Var("w", Filled(1, {8, 3}, F64), {"x", UNSHARDED});
  g.Output("y", ReduceSum(Reshape(w, {2, 4, 3}), {1}));
  g.Update(w, w + Reshape(Constant(g, 1, {F64, {2, 4, 3}}), {8, 3}));
  Session session = Session::Create(g).value();
  Graph other(mesh);
  const Variable v = other.Var("w", Zeros({8, 3}, F64));
  other.Output("sum", ReduceSum(v, {0, 1}));
  Session shared = session.Share(other).value();
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_EQ(shared.Evaluate({})->scalar("sum").value(), 48);
  EXPECT_EQ(shared.LayoutOf("w").value(), session.LayoutOf("w").value());
}

TEST(ShareTest, ACacheIsWrittenInPlaceAndReadByAnother) {
  const Mesh mesh = Mesh::VirtualCpus("x=2").value();
  Graph g(mesh);
  const Variable cache = g.Var("cache", Zeros({2, 100, 4}), {UNSHARDED, UNSHARDED, "x"});
  const Value at = g.Input("at", I32, {2, 1}), row = g.Input("row", F32, {2, 1, 4});
  g.Update(cache, DynamicUpdateSlice(cache, row, at, {1}));
  Session writer = Session::Create(g).value();
  Graph r(mesh);
  r.Output("sums", ReduceSum(r.Var("cache", Zeros({2, 100, 4})), {2}));
  Session reader = writer.Share(r).value();
  // Nothing but the cache itself is as large as it.
  const ExecutorMemory& memory = writer.memory();
  EXPECT_LT(memory.total_bytes() - memory.variable_bytes, 2 * 100 * 4 * 4 / 2);
  for (int32_t t = 0; t < 3; ++t)
    ASSERT_TRUE(writer
                    .Run({{"at", Tensor::From<int32_t>({2, 1}, {t, 99 - t})},
                          {"row", Tensor::From<float>({2, 1, 4}, {1, 1, 1, 1, 2, 2, 2, 2})}})
                    .ok());
  const Tensor sums = reader.Evaluate({})->Get("sums").value();
  for (size_t i = 0; i < 200; ++i) {
    const size_t place = i % 100;
    EXPECT_EQ(sums.values<float>()[i], i < 100 ? (place < 3 ? 4 : 0) : (place > 96 ? 8 : 0)) << i;
  }
}

TEST(ShareTest, ServesOneCallAtATime) {
  const Mesh mesh;
  Graph g(mesh);
  g.Output("y", g.Var("w", Zeros({4})) + 1.0);
  Session session = Session::Create(g).value(), other = session.Share(g).value();
  std::vector<std::thread> threads;
  std::atomic<int> refused = 0, served = 0;
  for (Session* s : {&session, &other})
    threads.emplace_back([&, s] {
      for (int i = 0; i < 200; ++i) {
        const absl::StatusOr<StepResult> result = s->Evaluate({});
        if (result.ok()) ++served;
        else if (absl::IsFailedPrecondition(result.status())) ++refused;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served + refused, 400);
  EXPECT_GE(served, 1);
}

TEST(ShareTest, Refuses) {
  const Mesh mesh = Mesh::VirtualCpus("x=2").value();
  Session trainer = Session::Create(Trainer(mesh)).value();
  EXPECT_EQ(
      trainer.Share(Reader(mesh, F32)).status().message(),
      "Share: the program has variables of the session in other types: \"w\" is f32[6] and must be f64[6].");
  EXPECT_EQ(trainer.Share(Reader(Mesh::VirtualCpus("x=4").value())).status().message(),
            "Share: the program is for the mesh [x=4], and the session's variables lie on [x=2].");
  Session reader = trainer.Share(Reader(mesh)).value();
  EXPECT_EQ(trainer.Remesh(Mesh::VirtualCpus("x=3").value()).status().message(),
            "Remesh: another session shares the variables (Session::Share); end it first.");
  EXPECT_FALSE(reader.Remesh(Mesh::VirtualCpus("x=3").value()).ok());
  { const Session ended = std::move(reader); }
  EXPECT_TRUE(trainer.Remesh(Mesh::VirtualCpus("x=3").value()).ok());
  Session atomic = Session::Create(Trainer(mesh), {.executor = {.atomic = true}}).value();
  const Session of_atomic = atomic.Share(Reader(mesh)).value();
  for (const Session* session : {static_cast<const Session*>(&atomic), &of_atomic}) {
    EXPECT_THAT(std::string(session->Share(Trainer(mesh)).status().message()),
                HasSubstr("Share: the program updates \"w\", whose session has options.executor.atomic"));
  }
}

// Steps that take effect as a whole write elsewhere; who shares the variables follows them, also back.
TEST(ShareTest, FollowsAtomicSteps) {
  const Mesh mesh = Mesh::VirtualCpus("x=2").value();
  Session trainer = Session::Create(Trainer(mesh), {.executor = {.atomic = true}}).value();
  Session reader = trainer.Share(Reader(mesh)).value();
  const auto first = [&] { return reader.Run({})->Get("twice")->values<double>()[0]; };
  EXPECT_EQ(first(), 8);
  ASSERT_TRUE(trainer.Run({{"x", Ones()}}).ok());
  EXPECT_EQ(first(), 7);
  ASSERT_TRUE(trainer.Run({{"x", Ones()}}).ok());
  EXPECT_EQ(first(), 6);
  ASSERT_TRUE(trainer.Undo().ok());
  EXPECT_EQ(first(), 7);
}

// An input is no variable, whatever its name.
TEST(ShareTest, AnInputSharesNothing) {
  const Mesh mesh;
  Session trainer = Session::Create(Trainer(mesh)).value();
  Graph g(mesh);
  g.Output("y", g.Input("w", F64, {6}) + g.Var("b", Filled(1, {6}, F64)));
  Session other = trainer.Share(g).value();
  EXPECT_EQ(other.variable_names(), std::vector<std::string>{"b"});
  EXPECT_EQ(other.State().size(), 1);
  const Tensor y = other.Run({{"w", Ones()}})->Get("y").value();
  EXPECT_THAT(y.values<double>(), ElementsAre(2, 2, 2, 2, 2, 2));
}

}  // namespace
}  // namespace meshwork::session_share_test
