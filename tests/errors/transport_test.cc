// Errors of transports if domains act differently.
#include "meshwork/runtime/exec/transport.h"

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/train/cluster/link_file.h"

namespace meshwork::transport_test {
namespace {

using Play = std::function<absl::Status(Transport&)>;

constexpr std::chrono::milliseconds kPatient = std::chrono::minutes(2);

// The error in domain 0, of two domains that play this.
absl::Status InDomain0(const Play& play, std::chrono::milliseconds deadline = std::chrono::milliseconds(20)) {
  std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2, {.deadline = deadline});
  std::thread other([&] { play(*ends[1]).IgnoreError(); });
  absl::Status status = play(*ends[0]);
  other.join();
  return status;
}

// Domain 0 sends this many bytes to domain 1, which expects another number.
absl::Status Send(Transport& end, int64_t sent, int64_t expected) {
  RemoteSpec spec{.where = "all_gather %7 (model.cc:41)"};
  std::vector<std::byte> bytes(100);
  const std::byte* const send = bytes.data();
  std::byte* const receive = bytes.data();
  if (end.domain() == 0) spec.sends = {{1, sent}};
  else spec.receives = {{0, expected}};
  const std::unique_ptr<RemoteOp> op = end.Prepare(spec).value();
  if (end.domain() == 0) return op->Run({&send, 1}, {});
  return op->Run({}, {&receive, 1});
}

TEST(TransportErrors, Loopback) {
  auto runs = [](Transport& end, std::string_view program) {
    return Agree(end, "the program", std::string(program));
  };
  const Play differ = [&](Transport& end) { return runs(end, end.domain() == 0 ? "9f2c" : "77aa"); };
  const Play differ_in_a_line = [](Transport& end) {
    const std::string line = end.domain() == 0 ? "%0 = neg %a" : "%0 = exp %a";
    return Agree(end, "the program", line.substr(5, 3), [&] { return "func f(%a: f32[4]) {\n  " + line; });
  };
  const Play lacks_memory = [](Transport& end) {
    const absl::StatusOr<std::string> mine =
        absl::ResourceExhaustedError("Executor: there is not enough memory.");
    return Agree(end, "what it needs", end.domain() == 0 ? "" : mine);
  };
  const Play asks_alone = [&](Transport& end) {
    return end.domain() == 0 ? runs(end, "9f2c") : absl::OkStatus();
  };
  const Play calls_another = [&](Transport& end) {
    return end.domain() == 0 ? end.AllGather("the checkpoint to save", "a name").status() : runs(end, "9f2c");
  };
  const Play sends_alone = [](Transport& end) {
    return end.domain() == 0 ? Send(end, 24, 24) : absl::OkStatus();
  };
  const std::string no_link = testing::TempDir() + "no_link.json", nowhere = "/nowhere/link.json";
  std::ofstream(no_link) << R"({"bandwidth": 0, "latency": 1})";
  const Play reads_no_link = [&](Transport& end) { return FindSpeed(end, no_link, "--link-file: "); };
  const Play writes_nowhere = [&](Transport& end) { return FindSpeed(end, nowhere, "--link-file: "); };
  const Play expects_less = [](Transport& end) { return Send(end, 24, 16); };
  ExpectErrors("transport", {
                                MISTAKE(InDomain0(differ)),
                                MISTAKE(InDomain0(differ_in_a_line)),
                                MISTAKE(InDomain0(lacks_memory)),
                                MISTAKE(InDomain0(asks_alone)),
                                MISTAKE(InDomain0(calls_another, kPatient)),
                                MISTAKE(InDomain0(sends_alone)),
                                MISTAKE(InDomain0(expects_less)),
                                MISTAKE(InDomain0(reads_no_link, kPatient)),
                                MISTAKE(InDomain0(writes_nowhere, kPatient)),
                            });
}

}  // namespace
}  // namespace meshwork::transport_test
