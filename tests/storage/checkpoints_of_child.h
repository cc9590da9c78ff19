// The variables that checkpoint_child writes; how tests start it and check its checkpoints.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/storage/checkpoint.h"
#include "storage/saved.h"
#include "support/contents.h"

namespace meshwork {

// Two domains have a shard of 128 KiB each, in several pieces.
inline const std::vector<SavedVariable>& ChildVariables() {
  static const auto* const variables = new std::vector<SavedVariable>{
      {"b", {F32, {3}}, "{_}"}, {"m", {F64, {20, 50}}, "{_,_}"}, {"w", {F32, {64, 960}}, "{a,_}"}};
  return *variables;
}

// The first number of the child's write number `write`. A checkpoint's fact "write" holds that number.
inline int64_t FirstOfWrite(int64_t write) { return 1 + 1'000'000 * write; }

// The arguments of a child that writes (storage/checkpoint_child.cc).
struct ChildWrites {
  std::string dir, job = "job";
  int64_t domain = 0, domains = 1, first = 0, count = 0, keep = 2, each = 1;

  std::vector<std::string> Arguments() const {
    std::vector<std::string> arguments = {CHECKPOINT_CHILD, "write", dir, job};
    for (const int64_t number : {domain, domains, first, count, keep, each})
      arguments.push_back(std::to_string(number));
    return arguments;
  }
};

// The last step that a child called done; -1: none.
inline int64_t LastDone(const std::vector<std::string>& lines) {
  int64_t step = -1;
  for (const std::string& line : lines)
    if (line.starts_with("done ")) step = std::stoll(line.substr(5));
  return step;
}

// Expects that each folder named as a checkpoint is one, with the numbers of one write. Returns the step of the newest
// one; -1: there is none.
inline int64_t CheckCheckpoints(const std::string& dir) {
  if (!std::filesystem::exists(dir)) return -1;
  int64_t newest = -1;
  const std::vector<FoundCheckpoint> all = ListCheckpoints(dir).value();
  for (const FoundCheckpoint& found : all) {
    const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(found.path);
    EXPECT_EQ(MessageOf(checkpoint.status()), "");
    if (!checkpoint.ok()) continue;
    EXPECT_EQ(MessageOf(checkpoint->Verify()), "");
    EXPECT_EQ(checkpoint->index().step, found.step);
    int64_t first = FirstOfWrite(std::stoll(checkpoint->index().facts.at("write")));
    for (const SavedVariable& variable : ChildVariables()) {
      const Tensor read = checkpoint->Read(variable.name).value(), expected = Numbered(variable.type, first);
      EXPECT_EQ(std::memcmp(read.raw(), expected.raw(), static_cast<size_t>(read.bytes())), 0)
          << found.path << ": " << variable.name;
      first += 1000;
    }
    newest = std::max(newest, found.step);
  }
  if (newest >= 0) {
    EXPECT_EQ(Checkpoint::Open(dir).value().index().step, newest);
  }
  return newest;
}

// The names in a folder of checkpoints but for the lock.
inline std::vector<std::string> NamesBesideLock(const std::string& dir) {
  std::vector<std::string> names = NamesIn(dir);
  std::erase(names, "lock");
  return names;
}

}  // namespace meshwork
