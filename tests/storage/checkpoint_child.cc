// Writes or reads checkpoints, and reports each on a line of standard output. Tests start it and kill it
// (storage/child_process.h).
//
//   checkpoint_child write DIR JOB DOMAIN DOMAINS FIRST COUNT KEEP EACH
//     COUNT checkpoints, 0: for ever, of the steps FIRST, FIRST + 1, …, EACH of each step. Says "open"; "done STEP" or
//     "failed STEP MESSAGE". If the writer cannot be opened, says "refused MESSAGE" and tries once more.
//   checkpoint_child read PATH
//     Opens, verifies and reads. Says "read STEP WRITE", or "failed MESSAGE".
//
// Exit code 0, unless the arguments are wrong.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_writer.h"
#include "storage/checkpoints_of_child.h"

namespace meshwork {
namespace {

void Say(const std::string& line) {
  const std::string text = line + "\n";
  // A single write, so that a line is printed whole or not at all.
  if (write(STDOUT_FILENO, text.data(), text.size()) != std::ssize(text)) std::exit(3);
}

void WriteCheckpoints(const CheckpointWriterOptions& options, int64_t first, int64_t count, int64_t each) {
  absl::StatusOr<std::unique_ptr<CheckpointWriter>> writer = CheckpointWriter::Open(options);
  if (!writer.ok()) {
    Say(fmt::format("refused {}", MessageOf(writer.status())));
    writer = CheckpointWriter::Open(options);
    if (!writer.ok()) return Say(fmt::format("refused {}", MessageOf(writer.status())));
  }
  Say("open");
  for (int64_t i = 0; count == 0 || i < count; ++i) {
    const int64_t step = first + i / each;
    absl::Status status =
        (*writer)->Begin({.step = step, .facts = {{"write", std::to_string(i)}}},
                         StateOf("a=2", options.num_domains, options.domain, ChildVariables(),
                                 /*filled=*/true, /*share=*/true, FirstOfWrite(i)));
    if (status.ok()) status = (*writer)->Wait();
    Say(status.ok() ? fmt::format("done {}", step) : fmt::format("failed {} {}", step, MessageOf(status)));
  }
}

absl::StatusOr<std::string> ReadCheckpoint(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
  MESHWORK_RETURN_IF_ERROR(checkpoint.Verify());
  MESHWORK_RETURN_IF_ERROR(checkpoint.RestoreInto(StateOf("a=2", 1, 0, ChildVariables(), /*filled=*/false)));
  return fmt::format("read {} {}", checkpoint.index().step, checkpoint.index().facts.at("write"));
}

int Main(const std::vector<std::string>& arguments) {
  const auto number = [&](size_t i) { return std::stoll(arguments[i]); };
  if (arguments.size() == 9 && arguments[0] == "write") {
    // A short deadline: a missing domain is soon given up.
    WriteCheckpoints({.dir = arguments[1],
                      .domain = number(3),
                      .num_domains = number(4),
                      .job = arguments[2],
                      .keep = number(7),
                      .deadline = std::chrono::milliseconds(2000)},
                     number(5), number(6), number(8));
  } else if (arguments.size() == 2 && arguments[0] == "read") {
    const absl::StatusOr<std::string> read = ReadCheckpoint(arguments[1]);
    Say(read.ok() ? *read : fmt::format("failed {}", MessageOf(read.status())));
  } else {
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) { return meshwork::Main({argv + 1, argv + argc}); }
