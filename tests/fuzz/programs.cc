// Random programs with fresh seeds, each compiled, proven, run and compared with one device, until time is
// up. With --from, always the same programs, as many as there is time for.
//
//   random_programs --seconds=60 --findings=build/fuzz/programs/findings
//   random_programs --seconds=60 --from=1 --findings=…
//   random_programs --again=loops:123 --findings=…
//   random_programs --kind=attributes --seconds=60 --findings=build/fuzz/attributes/findings
//
// Kinds of programs: rows, of all ops; training, with a loss, gradients and updates; loops, of all ops, also in
// bodies of loops and branches; loop_training; moves, which write the same moves of elements in different ways
// and must give the same bits on every mesh. A finding is a program that is refused, gives wrong results, is
// not read back from its text, crashes the process or does not end. Its text is written to the folder of
// findings. Exit code 1 if there are findings, 2 for wrong arguments.
//
// Programs of the kind attributes, tried only on request, are texts with hostile attributes
// (support/hostile_program.h). They may be refused, but the error must blame the program.
//
// A child process tries the programs, so that a program that crashes it or never ends is a finding, too.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "support/hostile_program.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

// A program normally takes milliseconds.
constexpr int kMostSecondsOfAProgram = 60;
constexpr int kMostFindings = 20;

// One program: its kind and its seed. Arguments write it as "loops:123".
struct Case {
  std::string kind;
  uint64_t seed = 0;

  std::string ToString() const { return fmt::format("{}:{}", kind, seed); }
};

constexpr std::string_view kKinds[] = {"rows", "training", "loops", "loop_training", "moves"};
constexpr std::string_view kAttributes = "attributes";  // tried alone

std::vector<std::string_view> KindsWith(std::string_view kind) {
  if (kind == kAttributes) return {kAttributes};
  return {std::begin(kKinds), std::end(kKinds)};
}

RandomProgram Draw(const Case& c) {
  static const auto* const programs = new RandomPrograms();
  if (c.kind == "rows") return programs->Draw(c.seed);
  if (c.kind == "loops") return programs->DrawLoops(c.seed);
  if (c.kind == "moves") return RandomPrograms::DrawMoves(c.seed);
  return c.kind == "training" ? DrawTraining(c.seed) : DrawLoopTraining(c.seed);
}

// The options of compiling and running the program, drawn from its seed.
struct Ways {
  CompileOptions compile;
  ExecutorOptions run;
  int workers = 2;

  std::string ToString() const {
    return fmt::format(
        "shard_weight_update={} replication_budget={} share={} coalesce={} fuse={}, {} workers",
        compile.shard_weight_update, compile.replication_budget, run.share, run.coalesce, run.fuse, workers);
  }
};

Ways WaysOf(const Case& c) {
  std::mt19937_64 engine(c.seed);
  const auto chance = [&](uint64_t percent) { return engine() % 100 < percent; };
  Ways ways;
  ways.compile.shard_weight_update = chance(25);
  if (chance(10)) ways.compile.replication_budget = 0;
  ways.run = {.share = !chance(20), .coalesce = !chance(20), .fuse = !chance(20)};
  ways.workers = 1 + static_cast<int>(engine() % 3);
  return ways;
}

std::string ReadBackError(const Graph& graph) {
  const std::string text = PrintGraph(graph);
  const absl::StatusOr<Graph> read = ParseGraph(text);
  if (!read.ok()) return fmt::format("the text does not read back: {}", MessageOf(read.status()));
  const std::string difference = FirstDifference(graph, *read);
  return difference.empty() ? "" : "the text reads back as another program: " + difference;
}

// Returns what is wrong with the program, or "".
std::string Try(const RandomProgram& random, const Ways& ways, bool is_exact) {
  if (std::string error = ReadBackError(random.graph); !error.empty()) return error;
  Expected expected = ExpectedOf(random);
  expected.is_exact = is_exact;
  if (!is_exact && !std::isfinite(expected.scale)) return "";
  static std::map<int, CpuBackend> backends;
  CpuBackend& backend = backends.try_emplace(ways.workers, ways.workers).first->second;
  std::string error = TryProgram(random, expected, backend, ways.compile, ways.run).error();
  // If the budget forbids gathers, a program may be refused for a gather.
  if (ways.compile.replication_budget == 0 &&
      error.find("would be gathered whole on every device") != std::string::npos)
    error.clear();
  return error;
}

// ---- The child. It tries programs and reports them by lines on its standard output: "try KIND:SEED",
// "found KIND:SEED". The file of the program describes the finding.

void Write(const std::filesystem::path& path, const Case& c, std::string_view error,
           const std::string& text) {
  std::ofstream file(path);
  file << fmt::format("// {}: {}\n", c.ToString(), WaysOf(c).ToString());
  for (size_t begin = 0; begin < error.size();) {
    const size_t end = std::min(error.find('\n', begin), error.size());
    file << "// " << error.substr(begin, end - begin) << '\n';
    begin = end + 1;
  }
  file << text;
}

// Like TryOne, for a hostile text. Each text is written to the file before it is read.
std::string TryAttributes(const Case& c, const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  std::string last;
  const Trying trying = [&](const std::string& text) {
    last = fmt::format("// {}\n{}", c.ToString(), text);
    const bool is_written = pwrite(file, last.data(), last.size(), 0) == static_cast<ssize_t>(last.size()) &&
                            ftruncate(file, static_cast<off_t>(last.size())) == 0;
    MESHWORK_CHECK(is_written, "{} cannot be written", path.string());
  };
  const HostileProgram program = DrawHostile(c.seed, trying);
  std::string error = TryHostile(program, c.seed, trying);
  close(file);
  if (!error.empty())
    std::ofstream(path) << fmt::format("// {}\n/*\n{}\n*/\n{}", c.ToString(), error, program.text);
  return error;
}

// Returns true if there is a finding.
bool TryOne(const Case& c, const std::filesystem::path& file) {
  fmt::print("try {}\n", c.ToString());
  std::fflush(stdout);
  if (c.kind == kAttributes) {
    if (TryAttributes(c, file).empty()) {
      std::filesystem::remove(file);
      return false;
    }
    fmt::print("found {}\n", c.ToString());
    std::fflush(stdout);
    return true;
  }
  // If the process crashes, the file contains the program that was being tried.
  Write(file, c, "", "");
  const RandomProgram random = Draw(c);
  const std::string text = PrintGraph(random.graph);
  Write(file, c, "", text);
  const std::string error = Try(random, WaysOf(c), c.kind == "moves");
  if (error.empty()) {
    std::filesystem::remove(file);
    return false;
  }
  Write(file, c, error, text);
  fmt::print("found {}\n", c.ToString());
  std::fflush(stdout);
  return true;
}

std::filesystem::path FileOf(const std::filesystem::path& findings, const Case& c) {
  return findings / fmt::format("{}_{}.mw", c.kind, c.seed);
}

[[noreturn]] void RunChild(int to, const std::filesystem::path& findings, const Case& next) {
  dup2(to, STDOUT_FILENO);
  const std::vector<std::string_view> kinds = KindsWith(next.kind);
  size_t kind = 0;
  while (kinds[kind] != next.kind) ++kind;
  for (uint64_t seed = next.seed;; ++seed, kind = 0)
    for (; kind < kinds.size(); ++kind) {
      const Case c{std::string(kinds[kind]), seed};
      TryOne(c, FileOf(findings, c));
    }
}

// ---- The parent, which reports findings.

class Fuzzer {
 public:
  Fuzzer(std::filesystem::path findings, std::string_view kind, uint64_t seed, int64_t seconds)
      : findings_(std::move(findings)),
        end_(Clock::now() + std::chrono::seconds(seconds)),
        next_{std::string(KindsWith(kind)[0]), seed} {}

  // The number of findings.
  int Run() {
    fmt::print("random programs from seed {} on\n", next_.seed);
    while (Clock::now() < end_ && found_ < kMostFindings) RunOne();
    Progress();
    return found_;
  }

 private:
  // Runs a child until it ends or time is up.
  void RunOne() {
    int ends[2];
    MESHWORK_CHECK(pipe(ends) == 0, "there is no pipe");
    std::fflush(stdout);
    const pid_t child = fork();
    MESHWORK_CHECK(child >= 0, "there is no process");
    if (child == 0) {
      close(ends[0]);
      RunChild(ends[1], findings_, next_);
    }
    close(ends[1]);
    const bool is_over = Listen(ends[0]);
    close(ends[0]);
    kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (is_over) {
      if (trying_.has_value()) std::filesystem::remove(FileOf(findings_, *trying_));
      return;
    }
    if (!trying_.has_value()) {
      fmt::print("the process that tries programs does not start\n");
      found_ = kMostFindings;
      return;
    }
    const bool was_stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    Tell(*trying_, was_stopped           ? fmt::format("it is not done after {} s", kMostSecondsOfAProgram)
                   : WIFSIGNALED(status) ? fmt::format("it ends the process: {}", strsignal(WTERMSIG(status)))
                                         : "it ends the process");
    next_ = {trying_->kind, trying_->seed + 1};
    trying_.reset();
  }

  // True when time is up; false if the child has ended, or has been silent for long.
  bool Listen(int from) {
    std::string line;
    Clock::time_point heard = Clock::now();
    while (found_ < kMostFindings) {
      const Clock::time_point now = Clock::now();
      if (now >= end_) return true;
      if (now - heard > std::chrono::seconds(kMostSecondsOfAProgram)) return false;
      if (now - told_ > std::chrono::seconds(10)) Progress();
      pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
      if (poll(&wait, 1, 200) <= 0) continue;
      char text[4096];
      const ssize_t size = read(from, text, sizeof(text));
      if (size <= 0) return false;
      heard = Clock::now();
      for (char c : std::string_view(text, static_cast<size_t>(size))) {
        if (c != '\n') line += c;
        else Hear(std::exchange(line, ""));
      }
    }
    return true;
  }

  void Hear(const std::string& line) {
    const size_t space = line.find(' '), colon = line.find(':');
    if (space == std::string::npos || colon == std::string::npos) return;
    Case c{line.substr(space + 1, colon - space - 1), 0};
    if (!absl::SimpleAtoi(line.substr(colon + 1), &c.seed)) return;
    if (line.starts_with("try ")) {
      trying_ = c;
      ++tried_[c.kind];
    } else if (line.starts_with("found ")) {
      Tell(c, "it is refused, or computes something else");
    }
  }

  void Tell(const Case& c, const std::string& what) {
    ++found_;
    fmt::print("FINDING: {}: {}\n  {}\n  again: ./dev fuzz {} --again={}\n", c.ToString(), what,
               FileOf(findings_, c).string(), c.kind == kAttributes ? kAttributes : "programs", c.ToString());
    std::fflush(stdout);
  }

  void Progress() {
    told_ = Clock::now();
    std::string list;
    for (const auto& [kind, count] : tried_)
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, kind);
    fmt::print("programs tried: {}; findings: {}\n", list.empty() ? "none" : list, found_);
    std::fflush(stdout);
  }

  const std::filesystem::path findings_;
  const Clock::time_point end_;
  Clock::time_point told_ = Clock::now();
  Case next_;                   // the first program of the next child
  std::optional<Case> trying_;  // nothing: no program was begun
  std::map<std::string, int64_t> tried_;
  int found_ = 0;
};

// ---- Arguments.

int Misuse(std::string_view message) {
  fmt::print(stderr, "random_programs: {}\n", message);
  return 2;
}

int Main(int argc, char** argv) {
  std::string findings, again, kind;
  int64_t seconds = 0;
  uint64_t from = static_cast<uint64_t>(std::random_device()()) << 16;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equal = argument.find('=');
    const std::string_view name = argument.substr(0, equal);
    const std::string value(equal == std::string_view::npos ? "" : argument.substr(equal + 1));
    if (name == "--findings" && !value.empty()) {
      findings = value;
    } else if (name == "--again") {
      again = value;
    } else if (name == "--kind" && value == kAttributes) {
      kind = value;
    } else if (name == "--seconds") {
      if (!absl::SimpleAtoi(value, &seconds) || seconds <= 0)
        return Misuse(fmt::format("--seconds={}: it is a whole number above 0.", value));
    } else if (name == "--from") {
      if (!absl::SimpleAtoi(value, &from))
        return Misuse(fmt::format("--from={}: it is a whole number of 0 or above.", value));
    } else {
      return Misuse(
          fmt::format("there is no argument {}; there are --seconds=N, --from=SEED, --again=KIND:SEED, "
                      "--kind=attributes and --findings=FOLDER.",
                      argument));
    }
  }
  if (findings.empty()) return Misuse("--findings=FOLDER says where to write what is found.");
  if (seconds == 0 && again.empty())
    return Misuse("--seconds=N says how long, or --again=KIND:SEED what to try.");
  std::filesystem::create_directories(findings);
  if (again.empty()) return Fuzzer(findings, kind, from, seconds).Run() == 0 ? 0 : 1;

  Case c{again.substr(0, again.find(':')), 0};
  const std::vector<std::string_view> kinds = KindsWith(c.kind);
  if (std::find(kinds.begin(), kinds.end(), c.kind) == kinds.end() || again.find(':') == std::string::npos ||
      !absl::SimpleAtoi(again.substr(again.find(':') + 1), &c.seed))
    return Misuse(fmt::format(
        "--again={}: it is KIND:SEED, and KIND is rows, training, loops, loop_training or attributes.",
        again));
  if (!TryOne(c, FileOf(findings, c))) {
    fmt::print("{} is right\n", c.ToString());
    return 0;
  }
  std::ifstream file(FileOf(findings, c));
  std::string line;
  while (std::getline(file, line)) fmt::print("{}\n", line);
  return 1;
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) { return meshwork::Main(argc, argv); }
