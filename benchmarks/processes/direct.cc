#include "benchmarks/processes/direct.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "meshwork/base/status.h"

#ifdef MESHWORK_HAVE_MPI
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#endif
#ifdef MESHWORK_HAVE_GLOO
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#endif

namespace meshwork {
namespace {

std::vector<float> Ones(int64_t bytes) {
  return std::vector<float>(static_cast<size_t>(std::max<int64_t>(1, bytes / 4)), 1.0F);
}

#ifdef MESHWORK_HAVE_MPI
class DirectMpi : public DirectEngine {
 public:
  std::string name() const override { return "MPI"; }

  absl::Status AllReduce(int64_t bytes, const std::function<absl::Status(const Call&)>& timed) override {
    const std::vector<float> term = Ones(bytes);
    std::vector<float> sum(term.size());
    MPI_Barrier(MPI_COMM_WORLD);
    return timed([&] {
      const int code = MPI_Allreduce(term.data(), sum.data(), static_cast<int>(term.size()), MPI_FLOAT,
                                     MPI_SUM, MPI_COMM_WORLD);
      return code == MPI_SUCCESS ? absl::OkStatus()
                                 : absl::InternalError(fmt::format("MPI_Allreduce: error {}", code));
    });
  }
};
#endif

#ifdef MESHWORK_HAVE_GLOO
class DirectGloo : public DirectEngine {
 public:
  DirectGloo(const Cluster& cluster, const std::string& meeting)
      : context_(std::make_shared<gloo::rendezvous::Context>(static_cast<int>(cluster.process()),
                                                             static_cast<int>(cluster.num_processes()))) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(meeting);
    context_->connectFullMesh(store, device);
  }
  std::string name() const override { return "Gloo"; }

  absl::Status AllReduce(int64_t bytes, const std::function<absl::Status(const Call&)>& timed) override {
    std::vector<float> term = Ones(bytes), sum(term.size());
    gloo::AllreduceOptions options(context_);
    options.setInput(term.data(), term.size());
    options.setOutput(sum.data(), sum.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    return timed([&] {
      try {
        gloo::allreduce(options);
      } catch (const std::exception& error) {
        return absl::InternalError(fmt::format("Gloo: {}", error.what()));
      }
      return absl::OkStatus();
    });
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
};
#endif

}  // namespace

absl::StatusOr<std::unique_ptr<DirectEngine>> MakeDirectMpi() {
#ifdef MESHWORK_HAVE_MPI
  return std::make_unique<DirectMpi>();
#else
  return absl::UnimplementedError("This build has no MPI.");
#endif
}

absl::StatusOr<std::unique_ptr<DirectEngine>> MakeDirectGloo([[maybe_unused]] const Cluster& cluster,
                                                             [[maybe_unused]] const std::string& meeting) {
#ifdef MESHWORK_HAVE_GLOO
  try {
    return std::make_unique<DirectGloo>(cluster, meeting);
  } catch (const std::exception& error) {
    return absl::InternalError(fmt::format("Gloo: {}", error.what()));
  }
#else
  return absl::UnimplementedError("This build has no Gloo.");
#endif
}

}  // namespace meshwork
