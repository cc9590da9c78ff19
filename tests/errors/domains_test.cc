// Messages about programs on several domains, and about DTensors that are bound to a step.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "errors/other_memory.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/transport/loopback.h"
#include "runtime/plan/programs.h"

namespace meshwork::domains_test {
namespace {

constexpr std::string_view kStep = R"(mesh [x=2]
func step(%a: f32[2] of f32[4] {x}, var %w: f32[] {}) {
  %b = add %a, %a : f32[2] of f32[4] {x}
  %n = add %w, %w : f32[] of f32[] {}
  update %w = %n
  return b=%b, n=%n
})";

Program OnDomains(Program program, int64_t num_domains) {
  program.num_domains = num_domains;
  return program;
}

TEST(DomainErrors, Programs) {
  const Program one = ParseProgram(kStep), two = OnDomains(one, 2);
  const Program uncut =
      OnDomains(ParseProgram("mesh [x=4]\nfunc step(%a: f32[1] of f32[4] {x}) { return b=%a }"), 2);
  CpuBackend backend(1);
  std::map<std::string, DTensor> state, elsewhere;
  // The other domains do not exist; the deadline is short.
  const LoopbackOptions alone{.deadline = std::chrono::milliseconds(1)};
  const auto ends = MakeLoopback(2, alone), three = MakeLoopback(3, alone);
  const Domain second(Placement::Create(one.body.mesh(), 2).value(), 1);
  elsewhere.emplace("w",
                    DTensor(second, CpuMemory(), {F32, {}}, Layout::Parse(one.body.mesh(), "{}").value()));
  std::map<std::string, DTensor> on_gpu;
  on_gpu.emplace(
      "w", DTensor(std::make_shared<OtherMemory>(), {F32, {}}, Layout::Parse(one.body.mesh(), "{}").value()));
  auto create = [&](const Program& program, Transport* transport, const std::set<std::string>& distributed,
                    std::map<std::string, DTensor>* variables = nullptr) {
    return Executor::Create(program, backend, {.transport = transport, .distributed = distributed},
                            variables != nullptr ? variables : &state);
  };
  ExpectErrors("domains", {
                              MISTAKE(create(two, nullptr, {"b"})),
                              MISTAKE(create(one, ends[0].get(), {"b"})),
                              MISTAKE(create(two, three[0].get(), {"b"})),
                              MISTAKE(create(uncut, ends[0].get(), {"b"})),
                              MISTAKE(create(two, ends[0].get(), {})),
                              MISTAKE(create(one, nullptr, {"c"})),
                              MISTAKE(create(one, nullptr, {"step"})),
                              MISTAKE(create(two, ends[0].get(), {"b"}, &elsewhere)),
                              MISTAKE(create(one, nullptr, {}, &on_gpu)),
                          });
}

// Worker threads that two domains share.
TEST(DomainErrors, Backends) {
  const Program program = ParseProgram(kStep);
  WorkerPool pool(1);
  CpuBackend first(pool), second(pool);
  const auto here = MakeLoopback(1), there = MakeLoopback(1);
  std::map<std::string, DTensor> state, other;
  const auto executor = Executor::Create(program, first, {.transport = here[0].get()}, &state).value();
  ExpectErrors("domains_backends",
               {
                   MISTAKE(Executor::Create(program, second, {.transport = there[0].get()}, &other)),
               });
  // A domain may have many executors.
  EXPECT_TRUE(Executor::Create(program, second, {.transport = here[0].get()}, &state).ok());
}

TEST(DomainErrors, InPlace) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(%a: f32[2] of f32[4] {x}, %c: f32[4] of f32[4] {_}) {
  %b = add %a, %a : f32[2] of f32[4] {x}
  return b=%b, d=%b
})");
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  const std::set<std::string> all = {"a", "b", "c", "d"};
  auto create = [&](const InPlace& in_place, const std::set<std::string>& distributed) {
    return Executor::Create(program, backend, {.distributed = distributed, .in_place = in_place}, &state);
  };
  const auto executor = create({{"b", "a"}}, all).value();
  const DTensor a = executor->NewFeed("a").value(), b = executor->NewOutput("b").value();
  const DTensor c = executor->NewFeed("c").value();
  using Parts = std::map<std::string, DTensor>;
  auto bind = [&](const Parts& outputs) {
    return executor->Bind({.distributed_feeds = {{"a", a}, {"c", c}}, .distributed_outputs = outputs});
  };
  BoundStep step = bind({}).value();
  const BoundStep taken = std::move(step);
  ExpectErrors("domains_in_place", {
                                       MISTAKE(create({{"b", "w"}}, all)),
                                       MISTAKE(create({{"e", "a"}}, all)),
                                       MISTAKE(create({{"b", "a"}}, {"a"})),
                                       MISTAKE(create({{"b", "c"}}, all)),
                                       MISTAKE(create({{"b", "a"}, {"d", "a"}}, all)),
                                       MISTAKE(bind({{"b", b}})),
                                       MISTAKE(bind({{"d", a}})),
                                       MISTAKE(step.Run()),
                                   });
}

TEST(DomainErrors, DTensors) {
  const Program program = ParseProgram(kStep);
  const Mesh& mesh = program.body.mesh();
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  const auto given = Executor::Create(program, backend, {.distributed = {"a", "b"}}, &state).value();
  const auto whole = Executor::Create(program, backend, {}, &state).value();
  const Tensor host({F32, {4}});
  const DTensor feed = given->NewFeed("a").value(), none;
  const DTensor replicated(CpuMemory(), {F32, {4}}, Layout::Parse(mesh, "{_}").value());
  const DTensor half(Domain(Placement::Create(mesh, 2).value(), 1), CpuMemory(), {F32, {4}},
                     Layout::Parse(mesh, "{x}").value());
  const DTensor on_gpu(std::make_shared<OtherMemory>(), {F32, {4}}, Layout::Parse(mesh, "{x}").value());
  using Parts = std::map<std::string, DTensor>;
  using Wholes = std::map<std::string, Tensor>;
  auto bind = [&](const Parts& feeds, const Parts& outputs = {}, const Wholes& hosts = {}) {
    return given->Bind({.feeds = hosts, .distributed_feeds = feeds, .distributed_outputs = outputs});
  };
  auto bind_outputs = [&](const Wholes& outputs) {
    return given->Bind({.outputs = outputs, .distributed_feeds = {{"a", feed}}});
  };
  StagedTensor nothing(CpuMemory()), elsewhere(std::make_shared<OtherMemory>());
  ASSERT_TRUE(elsewhere.Stage(host).ok());
  auto bind_staged = [&](const StagedTensor& staged, const std::string& name = "a") {
    return whole->Bind({.feeds = {{"a", host}}, .staged = {{name, staged}}});
  };
  ExpectErrors("domains_dtensors", {
                                       MISTAKE(bind({})),
                                       MISTAKE(bind({}, {}, {{"a", host}})),
                                       MISTAKE(bind_outputs({{"b", host}})),
                                       MISTAKE(whole->Bind({.distributed_feeds = {{"a", feed}}})),
                                       MISTAKE(bind({{"a", none}})),
                                       MISTAKE(bind({{"a", replicated}})),
                                       MISTAKE(bind({{"a", half}})),
                                       MISTAKE(bind({{"a", on_gpu}})),
                                       MISTAKE(bind({{"a", feed}}, {{"b", feed}})),
                                       MISTAKE(given->NewFeed("b")),
                                       MISTAKE(given->NewOutput("c")),
                                       MISTAKE(whole->NewFeed("a")),
                                       MISTAKE(Unpack(half)),
                                       MISTAKE(bind_staged(nothing)),
                                       MISTAKE(bind_staged(elsewhere, "aa")),
                                       MISTAKE(bind_staged(elsewhere)),
                                       MISTAKE(nothing.Stage(Tensor())),
                                   });
}

}  // namespace
}  // namespace meshwork::domains_test
