// Runs benchmarks/compare from a shell.
#include "gtest/gtest.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork::compare_test {
namespace {

constexpr std::string_view kBefore = R"({
  "context": {"date": "2026-01-01", "cpu": "Some CPU", "workers": "2"},
  "benchmarks": [
    {"name": "pack/{_ | sum:x}/4KiB/manual_time", "run_type": "iteration", "real_time": 2.5, "cpu_time": 1,
     "time_unit": "us", "of_memcpy": 0.4},
    {"name": "pack/{_ | sum:x}/4KiB/manual_time_mean", "run_type": "aggregate", "real_time": 9,
     "time_unit": "us"},
    {"name": "compile/L:4", "run_type": "iteration", "real_time": 800, "time_unit": "us"},
    {"name": "gone", "run_type": "iteration", "real_time": 2, "time_unit": "s"}
  ]})";
constexpr std::string_view kAfter = R"({
  "context": {"date": "2026-01-02", "cpu": "Another CPU", "workers": "2"},
  "benchmarks": [
    {"name": "pack/{_ | sum:x}/4KiB/manual_time", "run_type": "iteration", "real_time": 5, "time_unit": "us",
     "of_memcpy": 0.8},
    {"name": "compile/L:4", "run_type": "iteration", "real_time": 0.4, "time_unit": "ms"},
    {"name": "broken", "run_type": "iteration", "error_occurred": true, "error_message": "two\nlines",
     "real_time": 0, "time_unit": "ms"}
  ]})";

class CompareTest : public TempDirTest {
 protected:
  Finished Compare(const std::vector<std::string>& args) const {
    return RunProcess(COMPARE, args, Path("run"));
  }
};

TEST_F(CompareTest, PrintsOneRunAsATable) {
  const Finished one = Compare({File("before.json", kBefore)});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, R"(Some CPU, 2 workers, 2026-01-01

| benchmark | time | beside |
|---|---|---|
| pack/{_ \| sum:x}/4KiB | 2.5 µs | 0.40 of memcpy |
| compile/L:4 | 800 µs |  |
| gone | 2 s |  |
)");
}

TEST_F(CompareTest, PrintsTwoRunsSideBySideAndFailsWhereABenchmarkDid) {
  const Finished two = Compare({File("before.json", kBefore), File("after.json", kAfter)});
  EXPECT_EQ(two.code, 1) << two.err;
  EXPECT_EQ(two.out, R"(before: Some CPU, 2 workers, 2026-01-01  
after: Another CPU, 2 workers, 2026-01-02

| benchmark | before | beside | after | beside | after / before |
|---|---|---|---|---|---|
| pack/{_ \| sum:x}/4KiB | 2.5 µs | 0.40 of memcpy | 5 µs | 0.80 of memcpy | 2.00; of memcpy 2.00 |
| compile/L:4 | 800 µs |  | 400 µs |  | 0.50 |
| gone | 2 s |  | – |  | – |
| broken | – |  | failed: two lines |  | – |
)");
}

TEST_F(CompareTest, RejectsWhatIsNoResult) {
  const std::string missing = Path("missing.json");
  EXPECT_EQ(Compare({missing}).code, 2);
  EXPECT_EQ(Compare({missing}).err,
            "compare: \"" + missing + "\" is not a JSON file of Google Benchmark: cannot be opened\n");
  for (const char* text : {"", "{}", "[1]", R"({"context": {}, "benchmarks": [{}]})"}) {
    const Finished bad = Compare({File("bad.json", text)});
    EXPECT_EQ(bad.code, 2) << text;
    EXPECT_EQ(bad.out, "") << text;
  }
  EXPECT_EQ(Compare({}).code, 2);
  EXPECT_EQ(Compare({"--help"}).code, 0);
}

}  // namespace
}  // namespace meshwork::compare_test
