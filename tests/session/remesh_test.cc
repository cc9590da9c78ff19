// Sessions that go on on another mesh.
#include "meshwork/session/remesh.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/text.h"
#include "runtime/plan/programs.h"
#include "support/counted_end.h"
#include "support/in_domains.h"
#include "train/classifier.h"

namespace meshwork::remesh_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 24;

// 10-24-7-4 with Adam, in floats: rows over `batch`; columns, then rows of the kernels over `model`.
Graph Mlp(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  Value x = g.Input("x", F32, {kRows, 10}, {batch, UNSHARDED});
  Value y = g.Input("y", I32, {kRows}, {batch});
  Dense first(g, "first", 10, 24, {.kernel_layout = {UNSHARDED, model}, .bias_layout = {model}});
  Dense second(g, "second", 24, 7, {.kernel_layout = {model, UNSHARDED}});
  Dense third(g, "third", 7, 4, {.kernel_layout = {UNSHARDED, UNSHARDED}});
  Value loss = SparseSoftmaxCrossEntropy(third(Tanh(second(Relu(first(x))))), y);
  Adam({.learning_rate = 0.05}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}
// Layouts over `model`, for a session that begins on a mesh without it.
const NamedLayouts& OverModel() {
  static const auto* const layouts = new NamedLayouts{{"first/kernel", {UNSHARDED, "model"}},
                                                      {"first/bias", {"model"}},
                                                      {"second/kernel", {"model", UNSHARDED}}};
  return *layouts;
}

Feeds MlpFeeds(int64_t rows = kRows) {
  static const Tensor x = Rough(Type{F32, {kRows, 10}});
  static const Tensor y = [] {
    Tensor labels({I32, {kRows}});
    for (int64_t i = 0; i < kRows; ++i) labels.mutable_values<int32_t>()[i] = static_cast<int32_t>(i * 7 % 4);
    return labels;
  }();
  return {{"x", x.Rows(0, rows)}, {"y", y.Rows(0, rows)}};
}

SessionOptions ForDomain(Transport* transport, bool shards_state = false) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.compile.shard_weight_update = shards_state;
  options.executor.poison_padding = options.executor.check_replicas = true;
  options.executor.transport = transport;
  return options;
}

void TrainSteps(Session& session, int steps) {
  for (int i = 0; i < steps; ++i) ASSERT_EQ(MessageOf(session.Run(MlpFeeds()).status()), "");
}

// The bytes that each domain needs for the new tensors and does not hold in the old ones. Compares blocks of devices:
// layouts may not be strided.
int64_t LeastMovedBytes(const std::map<std::string, DTensor>& old,
                        const std::map<std::string, DTensor>& next) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : next) {
    const DTensor& before = old.at(name);
    const auto elements = [&](const DTensor& of, int64_t domain) {
      std::set<std::vector<int64_t>> held;
      const Placement& placement = of.domain().placement();
      for (int64_t d = 0; d < placement.devices_per_domain(); ++d) {
        const Block block = of.layout().BlockOf(of.type().shape, placement.FirstDevice(domain) + d);
        MESHWORK_CHECK(block.size() <= 2 && !of.layout().is_strided());
        const Extent rows = block.empty() ? Extent{0, 1} : block[0],
                     columns = block.size() < 2 ? Extent{0, 1} : block[1];
        for (int64_t r = 0; r < rows.size; ++r)
          for (int64_t c = 0; c < columns.size; ++c) held.insert({rows.start + r, columns.start + c});
      }
      return held;
    };
    for (int64_t domain = 0; domain < tensor.domain().placement().num_domains(); ++domain) {
      const std::set<std::vector<int64_t>> has = elements(before, domain);
      for (const std::vector<int64_t>& element : elements(tensor, domain))
        bytes += has.contains(element) ? 0 : DTypeSize(tensor.type().dtype);
    }
  }
  return bytes;
}

// Trains on each of the meshes in turn. After each move, all variables keep their bits; only the bytes that have to
// cross have crossed; and training goes on as in a session that was made on that mesh.
void ExpectGoesOn(int64_t domains, const std::vector<std::string>& meshes, bool shards_state,
                  const RemeshOptions& options = {}) {
  std::vector<RemeshReport> reports(meshes.size());
  std::vector<int64_t> least(meshes.size());
  std::atomic<int64_t> bytes[8] = {};
  InDomainsOf(domains, [&](Transport* end) {
    std::unique_ptr<CountedEnd> counted;
    if (end != nullptr) counted = std::make_unique<CountedEnd>(*end);
    Session session = Session::Create(Mlp(meshes[0]), ForDomain(counted.get(), shards_state)).value();
    TrainSteps(session, 3);
    for (size_t m = 1; m < meshes.size(); ++m) {
      SCOPED_TRACE(fmt::format("{} to {}, {} domains", meshes[m - 1], meshes[m], domains));
      const Tensors before = StateOf(session);
      const int64_t sent_before = counted == nullptr ? 0 : counted->bytes();
      const std::map<std::string, DTensor> old_state = session.State();
      const bool has_model = meshes[m].find("model") != std::string::npos;
      const absl::StatusOr<RemeshReport> report =
          session.Remesh(Mesh::Parse(meshes[m]).value(), has_model ? OverModel() : NamedLayouts{}, options);
      ASSERT_EQ(MessageOf(report.status()), "");
      const int64_t sent_now = (counted == nullptr ? 0 : counted->bytes()) - sent_before;
      EXPECT_EQ(sent_now, report->sent_bytes);
      bytes[m] += sent_now;
      if (end == nullptr || end->domain() == 0) {
        reports[m] = *report;
        least[m] = LeastMovedBytes(old_state, session.State());
      }
      const Tensors after = StateOf(session);
      ExpectBitwiseEqual(before, after);
      EXPECT_EQ(after.size(), 19u) << "six weights, two slots each, and the number of the step";
      EXPECT_EQ(session.program().sharded_state.empty(), !shards_state);

      Session there = Session::Create(Mlp(meshes[m]), ForDomain(counted.get(), shards_state)).value();
      EXPECT_EQ(PrintGraph(session.program().body), PrintGraph(there.program().body));
      for (const auto& [name, value] : after) ASSERT_EQ(MessageOf(there.Set(name, value)), "");
      for (int64_t rows : {kRows, int64_t{5}, kRows}) {
        const StepResult here = session.Run(MlpFeeds(rows)).value(),
                         other = there.Run(MlpFeeds(rows)).value();
        EXPECT_TRUE(BitwiseEqual(here.Get("loss").value(), other.Get("loss").value()));
      }
      ExpectBitwiseEqual(StateOf(session), StateOf(there));
    }
  });
  for (size_t m = 1; m < meshes.size(); ++m) {
    EXPECT_EQ(bytes[m], reports[m].total_bytes);
    EXPECT_EQ(bytes[m], least[m]) << meshes[m] << " in " << domains;
  }
}

TEST(RemeshTest, GoesOnFrom8To4By2To6Devices) {
  for (bool shards_state : {false, true})
    for (int64_t domains : {1, 2})
      ExpectGoesOn(domains, {"batch=8", "batch=4,model=2", "batch=6"}, shards_state);
}

TEST(RemeshTest, GoesOnInThreeDomains) {
  for (bool shards_state : {false, true})
    ExpectGoesOn(3, {"batch=12", "batch=6,model=2", "model=3,batch=2", "batch=3"}, shards_state);
}

TEST(RemeshTest, GoesOnALittleAtATime) {
  ExpectGoesOn(2, {"batch=4,model=2", "model=4,batch=2", "batch=2"}, true, {.max_bytes_in_flight = 1024});
}

// Initializers would take time and memory for nothing.
TEST(RemeshTest, RunsNoInitializer) {
  static std::atomic<int> built;
  built = 0;
  Graph g(Mesh::VirtualCpus("x=2").value());
  Initializer counts = Zeros({6});
  counts.build = [build = counts.build](Graph& graph, const Type& type, int64_t seed, int64_t stream) {
    ++built;
    return build(graph, type, seed, stream);
  };
  g.Output("y", Relu(g.Var("w", counts, {"x"})));
  Session session = Session::Create(g).value();
  const int before = built;
  EXPECT_GE(before, 1);
  ASSERT_EQ(MessageOf(session.Remesh(Mesh::Parse("x=3").value()).status()), "");
  EXPECT_EQ(built, before);
}

// The user may give another program with the same variables, here with other layouts.
TEST(RemeshTest, TakesAProgramOfTheUsers) {
  Session session = Session::Create(Mlp("batch=8"), ForDomain(nullptr)).value();
  TrainSteps(session, 2);
  const Tensors before = StateOf(session);
  Graph g = Mlp("batch=2,model=3");
  ASSERT_EQ(MessageOf(session.Remesh(g).status()), "");
  ExpectBitwiseEqual(before, StateOf(session));
  EXPECT_EQ(session.program().body.mesh().ToString(), "[batch=2, model=3]");
  EXPECT_EQ(session.State().at("adam/m/second/kernel").layout().ToString(), "{model,_}");
  TrainSteps(session, 1);
}

// A Remesh that is refused before anything moves changes nothing, in any domain.
TEST(RemeshTest, RefusalsLeaveTheSessionAsItWas) {
  InDomainsOf(2, [](Transport* end) {
    Session session = Session::Create(Mlp("batch=4,model=2"), ForDomain(end)).value();
    TrainSteps(session, 1);
    const Tensors before = StateOf(session);
    const Mesh six = Mesh::Parse("batch=6").value();
    // Two domains cannot share three devices.
    EXPECT_THAT(MessageOf(session.Remesh(Mesh::Parse("batch=3").value()).status()), HasSubstr("Placement: "));
    EXPECT_EQ(session.Remesh(six, {}, {.memory_budget = 100}).status().code(),
              absl::StatusCode::kResourceExhausted);
    // One domain asks for another mesh, or for a variable that does not exist.
    const NamedLayouts other =
        end->domain() == 1 ? NamedLayouts{{"third/kernl", {"batch", UNSHARDED}}} : NamedLayouts{};
    EXPECT_THAT(MessageOf(session.Remesh(six, other).status()), HasSubstr("third/kernl"));
    const absl::Status differ =
        session.Remesh(end->domain() == 1 ? six : Mesh::Parse("batch=2").value()).status();
    EXPECT_THAT(MessageOf(differ), HasSubstr("domain 1: the mesh [batch=6]"));
    // The same mesh, other layouts.
    const NamedLayouts cut = end->domain() == 1 ? NamedLayouts{{"third/bias", {"batch"}}} : NamedLayouts{};
    EXPECT_THAT(MessageOf(session.Remesh(six, cut).status()), HasSubstr("the domains differ"));
    ExpectBitwiseEqual(before, StateOf(session));
    TrainSteps(session, 1);
    EXPECT_TRUE(session.Remesh(six).ok());
    TrainSteps(session, 1);
  });
}

// If a domain fails while the state moves, the state is lost. All calls return an error, now and later.
TEST(RemeshTest, AnAbortLosesTheState) {
  class AbortsInTheSecondRound : public CountedEnd {
   public:
    using CountedEnd::CountedEnd;
    absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
      if (spec.where.starts_with("the move of") && ++rounds_ == 2)
        Abort(absl::UnavailableError("the cable is cut"));
      return CountedEnd::Prepare(std::move(spec));
    }

   private:
    int rounds_ = 0;
  };
  InDomainsOf(2, [](Transport* end) {
    AbortsInTheSecondRound cut(*end);
    Session session = Session::Create(Mlp("model=2,batch=2"), ForDomain(&cut)).value();
    const absl::Status status =
        session.Remesh(Mesh::Parse("batch=2,model=2").value(), {}, {.max_bytes_in_flight = 1024}).status();
    EXPECT_EQ(MessageOf(status), "the cable is cut");
    EXPECT_THAT(MessageOf(session.Run(MlpFeeds()).status()), HasSubstr("lost its state in a Remesh"));
    EXPECT_TRUE(session.State().empty());
  });
}

// ---- The program on another mesh.

std::string OnMeshText(const std::string& program, const std::string& mesh,
                       const NamedLayouts& layouts = {}) {
  const absl::StatusOr<Graph> graph =
      OnOtherMesh(ParseGraph(program).value(), Mesh::Parse(mesh).value(), layouts);
  return graph.ok() ? PrintGraph(*graph) : std::string(MessageOf(graph.status()));
}

TEST(OnOtherMeshTest, KeepsWhatTheMeshHas) {
  const std::string program =
      "mesh [batch=4, model=2*2]\n"
      "func step(%x: f32[8,6] {batch,?}, var %w: f32[6,4] {_,model}, var %v: f32[6,4] {model:(2)2,_}) {\n"
      "  %0 = matmul %x, %w : f32[8,4] {batch,_}\n"
      "  %1 = relayout %0 {MATCH,model:(1)2} : f32[8,4]\n"
      "  update %v = %w\n"
      "  return y=%1\n"
      "}\n";
  EXPECT_EQ(OnMeshText(program, "batch=4,model=2*2"), PrintGraph(ParseGraph(program).value()));
  EXPECT_EQ(OnMeshText(program, "batch=6"),
            "mesh [batch=6]\n"
            "func step(%x: f32[8,6] {batch,?},\n"
            "     var %w: f32[6,4] {_,_},\n"
            "     var %v: f32[6,4] {_,_}) {\n"
            "  %0 = matmul %x, %w : f32[8,4] {batch,_}\n"
            "  %1 = relayout %0 {MATCH,_} : f32[8,4]\n"
            "  update %v = %w\n"
            "  return y=%1\n"
            "}\n");
  // The axis is factored further if parts of it have names.
  EXPECT_EQ(OnMeshText(program, "model=8", {{"x", {"model", UNSHARDED}}}),
            "mesh [model=2*2*2]\n"
            "func step(%x: f32[8,6] {model,_},\n"
            "     var %w: f32[6,4] {_,model},\n"
            "     var %v: f32[6,4] {model:(2)2,_}) {\n"
            "  %0 = matmul %x, %w : f32[8,4] {_,_}\n"
            "  %1 = relayout %0 {MATCH,model:(1)2} : f32[8,4]\n"
            "  update %v = %w\n"
            "  return y=%1\n"
            "}\n");
}

TEST(OnOtherMeshTest, NamesAndPatternsGiveLayouts) {
  const auto layout_of = [](const Graph& graph, const std::string& name) {
    const ValueInfo& info = graph.value(graph.arguments()[graph.FindArgument(name)].value);
    return LayoutPin{*info.layout, info.modes}.ToString();
  };
  const Graph before = Mlp("batch=8");
  const Mesh mesh = Mesh::Parse("batch=2,model=3").value();
  Graph after = OnOtherMesh(before, mesh, OverModel()).value();
  EXPECT_EQ(PrintGraph(after), PrintGraph(Mlp("batch=2,model=3")));
  EXPECT_EQ(layout_of(after, "adam/v/first/kernel"), "{_,model}") << "state lies as its weight";
  // A pattern applies to tensors of its rank. The last match counts.
  after = OnOtherMesh(before, mesh,
                      {{"*", {"model", UNSHARDED}},
                       {"*d/*", {"batch", "model"}},
                       {"adam/m/third/kernel", {OPEN, "model"}}})
              .value();
  EXPECT_EQ(layout_of(after, "x"), "{model,_}");
  EXPECT_EQ(layout_of(after, "first/kernel"), "{model,_}");
  EXPECT_EQ(layout_of(after, "second/kernel"), "{batch,model}");
  EXPECT_EQ(layout_of(after, "adam/v/third/kernel"), "{batch,model}");
  EXPECT_EQ(layout_of(after, "adam/m/third/kernel"), "{?,model}");
  EXPECT_EQ(layout_of(after, "third/bias"), "{_}");
}

TEST(OnOtherMeshTest, GoesIntoBodies) {
  const std::string text = OnMeshText(
      "mesh [x=2, y=2]\n"
      "func f(%a: f32[4,4] {x,y}) {\n"
      "  %r = scan %a length=3 slices=0 (var %c: f32[4,4]) {\n"
      "    %0 = exp %c : f32[4,4] {x,y}\n"
      "    update %c = %0\n"
      "  }\n"
      "  return r=%r\n"
      "}\n",
      "x=3");
  EXPECT_THAT(text, HasSubstr("mesh [x=3]\n"));
  EXPECT_THAT(text, HasSubstr("%0 = exp %c : f32[4,4] {x,_}"));
  EXPECT_TRUE(ParseGraph(text).ok()) << text;
}

}  // namespace
}  // namespace meshwork::remesh_test
