// The contract of transports, tested on every implementation. Started by mpirun, this program tests MPI; started by
// examples/multi_worker/launch, it tests Gloo: each process plays its own domain. cuda_backend_test tests NCCL, on GPUs
// that are simulated.
#include "meshwork/runtime/exec/transport.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/gather_values.h"
#include "meshwork/runtime/transport/measure.h"
#include "support/ends.h"

#ifdef MESHWORK_HAVE_CUDA
#include "cuda_backend/nccl_ends.h"
#endif

namespace meshwork::transport_test {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;

struct Implementation {
  std::string name;
  Ends (*make)(int64_t num_domains, std::chrono::milliseconds deadline);
  // True if errors name the domains that do not come, and sizes are compared. NCCL does neither: domains have agreed
  // before that they run the same program.
  bool knows_others = true;
};
void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }

Ends Loopback(int64_t num_domains, std::chrono::milliseconds deadline) {
  return MakeLoopback(num_domains, {.deadline = deadline});
}

constexpr std::chrono::milliseconds kPatient = std::chrono::minutes(2), kImpatient{50};

// By domain, of the domains that this process plays.
using Statuses = std::map<int64_t, absl::Status>;

// The status that `play` returns in each domain, each on a thread of its own.
Statuses Play(Ends& ends, const std::function<absl::Status(Transport&)>& play) {
  Statuses statuses;
  for (const auto& end : ends)
    if (end != nullptr) statuses[end->domain()] = absl::OkStatus();
  std::vector<std::thread> threads;
  for (auto& [domain, status] : statuses)
    threads.emplace_back(
        [&play, &end = *ends[static_cast<size_t>(domain)], &status = status] { status = play(end); });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

void ExpectOk(const Statuses& statuses) {
  for (const auto& [domain, status] : statuses) EXPECT_TRUE(status.ok()) << domain << ": " << status;
}

std::vector<std::string> Messages(const Statuses& statuses) {
  std::vector<std::string> messages;
  for (const auto& [domain, status] : statuses) messages.emplace_back(MessageOf(status));
  return messages;
}

// One operation between all domains, in which `from` sends Bytes(from, to) bytes to `to`: its buffers, and their
// contents in step `step`.
class Traffic {
 public:
  using BytesOf = std::function<int64_t(int64_t from, int64_t to)>;

  Traffic(int64_t domain, int64_t num_domains, int number, const BytesOf& bytes_of)
      : domain_(domain), number_(number) {
    spec_.where = fmt::format("operation {}", number);
    for (int64_t d = 0; d < num_domains; ++d) {
      if (d == domain || bytes_of(domain, d) < 0) continue;
      spec_.sends.push_back({d, bytes_of(domain, d)});
      out_.emplace_back(static_cast<size_t>(bytes_of(domain, d)));
    }
    for (int64_t d = 0; d < num_domains; ++d) {
      if (d == domain || bytes_of(d, domain) < 0) continue;
      spec_.receives.push_back({d, bytes_of(d, domain)});
      in_.emplace_back(static_cast<size_t>(bytes_of(d, domain)));
    }
  }

  absl::Status Prepare(Transport& end) {
    MESHWORK_ASSIGN_OR_RETURN(op_, end.Prepare(spec_));
    return absl::OkStatus();
  }

  absl::Status Run(int step) {
    Fill(step);
    MESHWORK_RETURN_IF_ERROR(op_->Run(sends_, receives_));
    return Check(step);
  }

  absl::Status Start(int step) {
    Fill(step);
    return op_->Start(sends_, receives_);
  }
  absl::Status Wait(int step) {
    MESHWORK_RETURN_IF_ERROR(op_->Wait());
    return Check(step);
  }

  absl::Status Leave() { return op_->Wait(); }

 private:
  void Fill(int step) {
    std::vector<const std::byte*>& sends = sends_;
    std::vector<std::byte*>& receives = receives_;
    sends.clear();
    receives.clear();
    for (size_t i = 0; i < out_.size(); ++i) {
      for (size_t b = 0; b < out_[i].size(); ++b)
        out_[i][b] = ByteOf(domain_, spec_.sends[i].domain, step, b);
      sends.push_back(out_[i].data());
    }
    for (std::vector<std::byte>& in : in_) {
      std::fill(in.begin(), in.end(), std::byte{0xEE});
      receives.push_back(in.data());
    }
  }

  absl::Status Check(int step) {
    // After the operation the sent buffers belong to the sender again.
    for (std::vector<std::byte>& out : out_) std::fill(out.begin(), out.end(), std::byte{0xDD});
    for (size_t i = 0; i < in_.size(); ++i)
      for (size_t b = 0; b < in_[i].size(); ++b)
        if (in_[i][b] != ByteOf(spec_.receives[i].domain, domain_, step, b))
          return absl::InternalError(fmt::format("{} step {}: byte {} from domain {} is wrong", spec_.where,
                                                 step, b, spec_.receives[i].domain));
    return absl::OkStatus();
  }

  std::byte ByteOf(int64_t from, int64_t to, int step, size_t b) const {
    return static_cast<std::byte>((from * 31 + to * 17 + number_ * 7 + step * 3 + static_cast<int64_t>(b)) %
                                  251);
  }

  const int64_t domain_;
  const int number_;
  RemoteSpec spec_;
  std::vector<std::vector<std::byte>> out_, in_;
  std::vector<const std::byte*> sends_;
  std::vector<std::byte*> receives_;
  std::unique_ptr<RemoteOp> op_;
};

class TransportTest : public testing::TestWithParam<Implementation> {};

// Over a link with high latency, messages may be cut into pieces.
constexpr Link kNear{.bandwidth = 2e9, .latency = 1e-6}, kFar{.bandwidth = 1e8, .latency = 1e-3};

TEST_P(TransportTest, KnowsWhoItIs) {
  for (int64_t domains : {1, 2, 3}) {
    Ends ends = GetParam().make(domains, kPatient);
    ASSERT_EQ(std::ssize(ends), domains);
    for (int64_t d = 0; d < domains; ++d) {
      if (ends[static_cast<size_t>(d)] == nullptr) continue;
      EXPECT_EQ(ends[static_cast<size_t>(d)]->domain(), d);
      EXPECT_EQ(ends[static_cast<size_t>(d)]->num_domains(), domains);
    }
  }
}

// Uneven, empty and large parts, and domains without parts; several operations in turn, for many
// steps.
TEST_P(TransportTest, EachReceivesWhatWasSent) {
  const std::vector<Traffic::BytesOf> patterns = {
      [](int64_t, int64_t) { return 64; },
      [](int64_t from, int64_t to) { return from * 13 + to; },
      [](int64_t from, int64_t to) { return from < to ? 100 : -1; },          // one way
      [](int64_t from, int64_t to) { return (from + to) % 2 == 0 ? 8 : 0; },  // of no bytes
      [](int64_t from, int64_t to) { return to == from + 1 ? 7 : -1; },       // a chain
      [](int64_t, int64_t) { return int64_t{1} << 17; },
      [](int64_t from, int64_t to) { return from < to ? (int64_t{1} << 20) + 1 : -1; },
      [](int64_t, int64_t) { return -1; },  // nobody
  };
  for (int64_t domains : {1, 2, 3, 4}) {
    Ends ends = GetParam().make(domains, kPatient);
    const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
      end.set_speed(domains == 3 ? kNear : kFar);
      std::vector<Traffic> operations;
      for (const Traffic::BytesOf& bytes : patterns)
        operations.emplace_back(end.domain(), domains, static_cast<int>(operations.size()), bytes);
      for (Traffic& operation : operations) MESHWORK_RETURN_IF_ERROR(operation.Prepare(end));
      for (int step = 0; step < 8; ++step)
        for (Traffic& operation : operations) MESHWORK_RETURN_IF_ERROR(operation.Run(step));
      return absl::OkStatus();
    });
    ExpectOk(statuses);
  }
}

// Several operations are under way at a time; each domain waits for them in another order.
TEST_P(TransportTest, OperationsAreUnderWayTogether) {
  for (int64_t domains : {2, 3, 4}) {
    Ends ends = GetParam().make(domains, kPatient);
    const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
      end.set_speed(domains == 3 ? kFar : kNear);
      const std::vector<Traffic::BytesOf> patterns = {
          [](int64_t from, int64_t to) { return from * 13 + to; },
          [](int64_t, int64_t) { return int64_t{1} << 20; },
          [](int64_t from, int64_t to) { return from < to ? int64_t{1} << 16 : -1; },
          [](int64_t from, int64_t to) { return from > to ? 0 : 9; },
          [](int64_t, int64_t) { return -1; },
          [](int64_t, int64_t) { return 100; },
      };
      std::vector<Traffic> operations;
      for (const Traffic::BytesOf& bytes : patterns) {
        operations.emplace_back(end.domain(), domains, static_cast<int>(operations.size()), bytes);
        MESHWORK_RETURN_IF_ERROR(operations.back().Prepare(end));
      }
      Traffic other(end.domain(), domains, 99, [](int64_t, int64_t) { return 40; });
      MESHWORK_RETURN_IF_ERROR(other.Prepare(end));
      std::mt19937 random(static_cast<unsigned>(end.domain()));
      for (int step = 0; step < 8; ++step) {
        for (size_t i = 0; i < operations.size(); ++i) {
          MESHWORK_RETURN_IF_ERROR(operations[i].Start(step));
          if (i == 3) MESHWORK_RETURN_IF_ERROR(other.Run(step));
        }
        std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
        std::shuffle(order.begin(), order.end(), random);
        for (size_t i : order) MESHWORK_RETURN_IF_ERROR(operations[i].Wait(step));
        for (Traffic& operation : operations) EXPECT_TRUE(operation.Leave().ok()) << "nothing to wait for";
      }
      return absl::OkStatus();
    });
    ExpectOk(statuses);
  }
}

TEST_P(TransportTest, AnAbortEndsWhatIsUnderWay) {
  Ends ends = GetParam().make(2, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    Traffic first(end.domain(), 2, 0, [](int64_t, int64_t) { return 100; });
    Traffic large(end.domain(), 2, 1, [](int64_t, int64_t) { return int64_t{4} << 20; });
    MESHWORK_RETURN_IF_ERROR(first.Prepare(end));
    MESHWORK_RETURN_IF_ERROR(large.Prepare(end));
    for (int step = 0; step < 2; ++step) {
      MESHWORK_RETURN_IF_ERROR(first.Run(step));
      MESHWORK_RETURN_IF_ERROR(large.Run(step));
    }
    if (end.domain() == 1) {
      end.Abort(absl::UnavailableError("domain 1 has no memory."));
      EXPECT_EQ(MessageOf(first.Start(2)), "domain 1 has no memory.");
      return first.Start(2);
    }
    // Any call may be the first to return the error.
    absl::Status status = first.Start(2);
    if (status.ok()) status = large.Start(2);
    if (status.ok()) status = large.Leave();
    EXPECT_THAT(MessageOf(first.Leave()), AnyOf("", "domain 1 has no memory."));
    EXPECT_TRUE(first.Leave().ok());
    return status;
  });
  EXPECT_THAT(Messages(statuses), Each("domain 1 has no memory."));
}

TEST_P(TransportTest, TheSpeedIsMeasured) {
  for (int64_t domains : {2, 3}) {
    Ends ends = GetParam().make(domains, kPatient);
    std::mutex mutex;
    std::vector<Link> links;
    const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
      MESHWORK_ASSIGN_OR_RETURN(const Link link, MeasureLink(end, std::chrono::milliseconds(5)));
      const std::lock_guard lock(mutex);
      links.push_back(link);
      return absl::OkStatus();
    });
    ExpectOk(statuses);
    for (const Link& link : links) {
      EXPECT_EQ(link, links[0]) << "the same in all domains";
      EXPECT_TRUE(link.latency > 0 && link.latency < 1) << link.latency;
      EXPECT_TRUE(link.bandwidth > 1e5 && link.bandwidth < 1e12) << link.bandwidth;
    }
  }
}

TEST(LinkTest, IsKeptAsText) {
  for (const Link& link : {Link{1.25e8, 1e-3}, Link{1e10, 0}})
    EXPECT_EQ(LinkFromJson(LinkToJson(link)).value(), link);
}

// Domains may be many steps ahead of one that only sends to them, and programs are prepared between steps.
TEST_P(TransportTest, ProgramsArePreparedBetweenSteps) {
  Ends ends = GetParam().make(3, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    std::vector<Traffic> operations;
    for (int number = 0; number < 5; ++number) {
      operations.emplace_back(end.domain(), 3, number, [](int64_t from, int64_t to) { return from + to; });
      MESHWORK_RETURN_IF_ERROR(operations.back().Prepare(end));
      for (int step = 0; step < 5; ++step)
        for (Traffic& operation : operations) MESHWORK_RETURN_IF_ERROR(operation.Run(step));
    }
    return absl::OkStatus();
  });
  ExpectOk(statuses);
}

TEST_P(TransportTest, DomainsAgree) {
  Ends ends = GetParam().make(3, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    for (const char* fingerprint : {"9f2c", "77aa", ""})
      MESHWORK_RETURN_IF_ERROR(Agree(end, "the program", std::string(fingerprint)));
    return absl::OkStatus();
  });
  ExpectOk(statuses);
}

TEST_P(TransportTest, WhoDiffersIsNamed) {
  Ends ends = GetParam().make(4, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    MESHWORK_RETURN_IF_ERROR(Agree(end, "the mesh", "[x=4]"));
    return Agree(end, "the program", std::string(end.domain() == 2 ? "77aa" : "9f2c"));
  });
  EXPECT_THAT(
      Messages(statuses),
      Each("Transport: the domains differ: domains 0, 1, 3: the program 9f2c; domain 2: the program 77aa."));
}

// Domains that make different calls, of any two kinds, are named in the error. All go on.
TEST_P(TransportTest, WhoMakesOtherCallsIsNamed) {
  using Say = absl::Status (*)(Transport&, std::string_view what);
  const std::vector<Say> ways = {
      [](Transport& end, std::string_view what) { return end.AllGather(what, "").status(); },
      [](Transport& end, std::string_view what) { return end.AllGather(what, "of many\nlines").status(); },
      [](Transport& end, std::string_view what) { return Agree(end, what, std::string("done")); },
      [](Transport& end, std::string_view what) { return Agree(end, what, "9f2c", [] { return "text"; }); },
      [](Transport& end, std::string_view what) {
        return GatherValues(end, what, absl::NotFoundError("there is no feed \"x\".")).status();
      },
  };
  Ends ends = GetParam().make(3, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    for (const Say one : ways)
      for (const Say other : ways) {
        const bool is_other = end.domain() == 1;
        const absl::Status status = (is_other ? other : one)(end, is_other ? "the step" : "a save");
        if (absl::IsNotFound(status)) continue;
        EXPECT_EQ(
            MessageOf(status),
            "Transport: the domains do not make the same calls. domains 0, 2: a save; domain 1: the step. "
            "All need the same calls, in the same order.");
      }
    return Agree(end, "the step", std::string("done"));
  });
  ExpectOk(statuses);
}

// All domains get the error, and can go on.
TEST_P(TransportTest, WhoCannotGoOnIsNamed) {
  Ends ends = GetParam().make(3, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    const absl::StatusOr<std::string> mine =
        end.domain() == 1 ? absl::StatusOr<std::string>(absl::NotFoundError("there is no feed \"x\"."))
                          : "a step of 5 rows";
    const absl::Status status = Agree(end, "the step", mine);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(MessageOf(status), fmt::format("{}there is no feed \"x\".",
                                             end.domain() == 1 ? "" : "Transport: domain 1 failed: "));
    EXPECT_FALSE(Agree(end, "the step", std::string(end.domain() == 0 ? "a" : "b")).ok());
    return Agree(end, "the step", std::string("of many words\nand lines"));
  });
  ExpectOk(statuses);
}

TEST_P(TransportTest, WhatEachSaysReachesAll) {
  Ends ends = GetParam().make(3, kPatient);
  Play(ends, [&](Transport& end) -> absl::Status {
    const std::string long_text(100000, 'x');
    for (int turn = 0; turn < 50; ++turn) {
      const std::vector<std::string> all =
          end.AllGather("all", fmt::format("{} {}", end.domain(), turn)).value();
      EXPECT_EQ(all, (std::vector<std::string>{fmt::format("0 {}", turn), fmt::format("1 {}", turn),
                                               fmt::format("2 {}", turn)}));
    }
    const std::vector<std::string> mixed = end.AllGather("all", end.domain() == 1 ? long_text : "").value();
    EXPECT_EQ(mixed, (std::vector<std::string>{"", long_text, ""}));
    return absl::OkStatus();
  });
}

// One domain aborts while the others wait for it; later operations fail, too.
TEST_P(TransportTest, AnAbortReachesAll) {
  Ends ends = GetParam().make(3, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    Traffic first(end.domain(), 3, 0, [](int64_t, int64_t) { return 100; });
    MESHWORK_RETURN_IF_ERROR(first.Prepare(end));
    MESHWORK_RETURN_IF_ERROR(first.Run(0));
    EXPECT_TRUE(end.domain() != 1 || end.aborted().ok());
    if (end.domain() == 1) end.Abort(absl::UnavailableError("domain 1 has no memory."));
    EXPECT_EQ(MessageOf(first.Run(1)), "domain 1 has no memory.");
    EXPECT_EQ(MessageOf(end.aborted()), "domain 1 has no memory.");
    end.Abort(absl::UnavailableError("domain 0 gives up, too."));
    EXPECT_EQ(MessageOf(Agree(end, "the program", std::string("9f2c"))), "domain 1 has no memory.");
    EXPECT_EQ(MessageOf(first.Prepare(end)), "domain 1 has no memory.");
    return first.Run(2);
  });
  EXPECT_THAT(Messages(statuses), Each("domain 1 has no memory."));
  for (const auto& [domain, status] : statuses) EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_P(TransportTest, WhoDoesNotComeIsNamed) {
  Ends ends = GetParam().make(3, kImpatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    Traffic operation(end.domain(), 3, 0, [](int64_t, int64_t) { return 100; });
    MESHWORK_RETURN_IF_ERROR(operation.Prepare(end));
    return end.domain() == 2 ? absl::OkStatus() : operation.Run(0);
  });
  for (const auto& [domain, status] : statuses) {
    absl::Status late = status;
    if (domain == 2) {
      // It may get the error a little later.
      EXPECT_TRUE(status.ok());
      while (late.ok()) late = ends[2]->Prepare({}).status();
    }
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(MessageOf(late), HasSubstr("operation 0: "));
    EXPECT_THAT(MessageOf(late),
                ContainsRegex(GetParam().knows_others ? "domain 2(, [^;]*,)? did not come"
                                                      : ", (domain )?2(, [^;]*,)? did not come"));
  }
}

TEST_P(TransportTest, WhoDoesNotAgreeInTimeIsNamed) {
  Ends ends = GetParam().make(2, kImpatient);
  const Statuses statuses = Play(ends, [&](Transport& end) {
    return end.domain() == 0 ? Agree(end, "the program", std::string("9f2c")) : absl::OkStatus();
  });
  if (!statuses.contains(0)) return;
  EXPECT_EQ(statuses.at(0).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(statuses.at(0)),
              ContainsRegex("domain 1(, [^;]*,)? did not come within 50 ms; domain 0(, [^;]*,)? waits\\."));
}

TEST_P(TransportTest, OtherSizesAreAnError) {
  if (!GetParam().knows_others) return;
  Ends ends = GetParam().make(2, kPatient);
  const Statuses statuses = Play(ends, [&](Transport& end) -> absl::Status {
    Traffic operation(end.domain(), 2, 0,
                      [&](int64_t from, int64_t) { return from == 0 && end.domain() == 0 ? 100 : 99; });
    MESHWORK_RETURN_IF_ERROR(operation.Prepare(end));
    return operation.Run(0);
  });
  EXPECT_THAT(Messages(statuses), Each("operation 0: domain 0 sends 100 bytes and domain 1 expects 99."));
}

std::vector<Implementation> Implementations() {
#ifdef MESHWORK_HAVE_CUDA
  return {{"Nccl", MakeNcclEnds, /*knows_others=*/false}};
#else
  if (IsLaunchedByMpi()) return {{"Mpi", MakeMpiEnds}};
  if (IsLaunchedForGloo()) return {{"Gloo", MakeGlooEnds}};
  std::vector<Implementation> implementations = {{"Loopback", Loopback}};
  if (HasGloo()) implementations.push_back({"Gloo", MakeGlooEnds});
  return implementations;
#endif
}

INSTANTIATE_TEST_SUITE_P(Implementations, TransportTest, testing::ValuesIn(Implementations()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::transport_test
