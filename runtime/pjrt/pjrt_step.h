// PjrtStep: a program that a PJRT plugin has compiled, with the memory that it is bound to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/runtime/pjrt/pjrt_client.h"
#include "meshwork/runtime/pjrt/pjrt_memory.h"

namespace meshwork {

// What a step of the program takes on all devices, besides its arguments and what is written over them.
ExecutorMemory MemoryOf(const PjrtExecutable& executable);

class PjrtStep : public PreparedStep {
 public:
  static absl::StatusOr<std::unique_ptr<PreparedStep>> Create(
      std::shared_ptr<const PjrtClient> client, std::shared_ptr<PjrtMemory> memory,
      std::shared_ptr<const PjrtExecutable> executable, StepPlan plan, std::vector<DTensor> variables,
      const PrepareOptions& options);

  // Waits for all devices. After an error, variables that are not kept are undefined, and may be written.
  absl::Status Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                   std::span<const std::byte* const> staged) override;
  bool wrote_spares() const override { return wrote_spares_; }
  ExecutorMemory memory() const override { return MemoryOf(*executable_); }
  // A row for feeds, one for the program as a whole, whose work is what the rows of its ops state, and one for outputs.
  meshwork::Profile Profile() const override;
  meshwork::Trace Trace() const override { return {}; }
  void ClearProfile() override;

 private:
  // Copies between a host tensor and one block of it.
  struct HostBlock {
    BoxCopy box;
    bool is_whole =
        false;  // the block's elements lie side by side in the host tensor, and there is no padding
    std::vector<std::byte> elements;  // of the block, unless is_whole
  };
  // An argument, an output or a new value.
  struct Place {
    enum class Kind : uint8_t { kNone, kHost, kFed, kBound };  // kFed: a DTensor that each step is given
    Kind kind = Kind::kNone;
    std::string what;  // in errors: input "x"
    PjrtBlocks blocks;
    std::vector<HostBlock> host;  // kHost: of each instance
  };
  struct Update {
    int argument = 0;
    bool to_spare = false;
    bool is_kept = false;  // the old value is not written over
  };
  struct Times {
    int64_t steps = 0;
    double feeds = 0, run = 0, outputs = 0;  // seconds
  };

  PjrtStep(std::shared_ptr<const PjrtClient> client, std::shared_ptr<PjrtMemory> memory,
           std::shared_ptr<const PjrtExecutable> executable, StepPlan plan, std::vector<DTensor> variables,
           const PrepareOptions& options);

  Place PlaceOf(ValueId id, Place::Kind kind, std::string what, bool is_input) const;
  // The image that holds the argument's elements.
  std::shared_ptr<PjrtImage> ImageOf(size_t argument, std::span<const std::byte* const> feeds) const;
  absl::Status Feed(Place& place, const std::byte* host, size_t argument, std::vector<PjrtBuffer>& made,
                    std::vector<PjrtEvent>& copies);
  absl::Status FeedAll(std::span<const std::byte* const> feeds, std::vector<PjrtBuffer>& made,
                       std::vector<PjrtEvent>& copies);
  // Errors: two devices hold different blocks where the value's layout says that they hold one.
  absl::Status CheckReplicas(ValueId id, std::string_view subject, std::span<const PjrtBuffer> buffers) const;
  absl::Status CheckAllReplicas(std::span<const std::vector<PjrtBuffer>> results) const;
  absl::Status Take(Place& place, std::byte* to, std::span<const PjrtBuffer> buffers) const;
  void PrepareSpares();
  // Of variables, and of fed DTensors, whose buffers a step that has failed may have written over.
  void ForgetWrittenOver(std::span<const std::byte* const> feeds);
  void ReplaceVariables(std::span<std::vector<PjrtBuffer>> results, std::span<const std::byte* const> feeds);
  absl::Status TakeOutputs(std::span<std::vector<PjrtBuffer>> results, std::span<std::byte* const> outputs);

  const std::shared_ptr<const PjrtClient> client_;
  const std::shared_ptr<PjrtMemory> memory_;
  const std::shared_ptr<const PjrtExecutable> executable_;
  const StepPlan plan_;
  std::vector<DTensor> variables_;
  const PrepareOptions options_;
  const int64_t num_devices_;
  std::vector<Place> arguments_, outputs_;
  std::vector<Update> updates_;
  std::vector<int64_t> kept_;            // the arguments that are not written over
  std::vector<pjrt::Buffer*> in_, out_;  // per device, its arguments; its results
  bool wrote_spares_ = false;
  Times times_;
};

}  // namespace meshwork
