// Replicas that differ, and what a process made before it forked.
#include "meshwork/train/cluster/replica_check.h"

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/base/fork.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "support/forks.h"
#include "support/in_domains.h"

namespace meshwork::replica_check_test {
namespace {

using State = std::map<std::string, DTensor>;

// A memory that cannot be read.
class BrokenMemory : public Memory {
 public:
  std::shared_ptr<void> Allocate(int64_t bytes) override { return CpuMemory()->Allocate(bytes); }
  std::string_view name() const override { return "the memory of device 0"; }
  bool is_host() const override { return false; }
  absl::Status Upload(const BoxCopy&, int64_t, const std::byte*, std::byte*) override { return Broken(); }
  absl::Status Download(const BoxCopy&, int64_t, const std::byte*, std::byte*) override { return Broken(); }

 private:
  static absl::Status Broken() { return absl::InternalError("Memory: device 0 has failed."); }
};

// Variables "b" and "w" of a domain; this many elements of "w" are 1, the others 0.
State Variables(const std::string& mesh, int64_t domains, int64_t domain, int ones,
                std::shared_ptr<Memory> memory = CpuMemory()) {
  const Placement placement = Placement::Create(Mesh::Parse(mesh).value(), domains).value();
  const Layout layout = Layout::Parse(placement.mesh(), "{_,model}").value();
  State state;
  for (const char* name : {"b", "w"})
    state.emplace(name, DTensor(Domain(placement, domain), memory, {F32, {4, 6}}, layout));
  for (int i = 0; i < ones; ++i) reinterpret_cast<float*>(state.at("w").instance(0))[i] = 1;
  return state;
}

// The error of domain 0; domain d's state is make(d).
absl::Status Check(int64_t domains, const std::function<State(int64_t)>& make) {
  std::vector<absl::Status> statuses(static_cast<size_t>(domains));
  InDomains(domains, [&](Transport& end) {
    const int64_t d = end.domain();
    statuses[static_cast<size_t>(d)] =
        CheckReplicas(make(d), 120, &end, fmt::format("worker {} on host-{}", d, "abcd"[d]));
  });
  return statuses[0];
}

TEST(ReplicaCheckErrors, ReplicasThatDiffer) {
  const std::string mesh = "batch=4,model=2";
  ExpectErrors(
      "replica_check",
      {
          MISTAKE(ParseReplicaCheck("100")),
          MISTAKE(ReplicaCheck::Create({.every = -1})),
          {"two domains, of which one has lost a bit",
           [&] { return Check(2, [&](int64_t d) { return Variables(mesh, 2, d, d == 1 ? 3 : 2); }); }},
          {"four domains, of which one has lost a bit",
           [&] { return Check(4, [&](int64_t d) { return Variables(mesh, 4, d, d == 2 ? 1 : 2); }); }},
          {"four domains, of which each has another",
           [&] { return Check(4, [&](int64_t d) { return Variables(mesh, 4, d, static_cast<int>(d)); }); }},
          {"one domain checks another variable",
           [&] {
             return Check(2, [&](int64_t d) {
               State state = Variables(mesh, 2, d, 0);
               if (d == 1) state.erase("b");
               return state;
             });
           }},
          {"a memory that fails here",
           [&] {
             return Check(2, [&](int64_t d) {
               return Variables(mesh, 2, d, 0, d == 0 ? std::make_shared<BrokenMemory>() : CpuMemory());
             });
           }},
          {"a memory that fails elsewhere",
           [&] {
             return Check(2, [&](int64_t d) {
               return Variables(mesh, 2, d, 0, d == 1 ? std::make_shared<BrokenMemory>() : CpuMemory());
             });
           }},
      });
}

TEST(ReplicaCheckErrors, AForkedProcess) {
  if (!kMayFork) GTEST_SKIP();
  const ForkMark mark;
  ExpectErrors("forks", {{"a child, of what its parent made",
                          [&] { return StatusOfChild([&] { return mark.Check("Session"); }); }}});
}

}  // namespace
}  // namespace meshwork::replica_check_test
