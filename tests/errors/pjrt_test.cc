// What PJRT plugins are refused for, what they refuse, and what they are not asked: by one that fails as it is asked to
// (runtime/pjrt/fake_plugin.cc).
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/pjrt/pjrt_ahead.h"
#include "meshwork/runtime/pjrt/pjrt_backend.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"

namespace meshwork::pjrt_errors {
namespace {

constexpr std::string_view kStep = R"(mesh [x=2]
func step(%a: f32[4,2] {x,_}, var %w: f32[2] {_}) {
  %s = reduce_sum %a dims=[0]
  %n = add %w, %s
  update %w = %n
  return s=%s
})";

class PjrtErrors : public TempDirTest {
 protected:
  // Of the fake plugin, which does as the name says.
  std::string Devices(std::string_view name, std::string_view options = "") const {
    const std::string path = Path(fmt::format("{}.so", name));
    std::filesystem::copy_file(FAKE_PJRT_PLUGIN, path, std::filesystem::copy_options::skip_existing);
    return fmt::format("pjrt:{}{}{}", path, options.empty() ? "" : ":", options);
  }
  absl::Status Create(std::string_view devices) const { return PjrtBackend::Create(devices).status(); }
  absl::Status Prepare(std::string_view devices, const ExecutorOptions& options = {},
                       int64_t num_domains = 1) const {
    MESHWORK_ASSIGN_OR_RETURN(const auto backend, PjrtBackend::Create(devices));
    MESHWORK_ASSIGN_OR_RETURN(const Program program,
                              Compile(ParseGraph(kStep).value(), {.num_domains = num_domains}));
    std::map<std::string, DTensor> variables;
    return Executor::Create(program, *backend, options, &variables).status();
  }
  absl::Status Run(std::string_view devices) const {
    Graph graph = ParseGraph(kStep).value();
    MESHWORK_ASSIGN_OR_RETURN(const auto backend, PjrtBackend::Create(devices));
    std::map<std::string, DTensor> variables;
    MESHWORK_ASSIGN_OR_RETURN(const auto executor,
                              Executor::Create(Compile(graph).value(), *backend, {}, &variables));
    return executor->Run({{"a", Tensor::From<float>({4, 2}, std::vector<float>(8, 1))}}, nullptr);
  }
  absl::Status Ahead(std::string_view devices, std::string_view topology, std::string_view mesh) const {
    std::string text(kStep);
    text.replace(text.find("x=2"), 3, mesh);
    return CompileAhead(PjrtSpec::Parse(devices).value(), topology,
                        Compile(ParseGraph(text).value()).value().body)
        .status();
  }
  // What domain 0 of two is told.
  absl::Status InTwoDomains(const std::function<absl::Status(Transport& end)>& play) const {
    absl::Status status;
    InDomains(2, [&](Transport& end) {
      absl::Status mine = play(end);
      if (end.domain() == 0) status = std::move(mine);
    });
    return status;
  }
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) const {
    ExpectErrors(area, mistakes, {{dir(), "DIR"}});
  }
};

TEST_F(PjrtErrors, Texts) {
  Expect("pjrt_texts", {MISTAKE(PjrtSpec::Parse("pjrt:")), MISTAKE(PjrtSpec::Parse("pjrt:a.so:n=1,m")),
                        MISTAKE(PjrtSpec::Parse("tpu:=1")), MISTAKE(PjrtSpec::Parse("tpu:a=1,a=2"))});
}

TEST_F(PjrtErrors, Plugins) {
  Expect("pjrt_plugins",
         {MISTAKE(Create("pjrt:" + Path("missing.so"))), MISTAKE(Create("pjrt:" + File("text.so", "text"))),
          MISTAKE(Create("pjrt:libm.so.6")), MISTAKE(Create(Devices("other-major"))),
          MISTAKE(Create(Devices("too-old"))), MISTAKE(Create(Devices("fails-at-initialize"))),
          MISTAKE(Create(Devices("fine", "device=2")))});
}

TEST_F(PjrtErrors, Programs) {
  Expect("pjrt_programs", {MISTAKE(Prepare(Devices("no-compile"))),
                           MISTAKE(Prepare(Devices("fails-at-compile"))),
                           MISTAKE(Prepare(Devices("other-devices"))),
                           MISTAKE(Prepare(Devices("fine", "devices=1"))),
                           MISTAKE(Prepare(Devices("cpu", "devices=1"))),
                           MISTAKE(Prepare(Devices("fine"), {.cross_device_ops = RingAllReduce()})),
                           {"two domains", [&] {
                              return InTwoDomains([&](Transport& end) {
                                return Prepare(Devices("fine"), {.transport = &end}, 2);
                              });
                            }}});
}

TEST_F(PjrtErrors, Steps) {
  Expect("pjrt_steps", {MISTAKE(Run(Devices("fails-at-copy"))), MISTAKE(Run(Devices("fails-at-execute"))),
                        MISTAKE(Run(Devices("fails-at-end")))});
}

TEST_F(PjrtErrors, Sessions) {
  Expect("pjrt_sessions", {{"a session of two domains", [&] {
                              return InTwoDomains([&](Transport& end) {
                                return Session::Create(
                                           ParseGraph(kStep).value(),
                                           {.devices = Devices("fine"), .executor = {.transport = &end}})
                                    .status();
                              });
                            }}});
}

TEST_F(PjrtErrors, Strategies) {
  Expect("pjrt_strategies", {MISTAKE(TPUStrategy({.devices = Devices("fine"), .num_devices = 3})),
                             MISTAKE(TPUStrategy({.devices = Devices("fine"), .num_devices = -1})),
                             MISTAKE(TPUStrategy({.devices = "cpu"}))});
}

TEST_F(PjrtErrors, Topologies) {
  Expect("pjrt_ahead",
         {MISTAKE(Ahead(Devices("fine"), "1x3", "x=2")), MISTAKE(Ahead(Devices("fine"), "1x2", "x=4")),
          MISTAKE(Ahead(Devices("fine"), "1x2", "x=2"))});
}

}  // namespace
}  // namespace meshwork::pjrt_errors
