// A libFuzzer target: any text, read as a topology, gives an error or a topology whose links are positive and
// finite, on the mesh as it is and on the mesh cut in other ways.
//
// --prepare writes the initial corpus.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {
namespace {

constexpr std::string_view kSamples[] = {
    R"({"axes": {"host": {"bandwidth": 1e9, "latency": 2e-5}, "x": {"bandwidth": 150e9, "latency": 0}}})",
    R"({"axes": {"host": {"bandwidth": 1, "latency": 1}, "x:(1)2": {"bandwidth": 2e9, "latency": 3e-6},
         "x:(2)6": {"bandwidth": 4, "latency": 5}}, "flops": 1e14})"};

}  // namespace

void Try(std::string_view text) {
  const Mesh mesh = Mesh::Parse("host=4,x=12").value();
  const absl::StatusOr<Topology> topology = Topology::Parse(mesh, text);
  if (!topology.ok()) {
    if (!MessageOf(topology.status()).starts_with("topology:"))
      Finding("an error that does not say where", MessageOf(topology.status()));
    return;
  }
  if (!(topology->flops() > 0) || !std::isfinite(topology->flops())) Finding("no speed", text);
  for (const char* cut : {"host=4,x=12", "host=4,x=3*4", "host=2*2,x=2*2*3", "host=4,x=2*6"}) {
    const Mesh finer = Mesh::Parse(cut).value();
    if (!topology->CheckDescribes(finer).ok()) Finding("the topology of another mesh", text);
    for (const Link& link : topology->LinksOf(finer))
      if (!(link.bandwidth > 0) || !std::isfinite(link.bandwidth) || !(link.latency >= 0) ||
          !std::isfinite(link.latency))
        Finding("a link without a speed", text);
  }
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  int count = 0;
  for (std::string_view sample : kSamples)
    std::ofstream(folder / "samples" / fmt::format("{}.json", count++)) << sample;
}

}  // namespace meshwork
