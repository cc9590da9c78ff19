// StagedFeeds: feeds of a session whose elements were copied to its device beforehand.
//
//   MESHWORK_ASSIGN_OR_RETURN(StagedFeeds staged, session.NewStagedFeeds());
//   MESHWORK_RETURN_IF_ERROR(staged.Stage(feeds));                 // by any thread, while another step runs
//   MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(feeds, staged));
//
// PrefetchToDevice (train/fit/prefetch_to_device.h) has two of them, and a thread that fills them. On the CPU a step
// reads feeds where they are, and nothing is copied.
//
// Staged tensors must not change until the step that takes them has run.
//
// Takes the memory of one batch on the GPU, which is kept for the next ones. It may outlive the session. Thread safety:
// Stage may be called by any thread, one at a time, and not while a step runs that is given this object. Other steps
// may run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "meshwork/runtime/exec/memory.h"
#include "meshwork/runtime/exec/staged_tensor.h"
#include "meshwork/session/session.h"

namespace meshwork {

class StagedFeeds {
 public:
  // In the memory of a session's backend (Session::NewStagedFeeds).
  explicit StagedFeeds(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  StagedFeeds(StagedFeeds&&) = default;
  StagedFeeds& operator=(StagedFeeds&&) = default;

  // Copies the elements; returns when they are there. They replace what was staged before. Errors: a tensor has no
  // elements; the device failed; it has not enough memory (ResourceExhausted). Nothing is staged then.
  absl::Status Stage(const Feeds& feeds);
  // Nothing is staged any more. Keeps the memory.
  void Clear();
  // The tensors of `feeds` that are staged: those that share the elements, and have the type, of what Stage was given.
  std::map<std::string, StagedTensor> AmongThem(const Feeds& feeds) const;
  // Whether Stage copies nothing: the session computes on the CPU.
  bool is_on_host() const { return !memory_->takes_staged(); }

 private:
  std::shared_ptr<Memory> memory_;
  std::map<std::string, StagedTensor> tensors_;  // those that are not valid keep their memory
};

}  // namespace meshwork
