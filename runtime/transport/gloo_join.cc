#include "meshwork/runtime/transport/gloo_link.h"

#ifdef MESHWORK_HAVE_GLOO
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/transport/meeting.h"

namespace meshwork {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Waits consist of parts of these lengths; after each part it is checked whether the link is aborted.
constexpr milliseconds kSlice(100), kLook(20);

milliseconds Until(SteadyClock::time_point end) {
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(end - SteadyClock::now()));
}

// ---- What lives as long as this process.

// How many transports `process` has made by this rendezvous in this generation before.
int64_t NextNumber(const std::string& rendezvous, int64_t generation, int64_t process) {
  static auto* const mutex = new std::mutex;
  static auto* const numbers = new std::map<std::tuple<std::string, int64_t, int64_t>, int64_t>;
  const std::lock_guard lock(*mutex);
  return (*numbers)[{rendezvous, generation, process}]++;
}

// ---- The files of Gloo's connections.

// This process's epoll descriptors.
std::set<int> Pollers() {
  std::set<int> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(it->path(), gone) == "anon_inode:[eventpoll]")
      found.insert(std::atoi(it->path().filename().c_str()));
  }
  return found;
}

// The descriptors that one of them watches (proc(5), fdinfo).
std::vector<int> PolledBy(int poller) {
  std::vector<int> found;
  std::ifstream file(fmt::format("/proc/self/fdinfo/{}", poller));
  for (std::string word; file >> word;)
    if (int fd = 0; word == "tfd:" && file >> fd) found.push_back(fd);
  return found;
}

// ---- What processes tell each other.

// The part of a check-in that all processes must have in common: the first line. The second is random.
std::string HelloIn(const std::string& said) { return said.substr(0, said.find('\n')); }

// The store by which Gloo's processes tell each other their ports.
class PortStore : public gloo::rendezvous::Store {
 public:
  PortStore(std::shared_ptr<Rendezvous> rendezvous, std::string prefix, SteadyClock::time_point end)
      : rendezvous_(std::move(rendezvous)), prefix_(std::move(prefix)), end_(end) {}

  // Ends all waiting. Any thread may call it.
  void Leave() { is_left_ = true; }

  void set(const std::string& key, const std::vector<char>& data) override {
    Expect(rendezvous_->Set(prefix_ + key, std::string(data.begin(), data.end()), Until(end_)));
  }
  std::vector<char> get(const std::string& key) override {
    while (true) {
      const absl::StatusOr<std::string> value =
          rendezvous_->Get(prefix_ + key, std::min(kSlice, Until(end_)));
      if (value.ok()) return {value->begin(), value->end()};
      if (!is_left_ && SteadyClock::now() < end_) continue;
      missing_ = std::atoi(key.c_str());
      Expect(value.status());
    }
  }
  void wait(const std::vector<std::string>&) override {}  // get waits
  void wait(const std::vector<std::string>&, const milliseconds&) override {}

  const absl::Status& status() const { return status_; }
  int64_t missing() const { return missing_; }  // the process that has said nothing; -1: none

 private:
  void Expect(const absl::Status& status) {
    if (status.ok()) return;
    status_ = status;
    throw gloo::IoException(std::string(MessageOf(status)));
  }

  const std::shared_ptr<Rendezvous> rendezvous_;
  const std::string prefix_;
  const SteadyClock::time_point end_;
  std::atomic<bool> is_left_{false};
  absl::Status status_;
  int64_t missing_ = -1;
};

// Connects all processes, on a thread of its own: Gloo goes on until its own deadline, whatever happens meanwhile.
class FullMesh {
 public:
  FullMesh(std::shared_ptr<gloo::rendezvous::Context> context,
           std::shared_ptr<gloo::transport::Device> device, std::unique_ptr<PortStore> store)
      : work_(std::make_shared<Work>(Work{std::move(context), std::move(device), std::move(store), {}})),
        ended_(work_->ended.get_future()),
        thread_([work = work_] { Connect(*work); }) {}

  // If it has not ended, the thread is left alone, with all that it uses.
  ~FullMesh() {
    work_->store->Leave();
    if (has_ended_) thread_.join();
    else thread_.detach();
  }

  // Whether it has ended within this time.
  bool HasEnded(milliseconds time) {
    return has_ended_ = has_ended_ || ended_.wait_for(time) == std::future_status::ready;
  }
  // Throws what Gloo has thrown. REQUIRES: it has ended, and this was not called before.
  void Get() { ended_.get(); }
  // REQUIRES: it has ended.
  const PortStore& store() const { return *work_->store; }

 private:
  struct Work {
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::shared_ptr<gloo::transport::Device> device;
    std::unique_ptr<PortStore> store;
    std::promise<void> ended;
  };

  static void Connect(Work& work) {
    try {
      work.context->connectFullMesh(*work.store, work.device);
      work.ended.set_value();
    } catch (...) {
      work.ended.set_exception(std::current_exception());
    }
  }

  const std::shared_ptr<Work> work_;
  std::future<void> ended_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace

absl::Status GlooLink::Join() {
  const SteadyClock::time_point end = EndOf(join_deadline_);
  if (cluster_.num_processes() == 1) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(FindRendezvous());
  MESHWORK_RETURN_IF_ERROR(CheckIn(end));
  if (domain_ >= num_domains_)
    return absl::NotFoundError(
        fmt::format("Gloo: process {} has no domain; the first {} have.", domain_, num_domains_));
  MESHWORK_RETURN_IF_ERROR(MeetAll(end));
  return num_domains_ == 1 ? absl::OkStatus() : ConnectPeers(end);
}

absl::Status GlooLink::FindRendezvous() {
  MESHWORK_ASSIGN_OR_RETURN(const std::string address, RendezvousOf(cluster_, options_.meeting.rendezvous));
  absl::StatusOr<std::unique_ptr<Rendezvous>> rendezvous = MeetAt(cluster_, options_.meeting, join_deadline_);
  if (rendezvous.status().code() == absl::StatusCode::kUnavailable && options_.meeting.rendezvous.empty())
    return absl::DeadlineExceededError(
        fmt::format("{} {}", MessageOf(DidNotCome({NameOf(0)})), MessageOf(rendezvous.status())));
  MESHWORK_ASSIGN_OR_RETURN(rendezvous_, std::move(rendezvous));
  MESHWORK_ASSIGN_OR_RETURN(rendezvous_address_, Resolve(address));
  prefix_ = fmt::format("{}/{}/", options_.generation, NextNumber(address, options_.generation, domain_));
  WatchReason();
  return absl::OkStatus();
}

absl::Status GlooLink::CheckIn(SteadyClock::time_point end) {
  hello_ = fmt::format(
      "meshwork {}, {}, {}, deadline {} ms", MESHWORK_VERSION,
      cluster_.num_processes() == 1 ? "1 process" : fmt::format("{} processes", cluster_.num_processes()),
      Count(num_domains_, "domain"), options_.deadline.count());
  const std::string said = fmt::format("{}\n{}", hello_, RandomName());
  MESHWORK_ASSIGN_OR_RETURN(const std::string first,
                            rendezvous_->SetFirst(HelloKey(domain_), said, Until(end)));
  if (first == said) return absl::OkStatus();
  return absl::AlreadyExistsError(fmt::format(
      "Gloo: another process has joined as {}. Each process has a task of its own, and a rendezvous serves "
      "one run of a job: start it again for the next one.",
      NameOf(domain_)));
}

std::string GlooLink::HelloKey(int64_t process) const { return fmt::format("{}hello {}", prefix_, process); }

absl::Status GlooLink::MeetAll(SteadyClock::time_point end) {
  for (int64_t process = 0; process < cluster_.num_processes(); ++process) {
    while (true) {
      const absl::StatusOr<std::string> said =
          rendezvous_->Get(HelloKey(process), std::min(kSlice, Until(end)));
      if (is_aborted_) return status();
      if (said.ok() && HelloIn(*said) == hello_) break;
      if (said.ok()) return Fail(Differ());
      if (SteadyClock::now() < end) continue;
      if (said.status().code() != absl::StatusCode::kDeadlineExceeded) return said.status();
      return Fail(Missing());
    }
  }
  return absl::OkStatus();
}

absl::Status GlooLink::Differ() {
  std::map<std::string, std::vector<std::string>> who;
  for (int64_t process = 0; process < cluster_.num_processes(); ++process) {
    const absl::StatusOr<std::string> said = rendezvous_->Find(HelloKey(process), kAnswer);
    if (said.ok()) who[HelloIn(*said)].push_back(cluster_.TaskOf(process).ToString());
  }
  std::vector<std::string> texts;
  for (const auto& [hello, names] : who)
    texts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), Printable(hello)));
  std::sort(texts.begin(), texts.end());
  return InvalidArgument("Gloo: the processes differ: {}. Start all with the same.", fmt::join(texts, "; "));
}

absl::Status GlooLink::Missing() {
  std::vector<std::string> missing;
  for (int64_t process = 0; process < cluster_.num_processes(); ++process)
    if (!rendezvous_->Find(HelloKey(process), kAnswer).ok()) missing.push_back(NameOf(process));
  return DidNotCome(missing);
}

absl::Status GlooLink::DidNotCome(const std::vector<std::string>& missing) const {
  return absl::DeadlineExceededError(fmt::format(
      "Gloo: {} did not come within {} ms; {} waits. Check that all processes are started, with the "
      "same cluster.",
      fmt::join(missing, ", "), join_deadline_.count(), NameOf(domain_)));
}

absl::StatusOr<SocketAddress> GlooLink::OwnAddress() const {
  const std::string& own = cluster_.AddressOf(cluster_.task());
  SocketAddress address;
  if (own.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(address.ip, LocalIpTowards(rendezvous_address_));
  } else {
    MESHWORK_ASSIGN_OR_RETURN(address, Resolve(own));
  }
  address.port = 0;
  MESHWORK_RETURN_IF_ERROR(CanListen(address, own.empty() ? address.ip : own));
  return address;
}

absl::Status GlooLink::ConnectPeers(SteadyClock::time_point end) {
  const absl::StatusOr<SocketAddress> own = OwnAddress();
  if (!own.ok()) return Fail(Annotate(own.status(), "Gloo: "));
  const NoSigpipe guard;  // threads of Gloo, and the watcher, have none, either
  std::optional<FullMesh> mesh;
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = own->ip;
    const std::set<int> others = Pollers();
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
    std::set<int> pollers = Pollers();  // the device's
    for (int poller : others) pollers.erase(poller);
    auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(domain_),
                                                               static_cast<int>(num_domains_));
    context->setTimeout(std::max(kAnswer, Until(end) / 5));  // five times that to connect
    mesh.emplace(context, std::move(device), std::make_unique<PortStore>(rendezvous_, prefix_, end));
    while (!mesh->HasEnded(kLook))
      if (is_aborted_) return status();
    mesh->Get();
    std::vector<int> files(pollers.begin(), pollers.end());
    for (int poller : pollers)
      for (int fd : PolledBy(poller)) files.push_back(fd);
    connections_ = std::make_unique<ClosedInChildren>(std::move(files));
    context_ = std::move(context);
    AwaitByes();
  } catch (const std::exception& error) {
    if (is_aborted_) return status();
    if (mesh.has_value() && mesh->store().missing() >= 0)
      return Fail(DidNotCome({NameOf(mesh->store().missing())}));
    if (mesh.has_value() && !mesh->store().status().ok()) return Fail(mesh->store().status());
    return Fail(absl::UnavailableError(fmt::format("Gloo: {}", error.what())));
  }
  watcher_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

}  // namespace meshwork

#endif
