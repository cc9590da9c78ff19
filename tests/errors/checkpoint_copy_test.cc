// What is refused of checkpoints that are copied. DIR stands for a directory of this run.
#include "meshwork/storage/checkpoint_copy.h"

#include <cstdint>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_copy_test {
namespace {

class CheckpointCopyErrors : public TempDirTest {
 protected:
  absl::StatusOr<std::string> Write(const std::string& dir, const CheckpointFacts& facts = {}) {
    CheckpointIndex index{.step = 1, .facts = facts};
    index.variables = {{"w", {F32, {4, 3}}, "{_,_}", {{0, {{0, 4}, {0, 3}}}}}};
    return WriteCheckpoint(Path(dir), index, 1, [](const CheckpointVariable& variable, const Block&) {
      return Tensor::Zeros(variable.type);
    });
  }
};

TEST_F(CheckpointCopyErrors, CheckpointCopy) {
  File("file", "x");
  const Checkpoint written = Checkpoint::Open(Write("there").value()).value();
  ExpectErrors("checkpoint_copy",
               {
                   MISTAKE(Write("there")),
                   MISTAKE(Write("file")),
                   MISTAKE(Write("facts", {{"name", "\xff"}})),
                   MISTAKE(written.Read("v", {{0, 4}, {0, 3}})),
                   MISTAKE(written.Read("w", {{0, 4}})),
                   MISTAKE(written.Read("w", {{0, 5}, {0, 3}})),
                   MISTAKE(written.Read("w", {{-1, 2}, {0, 3}})),
                   MISTAKE(written.Read("w", {{2, -1}, {0, 3}})),
               },
               {{dir(), "DIR"}});
}

}  // namespace
}  // namespace meshwork::checkpoint_copy_test
