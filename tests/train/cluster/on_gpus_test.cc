// Several devices of one process, as far as no GPU is needed: names, threads, errors.
#include "meshwork/train/cluster/on_gpus.h"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/session/session_backend.h"

namespace meshwork::on_gpus_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const JoinOptions kAlone{.cluster = "off"};

TEST(OnEachGpuTest, ReadsWhichGpus) {
  EXPECT_THAT(GpusOf("cpu").value(), IsEmpty());
  EXPECT_THAT(GpusOf("cuda").value(), ElementsAre(0));
  EXPECT_THAT(GpusOf("cuda:2").value(), ElementsAre(2));
  EXPECT_THAT(GpusOf("cuda:0-3").value(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(GpusOf("cuda:3-3").value(), ElementsAre(3));
  EXPECT_THAT(GpusOf("cuda:5,0-1").value(), ElementsAre(5, 0, 1));
  EXPECT_THAT(GpusOf("cuda:0,cuda:1").value(), ElementsAre(0, 1));
}

TEST(OnEachGpuTest, OneDeviceRunsInThisThread) {
  const std::thread::id here = std::this_thread::get_id();
  int runs = 0;
  const absl::Status status = OnEachGpu("cpu", kAlone, [&](Processes& domains, const std::string& device) {
    ++runs;
    EXPECT_EQ(std::this_thread::get_id(), here);
    EXPECT_EQ(device, "cpu");
    EXPECT_TRUE(domains.is_alone());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(runs, 1);
}

// Each thread plays a domain. Their sessions compute on CPUs here.
TEST(OnEachGpuTest, SeveralAreDomains) {
  std::vector<std::string> devices(3);
  std::vector<double> sums(3);
  const absl::Status status =
      OnEachGpu("cuda:1,4-5", kAlone, [&](Processes& domains, const std::string& device) -> absl::Status {
        const auto domain = static_cast<size_t>(domains.transport()->domain());
        devices[domain] = device;
        EXPECT_EQ(domains.is_chief(), domain == 0);
        EXPECT_EQ(domains.HowMany(), "3 GPUs");
        EXPECT_EQ(domains.Name(), std::vector<std::string>({"GPU 1", "GPU 4", "GPU 5"})[domain]);
        Graph g(Mesh::VirtualCpus("x=6").value());
        g.Output("sum", ReduceSum(g.Input("a", F32, {6}, {"x"}), {0}));
        SessionOptions options{.workers = 1, .own_cores = false};
        domains.Use(options);
        MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(g, options));
        MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                                  session.Run({{"a", Tensor::From<float>({6}, {1, 2, 3, 4, 5, 6})}}));
        MESHWORK_ASSIGN_OR_RETURN(sums[domain], result.scalar("sum"));
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(devices, ElementsAre("cuda:1", "cuda:4", "cuda:5"));
  EXPECT_THAT(sums, ElementsAre(21, 21, 21));
}

// The other threads, which wait for the one with the error, end too.
TEST(OnEachGpuTest, TheErrorOfOneEndsAll) {
  for (const bool throws : {false, true}) {
    const absl::Status status =
        OnEachGpu("cuda:0-2", kAlone, [&](Processes& domains, const std::string&) -> absl::Status {
          if (domains.transport()->domain() != 1)
            return domains.transport()->AllGather("nothing", "").status();
          if (throws) throw std::runtime_error("a library");
          return absl::NotFoundError("there is no data.");
        });
    EXPECT_THAT(MessageOf(status), HasSubstr("GPU 1: "));
    EXPECT_THAT(MessageOf(status), HasSubstr(throws ? "a library" : "GPU 1: there is no data."));
  }
}

}  // namespace
}  // namespace meshwork::on_gpus_test
