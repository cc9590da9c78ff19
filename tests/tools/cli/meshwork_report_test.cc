// The command report of the program meshwork. tests/tools/report tests the contents of the page.
#include <filesystem>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/report/html_report.h"
#include "meshwork/tools/simulate/machine.h"
#include "nlohmann/json.hpp"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_report_test {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kLinks =
    R"({"axes": {"batch": {"bandwidth": 1e9, "latency": 2e-5}, "model": {"bandwidth": 1e11, "latency": 2e-6}}})";

std::string PageOf(const std::string& file, const HtmlReportOptions& options = {}) {
  const Graph global = ParseGraph(kStep, file).value();
  return HtmlReport(global, Compile(global, options.compile).value(), options);
}

TEST_F(MeshworkTest, ReportWritesThePage) {
  const std::string step = Path("step.mw"), page = Path("page.html");
  EXPECT_EQ(Output({"report", step, "--output", page}), fmt::format("wrote {}\n", page));
  EXPECT_EQ(Contents(page), PageOf(step));
  EXPECT_EQ(Output({"report", step, "--output", "-"}), PageOf(step));
  EXPECT_EQ(Output({"report", step, "--output=-", "--alternatives=0"}), PageOf(step, {.alternatives = 0}));
  const Topology topology = Topology::Parse(Mesh::Parse("batch=2,model=4").value(), kLinks).value();
  EXPECT_EQ(Output({"report", step, "--output=-", "--topology", File("links.json", kLinks)}),
            PageOf(step, {.compile = {.topology = topology}}));
  const Machine machine = {.product_flops = 1e12, .op_seconds = 1e-6};
  EXPECT_EQ(Output({"report", step, "--output=-", "--machine",
                    File("machine.json", MachineToJson(machine).dump())}),
            PageOf(step, {.machine = machine}));
}

TEST_F(MeshworkTest, ReportNamesThePageAfterTheProgram) {
  EXPECT_EQ(Shell("\"$0\" report step.mw").out, "wrote step.html\n");
  EXPECT_EQ(Contents(Path("step.html")), PageOf("step.mw"));
  EXPECT_EQ(Shell("\"$0\" report - --mesh batch=4,model=2 < step.mw").out, "wrote step.html\n");
  EXPECT_THAT(Contents(Path("step.html")), HasSubstr("<title>step on mesh [batch=4, model=2]</title>"));
}

TEST_F(MeshworkTest, ReportThatFailsLeavesThePageThatIsThere) {
  const std::string step = Path("step.mw"), page = File("page.html", "as it was");
  ExpectFails(
      Run({"report", step, "--output", Path("none/page.html")}), 2,
      "meshwork report: --output: $/none/page.html: cannot be written: No such file or directory; its directory "
      "must exist, be writable and have room. Nothing was changed.");
  ExpectFails(
      Run({"report", step, "--output", dir()}), 2,
      "meshwork report: --output: $: is a directory; files are written whole and renamed, so give the path of a "
      "file.");
  ExpectFails(
      Run({"report", step, "--output", page, "--machine", File("process.json", R"({"workers": 2})")}), 2,
      "meshwork report: --machine: $/process.json is a process, whose 2 workers do the work of all its devices; "
      "meshwork simulate knows its times. Here, name a machine without \"workers\".");
  ExpectFails(Run({"report", step, "--alternatives", "-1"}), 2,
              "meshwork report: --alternatives: \"-1\" is not a whole number from 0 to 64.");
  const Finished none = Run({"report", step, "--output", page, "--machine", File("machine.json", "[]")});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("meshwork report: --machine: " + Path("machine.json")));
  const Finished over = Run({"report", step, "--output", page, "--memory-budget", "10"});
  EXPECT_EQ(over.code, 2);
  EXPECT_THAT(over.err,
              HasSubstr("meshwork report: Compile: step does not fit into the memory budget of 10 B."));
  EXPECT_EQ(Contents(page), "as it was");
}

TEST_F(MeshworkTest, ReportOverwritesNothingThatItReads) {
  const std::string step = File("step.html", kStep), machine = File("machine.json", "{}");
  const auto refused = [&](const std::string& given, const std::string& what) {
    return fmt::format(
        "meshwork report: --output: {} is {} too, and would be overwritten; give another name, as {}.report.html.",
        given, what, given.substr(0, given.rfind('.')));
  };
  ExpectFails(Shell("\"$0\" report step.html"), 2, refused("step.html", "FILE"));
  ExpectFails(Shell("\"$0\" report ./step.html --output ../$(basename $PWD)/step.html"), 2,
              refused("../" + std::filesystem::path(dir()).filename().string() + "/step.html", "FILE"));
  std::filesystem::create_symlink(step, Path("link.html"));
  ExpectFails(Shell("\"$0\" report step.html --output link.html"), 2, refused("link.html", "FILE"));
  ExpectFails(Shell("\"$0\" report step.html --machine machine.json --output machine.json"), 2,
              refused("machine.json", "--machine"));
  EXPECT_EQ(Contents(step), kStep);
  EXPECT_EQ(Contents(machine), "{}");
  ExpectFails(Shell("\"$0\" report - --machine - < step.html"), 2,
              "meshwork report: --machine: - is standard input, which is FILE already; name a file.");
  ExpectFails(
      Shell("echo '{\"workers\": 2}' | \"$0\" report step.html --output p.html --machine -"), 2,
      "meshwork report: --machine: standard input is a process, whose 2 workers do the work of all its devices; "
      "meshwork simulate knows its times. Here, name a machine without \"workers\".");
  const Finished endless = Run({"report", step, "--output", Path("p.html"), "--machine",
                                File("slow.json", R"({"product_flops": 5e-324})")});
  EXPECT_EQ(endless.code, 2);
  EXPECT_THAT(endless.err, HasSubstr("takes longer than a number can say"));
}

// A name may be any bytes.
TEST_F(MeshworkTest, ExplainOfAFileWhoseNameIsNoTextIsJson) {
  const std::string step = File("\xff.mw", kStep);
  EXPECT_THAT(nlohmann::json::parse(Output({"explain", step, "--json"})).dump(),
              HasSubstr("\xef\xbf\xbd.mw"));
}

}  // namespace
}  // namespace meshwork::meshwork_report_test
