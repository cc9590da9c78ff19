#include "meshwork/runtime/transport/mpi.h"

#include "meshwork/base/status.h"

#ifdef MESHWORK_HAVE_MPI
#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/fork.h"
#include "meshwork/runtime/transport/messages.h"
#endif

namespace meshwork {

#ifndef MESHWORK_HAVE_MPI

bool HasMpi() { return false; }

absl::StatusOr<std::unique_ptr<Transport>> MakeMpi(const MpiOptions&) {
  return absl::UnimplementedError(
      "MPI: this build of meshwork has none; install an MPI (libopenmpi-dev on Debian) and build again.");
}

#else

namespace {

using Clock = std::chrono::steady_clock;

// Tags of messages. Operations and texts are in the same order in all domains, and messages with one tag
// between two processes do not overtake each other (MPI 3.1, section 3.5).
constexpr int kDataTag = 1, kAbortTag = 2;
constexpr int64_t kMostBytes = int64_t{1} << 30;  // of one message: MPI counts in int
constexpr int64_t kAhead = int64_t{4} << 20;      // bytes: see Outbox
// The latency, in seconds, above which a link is far. Over a far link messages go in pieces that MPI sends without
// asking the receiver first; Open MPI does so up to 64 KiB over TCP. On faster links asking is cheaper than pieces.
constexpr double kFar = 100e-6;
constexpr int64_t kFarPiece = int64_t{60} << 10, kFarAhead = int64_t{512} << 10;
constexpr auto kWatch = std::chrono::milliseconds(20);
// The time between polls while messages are under way; to poll more often costs more than it gains.
constexpr auto kPoll = std::chrono::microseconds(300), kFarPoll = std::chrono::microseconds(1000);
constexpr auto kLeaving = std::chrono::seconds(1);   // for messages under way, after an abort
constexpr auto kPatience = std::chrono::seconds(2);  // with others, after an abort

std::atomic<bool> any_aborted{false};

absl::Status Check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::InternalError(
      fmt::format("{}: MPI reports {}.", what, std::string_view(text, static_cast<size_t>(length))));
}

// The process that first asked for a transport.
const ForkMark& FirstUse() {
  static const ForkMark mark;
  return mark;
}

// Runs at the end of the process. MPI_Finalize waits for all other processes, and may hang if a transport was aborted.
// Then this process ends after a while without it, so that the launcher ends the job.
void Finalize() {
  if (!FirstUse().is_here()) return;  // the parent's
  int done = 0;
  MPI_Finalized(&done);
  if (done != 0) return;
  if (!any_aborted) {
    MPI_Finalize();
    return;
  }
  static auto* const finalized = new std::promise<void>;  // the thread may outlive this function
  std::thread([] {
    MPI_Finalize();
    finalized->set_value();
  }).detach();
  finalized->get_future().wait_for(kPatience);
}

// Runs call(), which needs all processes, on a thread. If they do not come, the thread is left alone, because MPI waits
// for ever.
absl::Status Within(std::chrono::milliseconds deadline, std::function<absl::Status()> call) {
  auto result = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> done = result->get_future();
  std::thread thread([result, call = std::move(call)] { result->set_value(call()); });
  if (done.wait_for(deadline) == std::future_status::ready) {
    thread.join();
    return done.get();
  }
  thread.detach();
  any_aborted = true;
  return absl::DeadlineExceededError(fmt::format(
      "MPI: not all of the launched processes came within {} ms. Check that all run the same program; MPI does "
      "not say which are missing.",
      deadline.count()));
}

// Initialises MPI, unless the program has done so.
absl::Status Initialize(std::chrono::milliseconds deadline) {
  MESHWORK_RETURN_IF_ERROR(FirstUse().Check("MPI"));
  int finalized = 0, initialized = 0, level = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    return absl::FailedPreconditionError("MPI: this process has finalised MPI; make the transport before.");
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    MESHWORK_RETURN_IF_ERROR(Check(MPI_Query_thread(&level), "MPI_Query_thread"));
    if (level >= MPI_THREAD_SERIALIZED) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "MPI: the program has initialised MPI for one thread; call MPI_Init_thread with at least "
        "MPI_THREAD_SERIALIZED, or leave it to meshwork.");
  }
  MESHWORK_RETURN_IF_ERROR(Within(deadline, [] {
    int given = 0;
    return Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
  }));
  std::atexit(Finalize);
  MESHWORK_RETURN_IF_ERROR(Check(MPI_Query_thread(&level), "MPI_Query_thread"));
  if (level < MPI_THREAD_SERIALIZED)
    return absl::FailedPreconditionError("MPI: this MPI is built for programs of one thread.");
  return absl::OkStatus();
}

// One thread at a time calls MPI: it holds `mpi_`.
class MpiLink : public MessageLink {
 public:
  MpiLink(MPI_Comm comm, std::chrono::milliseconds deadline) : comm_(comm), deadline_(deadline) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    outboxes_.resize(static_cast<size_t>(size_));
    watcher_ = std::thread([this] { Watch(); });
  }

  std::string_view name() const override { return "mpi"; }

  ~MpiLink() override {
    {
      const std::lock_guard lock(state_);
      stop_ = true;
    }
    changed_.notify_all();
    watcher_.join();
    const std::lock_guard mpi(mpi_);
    Tell();
    if (status().ok()) MPI_Comm_free(&comm_);
    else any_aborted = true;
  }

  int64_t domain() const override { return rank_; }
  int64_t num_domains() const override { return size_; }

  absl::Status status() override {
    const std::lock_guard lock(state_);
    return aborted_;
  }

  void Abort(absl::Status reason) override {
    MESHWORK_CHECK(!reason.ok());
    {
      const std::lock_guard lock(state_);
      if (!aborted_.ok()) return;
      aborted_ = std::move(reason);
      must_tell_ = true;
      is_aborted_ = true;
    }
    changed_.notify_all();
  }

  absl::Status Fail(const absl::Status& reason) override {
    Abort(reason);
    return status();
  }

  std::unique_ptr<MessageExchange> MakeExchange(std::string where, uint64_t /*slot*/, const Link& speed,
                                                std::vector<Message> sends,
                                                std::vector<Message> receives) override {
    return std::make_unique<Exchange>(*this, std::move(where), speed, std::move(sends), std::move(receives));
  }

 private:
  // Between Start and Wait the watcher moves the messages on; in Run the waiting thread does.
  class Exchange : public MessageExchange {
   public:
    Exchange(MpiLink& link, std::string where, const Link& speed, std::vector<Message> sends,
             std::vector<Message> receives)
        : MessageExchange(std::move(where), std::move(sends), std::move(receives)),
          link_(link),
          is_far_(speed.latency > kFar),
          piece_bytes_(is_far_ ? kFarPiece : kMostBytes),
          ahead_(is_far_ ? kFarAhead : kAhead) {}

    // Wait must follow even if Start throws.
    absl::Status Start() override {
      return link_.CallMpi([&] {
        ++link_.under_way_;
        link_.is_far_ = is_far_;
        absl::Status status = Post();
        if (!status.ok()) --link_.under_way_;
        return status;
      });
    }
    absl::Status Wait() override {
      return link_.CallMpi([&] {
        absl::Status status = Await();
        --link_.under_way_;
        return status;
      });
    }
    absl::Status Run() override {
      return link_.CallMpi([&]() -> absl::Status {
        MESHWORK_RETURN_IF_ERROR(Post());
        return Await();
      });
    }

   private:
    friend class MpiLink;
    absl::Status Post() { return link_.Post(*this); }
    absl::Status Await() { return link_.Await(*this); }

    MpiLink& link_;
    const bool is_far_;
    const int64_t piece_bytes_, ahead_;
    std::vector<MPI_Request> received_;  // of the receives
    int64_t unsent_ = 0;                 // pieces in outboxes
  };

  // The messages to one domain, in order. MPI moves all messages that it has at the same time, a part of each in turn,
  // so that each arrives only when all do. So MPI gets the next message only while few bytes are under way: enough to
  // hide the time in which it asks whether the receiver is ready. A message that was sent first then arrives first, and
  // the receiver computes with it while the rest is on its way.
  struct Piece {
    Exchange* exchange;
    std::byte* data;
    int bytes;
    bool is_matched;  // its request ends when the receiver has begun to take it, and not before
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Outbox {
    std::deque<Piece> pieces;
    size_t posted = 0;  // the first of the pieces
    int64_t bytes = 0;  // of these
  };

  // While a Busy lives, a thread other than the watcher calls MPI, or wants to.
  class Busy {
   public:
    explicit Busy(MpiLink& link) : link_(link) { ++link_.callers_; }
    ~Busy() { --link_.callers_; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    MpiLink& link_;
  };

  // Runs f(), which calls MPI, while no other thread does. Afterwards the watcher looks again whether it has to poll.
  template <typename F>
  absl::Status CallMpi(F&& f) {
    absl::Status status;
    {
      const Busy busy(*this);
      const std::lock_guard mpi(mpi_);
      status = f();
    }
    if (under_way_ == 0) return status;
    { const std::lock_guard lock(state_); }  // the watcher does not miss it
    changed_.notify_all();
    return status;
  }

  absl::Status GiveUp(absl::Status reason, Exchange& exchange) {
    Abort(std::move(reason));
    return Leave(exchange);
  }

  // Begins to send and to receive.
  absl::Status Post(Exchange& exchange) {
    if (is_aborted_) return Aborted();
    exchange.received_.clear();
    for (const Message& receive : exchange.receives) {
      ForPieces(exchange, receive, [&](std::byte* data, int bytes, bool) {
        if (is_aborted_) return;
        MPI_Request request = MPI_REQUEST_NULL;
        const int code =
            MPI_Irecv(data, bytes, MPI_BYTE, static_cast<int>(receive.domain), kDataTag, comm_, &request);
        if (code != MPI_SUCCESS) Abort(Check(code, exchange.where));
        exchange.received_.push_back(request);
      });
    }
    for (const Message& send : exchange.sends) {
      // If nothing comes back from the other domain, only a matched message says that it is there.
      const bool is_answered =
          std::any_of(exchange.receives.begin(), exchange.receives.end(),
                      [&](const Message& receive) { return receive.domain == send.domain; });
      ForPieces(exchange, send, [&](std::byte* data, int bytes, bool is_last) {
        outboxes_[static_cast<size_t>(send.domain)].pieces.push_back(
            {&exchange, data, bytes, is_last && !is_answered});
        ++exchange.unsent_;
      });
      Send(static_cast<int>(send.domain));
    }
    return is_aborted_ ? Leave(exchange) : absl::OkStatus();
  }

  template <typename F>
  static void ForPieces(const Exchange& exchange, const Message& message, const F& f) {
    int64_t done = 0;
    do {
      const int64_t bytes = std::min(message.bytes - done, exchange.piece_bytes_);
      f(message.data + done, static_cast<int>(bytes), done + bytes == message.bytes);
      done += bytes;
    } while (done < message.bytes);
  }

  // Notes what has left the outbox of `domain`, and posts what may follow.
  void Send(int domain) {
    Outbox& outbox = outboxes_[static_cast<size_t>(domain)];
    while (outbox.posted > 0 && !is_aborted_) {
      Piece& first = outbox.pieces.front();
      int done = 0;
      const int code = MPI_Test(&first.request, &done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) return Abort(Check(code, first.exchange->where));
      if (done == 0) break;
      --first.exchange->unsent_;
      --outbox.posted;
      outbox.bytes -= first.bytes;
      outbox.pieces.pop_front();
    }
    while (outbox.posted < outbox.pieces.size() && !is_aborted_) {
      Piece& next = outbox.pieces[outbox.posted];
      if (outbox.posted > 0 && outbox.bytes >= next.exchange->ahead_) break;
      const auto post = next.is_matched ? MPI_Issend : MPI_Isend;
      const int code = post(next.data, next.bytes, MPI_BYTE, domain, kDataTag, comm_, &next.request);
      if (code != MPI_SUCCESS) return Abort(Check(code, next.exchange->where));
      ++outbox.posted;
      outbox.bytes += next.bytes;
    }
  }
  void SendAll() {
    for (int domain = 0; domain < size_; ++domain) Send(domain);
  }

  absl::Status Await(Exchange& exchange) {
    if (is_aborted_) return Leave(exchange);
    const Clock::time_point start = Clock::now();
    for (int64_t turn = 1;; ++turn) {
      SendAll();
      int done = 0;
      const int code = TestAll(exchange.received_, &done);
      if (code != MPI_SUCCESS) return GiveUp(Check(code, exchange.where), exchange);
      if (done != 0 && exchange.unsent_ == 0) return absl::OkStatus();
      if (turn % 16 != 0) continue;
      Listen();
      if (is_aborted_) return Leave(exchange);
      if (Clock::now() - start > deadline_) return Late(exchange);
      if (turn % 256 == 0) std::this_thread::yield();
    }
  }

  static int TestAll(std::vector<MPI_Request>& requests, int* done) {
    return MPI_Testall(static_cast<int>(requests.size()), requests.data(), done, MPI_STATUSES_IGNORE);
  }

  absl::Status Late(Exchange& exchange) {
    std::vector<int64_t> missing;
    size_t next = 0;
    for (const Message& receive : exchange.receives) {
      ForPieces(exchange, receive, [&](std::byte*, int, bool) {
        int done = 0;
        MPI_Request_get_status(exchange.received_[next++], &done, MPI_STATUS_IGNORE);
        if (done == 0) missing.push_back(receive.domain);
      });
    }
    for (size_t domain = 0; domain < outboxes_.size(); ++domain)
      for (const Piece& piece : outboxes_[domain].pieces)
        if (piece.exchange == &exchange) missing.push_back(static_cast<int64_t>(domain));
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    return GiveUp(LateError(exchange.where, missing, deadline_, rank_), exchange);
  }

  // Gives up the messages of the exchange. Receives that are not matched yet are cancelled. The domain waits a while
  // for matched receives and for sends, of which MPI does not say whether they are matched: the other domains move
  // these on until they leave, too.
  absl::Status Leave(Exchange& exchange) {
    Tell();
    std::vector<MPI_Request> requests = TakeBack(exchange);
    for (MPI_Request& request : requests)
      if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
    if (leaves_at_ == Clock::time_point()) leaves_at_ = Clock::now() + kLeaving;
    int done = 0;
    do {
      if (TestAll(requests, &done) != MPI_SUCCESS) break;
    } while (done == 0 && Clock::now() < leaves_at_);
    for (MPI_Request& request : requests)
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    return Aborted();
  }

  // Takes the requests of the exchange out of it and out of the outboxes.
  std::vector<MPI_Request> TakeBack(Exchange& exchange) {
    std::vector<MPI_Request> requests = std::exchange(exchange.received_, {});
    for (Outbox& outbox : outboxes_) {
      std::deque<Piece> others;
      size_t posted = 0;
      for (size_t i = 0; i < outbox.pieces.size(); ++i) {
        const bool is_posted = i < outbox.posted;
        if (outbox.pieces[i].exchange != &exchange) {
          others.push_back(outbox.pieces[i]);
          posted += is_posted ? 1 : 0;
        } else if (is_posted) {
          requests.push_back(outbox.pieces[i].request);
          outbox.bytes -= outbox.pieces[i].bytes;
        }
      }
      outbox.pieces = std::move(others);
      outbox.posted = posted;
    }
    exchange.unsent_ = 0;
    return requests;
  }

  absl::Status Aborted() {
    Tell();
    return status();
  }

  // Tells the others why this domain has aborted, once.
  void Tell() {
    {
      const std::lock_guard lock(state_);
      if (!must_tell_) return;
      must_tell_ = false;
      told_ = EncodeReason(aborted_);
    }
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Request request;
      if (MPI_Isend(told_.data(), static_cast<int>(told_.size()), MPI_BYTE, other, kAbortTag, comm_,
                    &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
    }
  }

  // Hears of another domain's abort.
  void Listen() {
    int there = 0;
    MPI_Status probed;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kAbortTag, comm_, &there, &probed) != MPI_SUCCESS || there == 0) return;
    int bytes = 0;
    MPI_Get_count(&probed, MPI_BYTE, &bytes);
    std::string text(static_cast<size_t>(std::max(bytes, 0)), '\0');
    MPI_Recv(text.data(), bytes, MPI_BYTE, probed.MPI_SOURCE, kAbortTag, comm_, MPI_STATUS_IGNORE);
    const std::lock_guard lock(state_);
    if (!aborted_.ok()) return;
    aborted_ = DecodeReason(text);
    is_aborted_ = true;
  }

  // This thread hears of aborts and tells of them while nobody else calls MPI. While messages are under way, it moves
  // them on: MPI does so only within calls of its functions.
  void Watch() {
    prctl(PR_SET_TIMERSLACK, 1UL);  // nanoseconds
    std::unique_lock lock(state_);
    const auto must_poll = [&] { return under_way_ > 0 && callers_ == 0; };
    while (!stop_) {
      if (must_poll()) changed_.wait_for(lock, is_far_ ? kFarPoll : kPoll);
      else changed_.wait_for(lock, kWatch, [&] { return stop_ || must_tell_ || must_poll(); });
      lock.unlock();
      if (const std::unique_lock mpi(mpi_, std::try_to_lock); mpi.owns_lock()) {
        Tell();
        SendAll();
        Listen();
      }
      lock.lock();
    }
  }

  MPI_Comm comm_;
  const std::chrono::milliseconds deadline_;
  int rank_ = 0, size_ = 1;
  std::mutex mpi_;                // before state_, where both are held
  std::vector<Outbox> outboxes_;  // by domain; guarded by mpi_
  Clock::time_point leaves_at_;   // until then messages are waited for after an abort
  std::mutex state_;
  std::condition_variable changed_;
  std::atomic<bool> is_aborted_{false};
  std::atomic<bool> is_far_{false};  // whether the exchange started last crosses a far link
  std::atomic<int> under_way_{0};    // operations that were started and not waited for
  std::atomic<int> callers_{0};      // threads that call MPI, or want to, without the watcher
  absl::Status aborted_;
  bool must_tell_ = false, stop_ = false;
  std::string told_;
  std::thread watcher_;
};

}  // namespace

bool HasMpi() { return true; }

absl::StatusOr<std::unique_ptr<Transport>> MakeMpi(const MpiOptions& options) {
  const std::chrono::milliseconds join_deadline =
      options.join_deadline.count() == 0 ? options.deadline : options.join_deadline;
  MESHWORK_RETURN_IF_ERROR(Initialize(join_deadline));
  int rank = 0, size = 0;
  MESHWORK_RETURN_IF_ERROR(Check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  MESHWORK_RETURN_IF_ERROR(Check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
  const int64_t domains = options.num_domains == 0 ? size : options.num_domains;
  if (domains < 1 || domains > size)
    return InvalidArgument("MPI: {} among the {} launched processes; start as many.",
                           Count(domains, "domain"), size);
  const auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const int color = rank < domains ? 0 : MPI_UNDEFINED;
  MESHWORK_RETURN_IF_ERROR(Within(join_deadline, [made, color, rank] {
    return Check(MPI_Comm_split(MPI_COMM_WORLD, color, rank, made.get()), "MPI_Comm_split");
  }));
  const MPI_Comm comm = *made;
  if (comm == MPI_COMM_NULL)
    return absl::NotFoundError(
        fmt::format("MPI: process {} has no domain; the transport has {}.", rank, Count(domains, "domain")));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const std::shared_ptr<MpiLink> link(new MpiLink(comm, options.deadline), DeleteUnlessForked());
  return MakeMessageTransport(link, {.bandwidth = 2e9, .latency = 16e-6}, options.deadline);
}

#endif

}  // namespace meshwork
