#include "meshwork/runtime/transport/clocks.h"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The first round is the longest: it waits for domain 0, and transports compare sizes before an operation first runs.
constexpr int kRounds = 8;

// The clock of domain 0, for another domain.
class Question {
 public:
  // In all domains, as they must prepare the same operations.
  static absl::StatusOr<Question> Prepare(Transport& transport, int64_t asks) {
    const std::vector<RemotePart> to_0 = {{0, sizeof(int64_t)}}, to_other = {{asks, sizeof(int64_t)}};
    RemoteSpec ask{.where = fmt::format("the clock of domain {}", asks)}, answer = ask;
    if (transport.domain() == asks) {
      ask.sends = to_0;
      answer.receives = to_0;
    } else if (transport.domain() == 0) {
      ask.receives = to_other;
      answer.sends = to_other;
    }
    Question question;
    MESHWORK_ASSIGN_OR_RETURN(question.ask_, transport.Prepare(std::move(ask)));
    MESHWORK_ASSIGN_OR_RETURN(question.answer_, transport.Prepare(std::move(answer)));
    return question;
  }

  // In the domain that asks: what domain 0 says.
  absl::StatusOr<int64_t> Ask() {
    int64_t asked = 0, answered = 0;
    MESHWORK_RETURN_IF_ERROR(Send(*ask_, asked));
    MESHWORK_RETURN_IF_ERROR(Receive(*answer_, answered));
    return answered;
  }

  // In domain 0.
  absl::Status Answer(const std::function<int64_t()>& now) {
    int64_t asked = 0;
    MESHWORK_RETURN_IF_ERROR(Receive(*ask_, asked));
    const int64_t answer = now();
    return Send(*answer_, answer);
  }

 private:
  static absl::Status Send(RemoteOp& op, const int64_t& number) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
    return op.Run({&bytes, 1}, {});
  }
  static absl::Status Receive(RemoteOp& op, int64_t& number) {
    auto* const bytes = reinterpret_cast<std::byte*>(&number);
    return op.Run({}, {&bytes, 1});
  }

  std::unique_ptr<RemoteOp> ask_, answer_;
};

}  // namespace

int64_t SteadyNanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

absl::StatusOr<ClockOffset> AlignClocks(Transport& transport, const std::function<int64_t()>& now) {
  ClockOffset best{.at_ns = now()};
  for (int64_t asks = 1; asks < transport.num_domains(); ++asks) {
    MESHWORK_ASSIGN_OR_RETURN(Question question, Question::Prepare(transport, asks));
    for (int round = 0; round < kRounds; ++round) {
      if (transport.domain() == 0) MESHWORK_RETURN_IF_ERROR(question.Answer(now));
      if (transport.domain() != asks) continue;
      const int64_t start = now();
      MESHWORK_ASSIGN_OR_RETURN(const int64_t answer, question.Ask());
      const int64_t took = now() - start, middle = start + took / 2, error = (took + 1) / 2;
      if (round == 0 || error < best.error_ns) best = {middle, answer - middle, error};
    }
  }
  return best;
}

int64_t OffsetAt(int64_t at_ns, const ClockOffset& first, const ClockOffset& last) {
  if (at_ns <= first.at_ns) return first.offset_ns;
  if (at_ns >= last.at_ns) return last.offset_ns;
  const double part =
      static_cast<double>(at_ns - first.at_ns) / static_cast<double>(last.at_ns - first.at_ns);
  return first.offset_ns + std::llround(part * static_cast<double>(last.offset_ns - first.offset_ns));
}

}  // namespace meshwork
