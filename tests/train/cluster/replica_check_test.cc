#include "meshwork/train/cluster/replica_check.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "runtime/plan/programs.h"
#include "support/in_domains.h"
#include "support/tensors.h"

namespace meshwork::replica_check_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using State = std::map<std::string, DTensor>;

// Calls play(domain, end) in each domain, on a thread of its own. What each of them returns.
std::vector<absl::Status> PlayInDomains(int64_t num_domains,
                                        const std::function<absl::Status(int64_t, Transport*)>& play) {
  if (num_domains == 1) return {play(0, nullptr)};
  std::vector<absl::Status> statuses(static_cast<size_t>(num_domains));
  InDomains(num_domains,
            [&](Transport& end) { statuses[static_cast<size_t>(end.domain())] = play(end.domain(), &end); });
  return statuses;
}

std::vector<absl::Status> Check(const std::vector<State>& states, int64_t step = 17) {
  return PlayInDomains(std::ssize(states), [&](int64_t domain, Transport* end) {
    return CheckReplicas(states[static_cast<size_t>(domain)], step, end,
                         fmt::format("worker {} on host-{}", domain, domain));
  });
}

// ---- Random layouts, with flipped bits.

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  Layout DrawLayout(const Mesh& mesh, int rank) {
    std::vector<AxisList> dims(static_cast<size_t>(rank));
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      if (rank > 0 && Below(2) == 0) dims[static_cast<size_t>(Below(rank))].push_back(axis);
    for (AxisList& axes : dims)
      if (axes.size() > 1 && Below(2) == 0) std::swap(axes.front(), axes.back());
    return Layout(mesh, std::move(dims));
  }

  Type DrawType() {
    Type type{kAllDTypes[Below(std::size(kAllDTypes))], {}};
    for (int64_t dims = Below(4); dims > 0; --dims) type.shape.push_back(1 + Below(9));
    return type;
  }

  // The state of all domains, with arbitrary bytes in the padding.
  std::vector<State> DrawState(const Placement& placement) {
    std::vector<State> states(static_cast<size_t>(placement.num_domains()));
    const bool share = Below(3) > 0;
    for (int v = 0; v < 4; ++v) {
      const Type type = DrawType();
      const Layout layout = DrawLayout(placement.mesh(), type.rank());
      Tensor host(type);
      auto* bytes = static_cast<unsigned char*>(host.raw());
      for (int64_t i = 0; i < host.bytes(); ++i) bytes[i] = static_cast<unsigned char>(random_());
      for (size_t d = 0; d < states.size(); ++d) {
        DTensor tensor(Domain(placement, static_cast<int64_t>(d)), CpuMemory(), type, layout, share);
        for (int64_t i = 0; i < tensor.bytes(); ++i)
          tensor.instance(0)[i] = static_cast<std::byte>(random_());
        EXPECT_TRUE(Pack(host, tensor, /*poison_padding=*/false).ok());
        states[d].emplace(fmt::format("v{}", v), std::move(tensor));
      }
    }
    return states;
  }

 private:
  std::mt19937_64 random_;
};

// Where the elements that an instance holds begin; each element once.
std::vector<std::byte*> ElementsOf(DTensor& tensor, int64_t instance) {
  const Shape local = tensor.local_type().shape;
  const int64_t device = tensor.instances().Representative(instance);
  std::vector<std::byte*> elements;
  Shape index(local.size(), 0);
  for (int64_t i = 0; i < NumElements(local); ++i) {
    if (tensor.layout().IsHeld(tensor.type().shape, device, index))
      elements.push_back(tensor.instance(instance) + i * DTypeSize(tensor.type().dtype));
    for (size_t d = local.size(); d-- > 0 && ++index[d] == local[d];) index[d] = 0;
  }
  return elements;
}

// How many buffers hold the block of `device`, in all domains.
int64_t CountReplicas(const std::vector<State>& states, const std::string& name, int64_t device) {
  int64_t count = 0;
  for (const State& state : states) {
    const DTensor& tensor = state.at(name);
    for (int64_t i = 0; i < tensor.instances().count(); ++i)
      count += tensor.block(i) == tensor.layout().BlockOf(tensor.type().shape, device) ? 1 : 0;
  }
  return count;
}

constexpr std::pair<const char*, int64_t> kPlacements[] = {
    {"a=2,b=3", 1}, {"a=2,b=3", 2}, {"a=4", 2},         {"a=4,b=2", 4},     {"a=3,b=2", 3}, {"a=6,b=1", 3},
    {"a=6", 2},     {"a=1,b=4", 2}, {"a=2,b=2,c=2", 2}, {"a=2,b=2,c=2", 4}, {"a=3", 3},     {"a=2,b=2", 1}};

// No false alarm, whatever the padding holds. A flipped bit is found if another replica exists to compare with.
TEST(ReplicaCheckTest, AFlippedBitIsFoundAndNamed) {
  int found = 0, alone = 0, named = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Drawer drawer(seed);
    const auto& [mesh, domains] = kPlacements[seed % std::size(kPlacements)];
    const Placement placement = Placement::Create(Mesh::Parse(mesh).value(), domains).value();
    std::vector<State> states = drawer.DrawState(placement);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, placement.ToString()));
    for (const absl::Status& status : Check(states)) ASSERT_EQ(MessageOf(status), "");
    for (int flip = 0; flip < 6; ++flip) {
      const int64_t domain = drawer.Below(domains);
      const std::string name = fmt::format("v{}", drawer.Below(4));
      DTensor& tensor = states[static_cast<size_t>(domain)].at(name);
      const int64_t instance = drawer.Below(tensor.instances().count());
      const std::vector<std::byte*> elements = ElementsOf(tensor, instance);
      if (elements.empty()) continue;
      const int64_t device = tensor.instances().Representative(instance);
      const int64_t replicas = CountReplicas(states, name, device);
      std::byte& byte = elements[static_cast<size_t>(drawer.Below(std::ssize(elements)))]
                                [drawer.Below(DTypeSize(tensor.type().dtype))];
      const auto bit = static_cast<std::byte>(1 << drawer.Below(8));
      byte ^= bit;
      const std::vector<absl::Status> statuses = Check(states);
      byte ^= bit;
      if (replicas == 1) {
        for (const absl::Status& status : statuses) ASSERT_EQ(MessageOf(status), "");
        ++alone;
        continue;
      }
      ++found;
      for (const absl::Status& status : statuses) {
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << MessageOf(status);
        EXPECT_EQ(MessageOf(status), MessageOf(statuses[0]));
      }
      const std::string message(MessageOf(statuses[0]));
      EXPECT_THAT(message,
                  StartsWith(fmt::format("Replicas: variable \"{}\", {} {} on {}, differs at step 17: device",
                                         name, tensor.type().ToString(), tensor.layout().ToString(),
                                         placement.mesh().ToString())));
      EXPECT_THAT(message, HasSubstr(fmt::format(" of worker {} on host-{} hold", domain, domain)));
      if (replicas > 2) {
        ++named;
        EXPECT_THAT(message, HasSubstr(fmt::format(", the other {} replicas hold ", replicas - 1)));
        EXPECT_EQ(message.find(" on host-"), message.rfind(" on host-"));
        // The first device that holds it is named first.
        EXPECT_THAT(message, testing::ContainsRegex(fmt::format("17: devices? {}[-, ]", device)));
      }
    }
    for (const absl::Status& status : Check(states)) ASSERT_EQ(MessageOf(status), "");
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(alone, 20);
  EXPECT_GT(named, 30);
}

// ---- Messages.

State OneVariable(const Placement& placement, int64_t domain, const std::string& layout, bool share = true,
                  const Type& type = {F32, {4, 6}}) {
  DTensor tensor(Domain(placement, domain), CpuMemory(), type,
                 Layout::Parse(placement.mesh(), layout).value(), share);
  EXPECT_TRUE(Pack(Rough(type), tensor).ok());
  return {{"w", std::move(tensor)}};
}

std::vector<State> InEach(const std::string& mesh, int64_t domains, const std::string& layout,
                          bool share = true) {
  const Placement placement = Placement::Create(Mesh::Parse(mesh).value(), domains).value();
  std::vector<State> states;
  for (int64_t d = 0; d < domains; ++d) states.push_back(OneVariable(placement, d, layout, share));
  return states;
}

float& FirstOf(State& state, int64_t instance = 0) {
  return *reinterpret_cast<float*>(state.at("w").instance(instance));
}

std::string WithoutHashes(const absl::Status& status) {
  std::string text(MessageOf(status));
  for (size_t at = 0; at + 16 <= text.size(); ++at)
    if (text.substr(at, 16).find_first_not_of("0123456789abcdef") == std::string::npos)
      text.replace(at, 16, "#");
  return text;
}

TEST(ReplicaCheckTest, TwoProcessesAreBothNamed) {
  std::vector<State> states = InEach("batch=8", 2, "{_,_}");
  FirstOf(states[1]) += 1;
  for (const absl::Status& status : Check(states, 120))
    EXPECT_EQ(
        WithoutHashes(status),
        "Replicas: variable \"w\", f32[4,6] {_,_} on [batch=2*4], differs at step 120: devices 0-3 of worker 0 on "
        "host-0 hold #, devices 4-7 of worker 1 on host-1 hold #; memory may be bad, or a kernel may not give the "
        "same bits everywhere; go on from the checkpoint before.");
}

TEST(ReplicaCheckTest, OfManyTheFewAreNamed) {
  std::vector<State> states = InEach("batch=4,model=2", 4, "{_,model}");
  FirstOf(states[2], /*instance=*/1) += 1;
  for (const absl::Status& status : Check(states))
    EXPECT_THAT(WithoutHashes(status),
                HasSubstr(": device 5 of worker 2 on host-2 holds #, the other 3 replicas hold #; "));
  // Two replicas differ from two others.
  FirstOf(states[0], 1) = FirstOf(states[2], 1);
  for (const absl::Status& status : Check(states))
    EXPECT_THAT(
        WithoutHashes(status),
        HasSubstr(
            ": device 1 of worker 0 on host-0 and device 5 of worker 2 on host-2 hold #, device 3 of worker 1 "
            "on host-1 and device 7 of worker 3 on host-3 hold #; "));
}

TEST(ReplicaCheckTest, DevicesOfOneProcessAreCompared) {
  std::vector<State> states = InEach("x=2,y=4", 1, "{x,_}", /*share=*/false);
  const int64_t instance = states[0].at("w").instances().Of(6);
  FirstOf(states[0], instance) += 1;
  EXPECT_THAT(WithoutHashes(Check(states)[0]),
              HasSubstr(": device 6 of worker 0 on host-0 holds #, the other 3 replicas hold #; "));
  // All have one buffer.
  EXPECT_TRUE(Check(InEach("x=2,y=4", 1, "{x,_}"))[0].ok());
  EXPECT_THAT(MessageOf(CheckReplicas(states[0], 1)), HasSubstr("device 6 of domain 0 holds"));
}

TEST(ReplicaCheckTest, BitsAreCompared) {
  for (const auto& [one, other] : {std::pair(0.0F, -0.0F), std::pair(NAN, -NAN)}) {
    std::vector<State> states = InEach("batch=2", 2, "{_,_}");
    FirstOf(states[0]) = FirstOf(states[1]) = one;
    EXPECT_TRUE(Check(states)[0].ok());
    FirstOf(states[1]) = other;
    EXPECT_EQ(Check(states)[0].code(), absl::StatusCode::kDataLoss);
  }
}

TEST(ReplicaCheckTest, StridedBlocksAreCompared) {
  const std::string mesh = "x=2,y=2,z=2";
  std::vector<State> states = InEach(mesh, 2, "{_,3@y*2}");
  ASSERT_TRUE(Check(states)[0].ok());
  FirstOf(states[1], 1) += 1;
  EXPECT_THAT(WithoutHashes(Check(states)[0]),
              HasSubstr(": devices 2-3 of worker 0 on host-0 hold #, devices 6-7 of "));
}

TEST(ReplicaCheckTest, OthersThatDifferAreNamed) {
  const Placement placement = Placement::Create(Mesh::Parse("batch=2").value(), 2).value();
  std::vector<State> states(2);
  for (int64_t d = 0; d < 2; ++d)
    for (int v = 0; v < 9; ++v) {
      DTensor tensor = OneVariable(placement, d, "{_,_}").at("w");
      if (d == 1 && v % 2 == 1) *tensor.instance(0) ^= std::byte{1};
      states[static_cast<size_t>(d)].emplace(fmt::format("v{}", v), std::move(tensor));
    }
  EXPECT_THAT(MessageOf(Check(states)[0]),
              AllOf(StartsWith("Replicas: variable \"v1\", "),
                    HasSubstr("at step 17, as do \"v3\", \"v5\", \"v7\": device 0 of")));
}

// ---- Sessions.

// x: f32[8,6], y: i32[8] -> loss, by weights that are whole, over `model`, or in bf16.
Graph Perceptron(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", F32, {8, 6}, {"batch", UNSHARDED});
  Value y = g.Input("y", I32, {8}, {"batch"});
  Variable w = g.Var("w", GlorotUniform({6, 7}, F32), {UNSHARDED, "model"});
  Variable u = g.Var("u", GlorotUniform({7, 5}, BF16), {"model", UNSHARDED});
  Variable v = g.Var("v", GlorotUniform({5, 4}, F32), {UNSHARDED, UNSHARDED});
  Value loss = SparseSoftmaxCrossEntropy(MatMul(Cast(MatMul(Cast(Relu(MatMul(x, w)), BF16), u), F32), v), y);
  Adam({.learning_rate = 0.05}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

Feeds PerceptronFeeds() {
  return {{"x", Rough(Type{F32, {8, 6}})}, {"y", Tensor::From<int32_t>({8}, {0, 3, 1, 2, 2, 0, 1, 3})}};
}

TEST(ReplicaCheckTest, ATrainingIsNeverStoppedWithoutCause) {
  for (const std::string mesh :
       {"batch=4,model=2", "batch=2,model=3", "model=4,batch=1", "batch=3,model=1"}) {
    for (bool zero : {false, true}) {
      for (int64_t domains : {1, 2, 3}) {
        const Graph graph = Perceptron(mesh);
        if (!Placement::Create(graph.mesh(), domains).ok()) continue;
        SCOPED_TRACE(fmt::format("{} in {} domains, {}", mesh, domains, zero));
        const auto statuses = PlayInDomains(domains, [&](int64_t domain, Transport* end) -> absl::Status {
          SessionOptions options{.workers = 1, .own_cores = false};
          options.executor.transport = end;
          options.compile.shard_weight_update = zero;
          MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, options));
          MESHWORK_ASSIGN_OR_RETURN(const ReplicaCheck check,
                                    ReplicaCheck::Create({.every = 1, .transport = end}));
          for (int64_t step = 1; step <= 3; ++step) {
            MESHWORK_RETURN_IF_ERROR(session.Run(PerceptronFeeds()).status());
            MESHWORK_RETURN_IF_ERROR(check.AfterStep(step, session));
          }
          // Flips a bit of each variable: it is found if the variable has a replica in another domain.
          for (auto& [name, tensor] : session.State()) {
            DTensor copy = tensor;
            const bool is_elsewhere =
                !tensor.domain().placement().across().Minus(tensor.layout().ShardedAxes()).empty();
            for (std::byte* element : {ElementsOf(copy, 0).at(0)}) {
              if (domain == domains - 1) *element ^= std::byte{1};
              const absl::Status status = check.AfterStep(4, session);
              if (domain == domains - 1) *element ^= std::byte{1};
              EXPECT_EQ(status.code(), is_elsewhere ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk)
                  << name;
            }
          }
          return absl::OkStatus();
        });
        for (const absl::Status& status : statuses) EXPECT_EQ(MessageOf(status), "");
      }
    }
  }
}

TEST(ReplicaCheckTest, ChecksEveryNthStep) {
  const Graph graph = Perceptron("batch=2,model=1");
  const auto statuses = PlayInDomains(2, [&](int64_t domain, Transport* end) -> absl::Status {
    SessionOptions options{.workers = 1, .own_cores = false};
    options.executor.transport = end;
    MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, options));
    MESHWORK_ASSIGN_OR_RETURN(const ReplicaCheck check, ReplicaCheck::Create({.every = 3, .transport = end}));
    MESHWORK_ASSIGN_OR_RETURN(const ReplicaCheck never, ReplicaCheck::Create({.transport = end}));
    for (int64_t step = 1; step <= 12; ++step) {
      if (step == 7 && domain == 1) *session.State().at("v").instance(0) ^= std::byte{1};
      EXPECT_TRUE(never.AfterStep(step, session).ok());
      EXPECT_TRUE(ReplicaCheck().AfterStep(step, session).ok());
      if (const absl::Status status = check.AfterStep(step, session); !status.ok())
        return absl::Status(status.code(), fmt::format("{}: {}", step, MessageOf(status)));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(
      std::vector<std::string>({std::string(MessageOf(statuses[0])), std::string(MessageOf(statuses[1]))}),
      Each(AllOf(StartsWith("9: Replicas: variable \"v\", f32[5,4] {_,_} "),
                 HasSubstr(" at step 9: device 0 of "
                           "domain 0 holds "),
                 Not(HasSubstr("as do")))));
}

TEST(ReplicaCheckTest, DomainsCheckAlikeOrNotAtAll) {
  for (const absl::Status& status : PlayInDomains(2, [](int64_t domain, Transport*end) {
         return ReplicaCheck::Create({.every = domain, .transport = end}).status();
       }))
    EXPECT_EQ(
        MessageOf(status),
        "Transport: the domains differ: domain 0: the check of replicas every=0; domain 1: the check of replicas "
        "every=1.");
  // The domains check other variables, or another step.
  std::vector<State> states = InEach("batch=2", 2, "{_,_}");
  states[1].emplace("b", states[1].at("w"));
  for (const absl::Status& status : Check(states))
    EXPECT_THAT(MessageOf(status),
                StartsWith("Replicas: domains 0 and 1 do not check the same at step 17; "));
  states[1].erase("b");
  for (const absl::Status& status : PlayInDomains(2, [&](int64_t domain, Transport*end) {
         return CheckReplicas(states[static_cast<size_t>(domain)], domain, end);
       }))
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReplicaCheckTest, TheFlagSaysHowOften) {
  EXPECT_EQ(ParseReplicaCheck("off").value(), 0);
  EXPECT_EQ(ParseReplicaCheck("every=100").value(), 100);
  for (const char* text : {"", "on", "every", "every=", "every=0", "every=-3", "every=3 ", "every=3.5", "100",
                           "every=99999999999999999999"})
    EXPECT_FALSE(ParseReplicaCheck(text).ok()) << text;
}

}  // namespace
}  // namespace meshwork::replica_check_test
