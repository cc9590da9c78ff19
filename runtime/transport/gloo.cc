#include "meshwork/runtime/transport/gloo.h"

#include "meshwork/base/status.h"

#ifdef MESHWORK_HAVE_GLOO
#include <gloo/transport/unbound_buffer.h>

#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/runtime/transport/gloo_link.h"
#endif

namespace meshwork {

#ifndef MESHWORK_HAVE_GLOO

bool HasGloo() { return false; }

absl::StatusOr<std::unique_ptr<Transport>> MakeGloo(const Cluster&, const GlooOptions&) {
  return absl::UnimplementedError(
      "Gloo: this build of meshwork has none; install Gloo and gRPC (libgloo-dev and libgrpc++-dev on Debian) and "
      "build again.");
}

#else

namespace {

class GlooOp : public RemoteOp {
 public:
  GlooOp(std::shared_ptr<GlooLink> link, uint64_t slot, RemoteSpec spec)
      : link_(std::move(link)), slot_(slot), spec_(std::move(spec)) {
    for (const RemotePart& part : spec_.receives)
      parcels_.push_back({part.domain, true, nullptr, part.bytes});
    for (const RemotePart& part : spec_.sends) parcels_.push_back({part.domain, false, nullptr, part.bytes});
  }
  ~GlooOp() override { Wait().IgnoreError(); }

  absl::Status Start(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) override {
    MESHWORK_CHECK(!is_under_way_ && sends.size() == spec_.sends.size() &&
                   receives.size() == spec_.receives.size());
    if (!is_checked_) {
      MESHWORK_RETURN_IF_ERROR(CheckSizes());
      is_checked_ = true;
    }
    for (size_t i = 0; i < receives.size(); ++i) parcels_[i].data = receives[i];
    for (size_t i = 0; i < sends.size(); ++i)
      parcels_[receives.size() + i].data = const_cast<std::byte*>(sends[i]);
    is_under_way_ = true;
    absl::Status status = link_->Start(slot_, parcels_);
    is_under_way_ = status.ok();
    return status;
  }

  absl::Status Wait() override {
    if (!is_under_way_) return absl::OkStatus();
    absl::Status status = link_->Wait(spec_.where, parcels_);
    is_under_way_ = false;
    return status;
  }

 private:
  // Before the first run, as Gloo ends the process where a message does not fit.
  absl::Status CheckSizes() {
    std::vector<int64_t> sent, received(spec_.receives.size());
    for (const RemotePart& part : spec_.sends) sent.push_back(part.bytes);
    std::vector<Parcel> parcels;
    for (size_t i = 0; i < received.size(); ++i)
      parcels.push_back(
          {spec_.receives[i].domain, true, reinterpret_cast<std::byte*>(&received[i]), sizeof(int64_t)});
    for (size_t i = 0; i < sent.size(); ++i)
      parcels.push_back(
          {spec_.sends[i].domain, false, reinterpret_cast<std::byte*>(&sent[i]), sizeof(int64_t)});
    MESHWORK_RETURN_IF_ERROR(link_->Exchange(spec_.where, slot_, parcels));
    for (size_t i = 0; i < received.size(); ++i) {
      const RemotePart& part = spec_.receives[i];
      if (received[i] == part.bytes) continue;
      return link_->Fail(SizeError(spec_.where, {part.domain, received[i]}, link_->domain(), part.bytes));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<GlooLink> link_;
  const uint64_t slot_;
  const RemoteSpec spec_;
  std::vector<Parcel> parcels_;  // what is received, then what is sent
  bool is_checked_ = false, is_under_way_ = false;
};

class Gloo : public Transport {
 public:
  explicit Gloo(std::shared_ptr<GlooLink> link) : link_(std::move(link)) { set_speed({1e9, 256e-6}); }

  int64_t domain() const override { return link_->domain(); }
  int64_t num_domains() const override { return link_->num_domains(); }

  absl::StatusOr<std::vector<std::string>> AllGather(std::string_view what, std::string_view text) override {
    const std::string where = fmt::format("Agree on {}", what);
    const uint64_t slot = asked_++ << 32;
    prepared_ = 0;
    std::string mine(text);
    int64_t size = std::ssize(mine);
    std::vector<int64_t> sizes(static_cast<size_t>(num_domains()), size);
    MESHWORK_RETURN_IF_ERROR(
        Exchange(where, slot, reinterpret_cast<std::byte*>(&size), sizeof(int64_t), [&](size_t d) {
          return std::pair(reinterpret_cast<std::byte*>(&sizes[d]), int64_t{sizeof(int64_t)});
        }));
    std::vector<std::string> texts(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) texts[d].resize(static_cast<size_t>(sizes[d]));
    MESHWORK_RETURN_IF_ERROR(Exchange(
        where, slot, reinterpret_cast<std::byte*>(mine.data()), size,
        [&](size_t d) { return std::pair(reinterpret_cast<std::byte*>(texts[d].data()), sizes[d]); }));
    texts[static_cast<size_t>(domain())] = std::move(mine);
    return texts;
  }

  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    MESHWORK_RETURN_IF_ERROR(link_->status());
    return std::make_unique<GlooOp>(link_, asked_ << 32 | ++prepared_, std::move(spec));
  }

  void Abort(absl::Status reason) override { link_->Abort(std::move(reason)); }

 private:
  // Sends one message to each other domain, and receives one; `into`: address and bytes, by domain.
  template <typename Into>
  absl::Status Exchange(std::string_view where, uint64_t slot, std::byte* data, int64_t bytes,
                        const Into& into) {
    std::vector<Parcel> parcels;
    for (int64_t other = 0; other < num_domains(); ++other) {
      if (other == domain()) continue;
      const auto [received, received_bytes] = into(static_cast<size_t>(other));
      parcels.push_back({other, true, received, received_bytes});
      parcels.push_back({other, false, data, bytes});
    }
    return link_->Exchange(where, slot, parcels);
  }

  const std::shared_ptr<GlooLink> link_;
  // How many texts were gathered, and how many operations prepared since: an operation's slot, by which messages of
  // different operations are never taken for each other.
  uint64_t asked_ = 0, prepared_ = 0;
};

}  // namespace

bool HasGloo() { return true; }

absl::StatusOr<std::unique_ptr<Transport>> MakeGloo(const Cluster& cluster, const GlooOptions& options) {
  if (cluster.process() < 0)
    return absl::FailedPreconditionError(
        fmt::format("Gloo: {} holds no devices of the mesh; only the chief and the workers exchange data.",
                    cluster.task().ToString()));
  const int64_t size = cluster.num_processes();
  const int64_t domains = options.num_domains == 0 ? size : options.num_domains;
  if (domains < 1 || domains > size)
    return InvalidArgument("Gloo: {} among the {} processes of the cluster; start as many.",
                           Count(domains, "domain"), size);
  auto link = std::make_shared<GlooLink>(cluster, options, domains);
  MESHWORK_RETURN_IF_ERROR(link->Join());
  return std::make_unique<Gloo>(std::move(link));
}

#endif

}  // namespace meshwork
