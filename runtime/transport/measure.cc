#include "meshwork/runtime/transport/measure.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSmall = 8, kLeastLarge = int64_t{64} << 10, kMostLarge = int64_t{4} << 20;
constexpr int kTries = 3, kMessages = 8, kTogether = 8;
constexpr double kLongEnough = 5e-3;  // seconds, for a large message

// Messages around the ring of all domains.
class Ring {
 public:
  Ring(Transport& transport, Clock::time_point end) : transport_(transport), end_(end) {}

  // The seconds of a message of `bytes`, if `together` of them are under way at a time: the shortest mean of several
  // rounds. A single message says little, because for a domain that is late it has already come.
  absl::StatusOr<double> Best(int64_t bytes, int together) {
    const int64_t domains = transport_.num_domains(), domain = transport_.domain();
    const int64_t next = (domain + 1) % domains, before = (domain + domains - 1) % domains;
    const auto size = static_cast<size_t>(bytes);
    std::vector<std::byte> sent(size * static_cast<size_t>(together)), received(sent.size());
    std::vector<std::unique_ptr<RemoteOp>> ops(static_cast<size_t>(together));
    for (std::unique_ptr<RemoteOp>& op : ops) {
      MESHWORK_ASSIGN_OR_RETURN(
          op, transport_.Prepare(
                  {.where = "MeasureLink", .sends = {{next, bytes}}, .receives = {{before, bytes}}}));
    }
    double best = HUGE_VAL;
    for (int round = 0; round <= kTries; ++round) {
      const int turns = round == 0 ? 1 : kMessages / together;  // the first is not counted
      const Clock::time_point start = Clock::now();
      for (int turn = 0; turn < turns; ++turn) {
        for (size_t i = 0; i < ops.size(); ++i) {
          const std::byte* const from = sent.data() + i * size;
          std::byte* const to = received.data() + i * size;
          MESHWORK_RETURN_IF_ERROR(ops[i]->Start({&from, 1}, {&to, 1}));
        }
        for (const std::unique_ptr<RemoteOp>& op : ops) MESHWORK_RETURN_IF_ERROR(op->Wait());
      }
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (round > 0) best = std::min(best, seconds / (turns * together));
    }
    return best;
  }

  // Whether all domains have time for larger messages: they go on together. `seconds`: of one message.
  absl::StatusOr<bool> GoesOn(double seconds) {
    const double next = 4 * seconds * kTogether * (1 + kTries * kMessages / kTogether);
    const double left = std::chrono::duration<double>(end_ - Clock::now()).count();
    MESHWORK_ASSIGN_OR_RETURN(
        const std::vector<std::string> all,
        transport_.AllGather("how long to measure", seconds < kLongEnough && next < left ? "on" : "done"));
    return std::all_of(all.begin(), all.end(), [](const std::string& said) { return said == "on"; });
  }

 private:
  Transport& transport_;
  const Clock::time_point end_;
};

}  // namespace

absl::StatusOr<Link> MeasureLink(Transport& transport, std::chrono::milliseconds budget) {
  MESHWORK_CHECK(transport.num_domains() >= 2);
  Ring ring(transport, Clock::now() + budget);
  Link mine;
  MESHWORK_ASSIGN_OR_RETURN(mine.latency, ring.Best(kSmall, /*together=*/1));
  for (int64_t bytes = kLeastLarge; bytes <= kMostLarge; bytes *= 4) {
    MESHWORK_ASSIGN_OR_RETURN(const double seconds, ring.Best(bytes, kTogether));
    // The latency passes once for all messages that are under way.
    const double crossing = std::max(seconds - mine.latency / kTogether, seconds / 4);
    mine.bandwidth = std::max(mine.bandwidth, static_cast<double>(bytes) / crossing);
    MESHWORK_ASSIGN_OR_RETURN(const bool goes_on, ring.GoesOn(seconds));
    if (!goes_on) break;
  }
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            transport.AllGather("the link", LinkToJson(mine)));
  Link slowest = mine;
  for (const std::string& text : all) {
    MESHWORK_ASSIGN_OR_RETURN(const Link link, LinkFromJson(text));
    slowest = Slowest(slowest, link);
  }
  return slowest;
}

std::string LinkToJson(const Link& link) {
  return nlohmann::json({{"bandwidth", link.bandwidth}, {"latency", link.latency}}).dump();
}

absl::StatusOr<Link> LinkFromJson(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_number() ? json[name].get<double>()
                                                                             : -1.0;
  };
  const Link link{.bandwidth = number("bandwidth"), .latency = number("latency")};
  if (link.bandwidth > 0 && std::isfinite(link.bandwidth) && link.latency >= 0 && std::isfinite(link.latency))
    return link;
  return InvalidArgument(
      "Link: {} is no {{\"bandwidth\": bytes per second, above 0, \"latency\": seconds, 0 or above}}.", text);
}

}  // namespace meshwork
