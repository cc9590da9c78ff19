#include "meshwork/runtime/cpu/trace_recorder.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/exec/profile_row.h"

namespace meshwork {
namespace {

// "0-3, 6, 8-9, …": at most eight ranges.
std::string Ranges(const std::vector<int64_t>& numbers) {
  std::string text;
  int ranges = 0;
  for (size_t i = 0, end; i < numbers.size(); i = end) {
    for (end = i + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    if (!text.empty()) text += ", ";
    if (++ranges > 8) return text + "…";
    text += end == i + 1 ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[end - 1]);
  }
  return text;
}

// "device 3 (batch=1, model=1)"
std::string DeviceName(const Mesh& mesh, int64_t device) {
  std::vector<std::string> places;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    places.push_back(fmt::format("{}={}", mesh.axis(axis).name, mesh.CoordinateOn(axis, device)));
  return places.empty() ? fmt::format("device {}", device)
                        : fmt::format("device {} ({})", device, fmt::join(places, ", "));
}

int64_t Units(const std::vector<WorkSlice>& slices) {
  int64_t units = 0;
  for (const WorkSlice& slice : slices) units += slice.end - slice.begin;
  return units;
}

std::string Part(double part, std::string_view whole) {
  return fmt::format("{:.0f} % of {}; other workers do the rest", 100 * part, whole);
}

}  // namespace

// Turns the recorded times into events.
class TraceReader {
 public:
  TraceReader(const TraceRecorder& recorder, const std::vector<ProfileRow>& rows)
      : recorder_(recorder),
        local_(*recorder.schedule_.graph),
        schedule_(recorder.schedule_),
        domain_(schedule_.domain),
        rows_(rows),
        kept_(std::min<int64_t>(recorder.steps_, static_cast<int64_t>(recorder.bounds_.size()))) {}

  Trace Read() {
    const Mesh& mesh = local_.mesh();
    trace_.name = fmt::format("{} on mesh {}", local_.name, mesh.ToString());
    if (kept_ > 0) trace_.origin_ns = recorder_.bounds_[RowOf(FirstStep())].first;
    trace_.tracks.push_back({TraceTrack::Kind::kSteps, 0, "steps"});
    for (int64_t d = domain_.first_device(); domain_.Holds(d); ++d)
      trace_.tracks.push_back({TraceTrack::Kind::kDevice, d, DeviceName(mesh, d)});
    for (int w = 0; w < schedule_.num_workers; ++w) AddWorkerTrack(w);
    if (schedule_.num_operations > 0)
      trace_.tracks.push_back({TraceTrack::Kind::kLink, 0, "between domains"});
    AddStepEvents();
    for (int w = 0; w < schedule_.num_workers; ++w) AddLaps(w);
    if (schedule_.num_operations > 0) AddCrossings();
    std::stable_sort(trace_.events.begin(), trace_.events.end(),
                     [](const TraceEvent& a, const TraceEvent& b) { return a.track < b.track; });
    return std::move(trace_);
  }

 private:
  int DeviceTrack(int64_t device) const { return 1 + static_cast<int>(device - domain_.first_device()); }
  int WorkerTrack(int worker) const { return 1 + static_cast<int>(domain_.num_devices()) + worker; }

  std::vector<int64_t> DevicesOf(int worker) const {
    std::vector<int64_t> devices;
    for (int64_t d = domain_.first_device(); domain_.Holds(d); ++d)
      if (schedule_.OwnerOf(d) == worker) devices.push_back(d);
    return devices;
  }

  void AddWorkerTrack(int worker) {
    const std::vector<int64_t> devices = DevicesOf(worker);
    const std::string drives = devices.empty()       ? " (helps)"
                               : devices.size() == 1 ? fmt::format(" (device {})", devices[0])
                                                     : fmt::format(" (devices {})", Ranges(devices));
    trace_.tracks.push_back({TraceTrack::Kind::kWorker, worker, fmt::format("worker {}{}", worker, drives)});
  }

  int64_t FirstStep() const { return recorder_.steps_ - kept_; }
  size_t RowOf(int64_t step) const { return static_cast<size_t>(step) % recorder_.bounds_.size(); }

  void Add(int track, int label, int64_t step, int64_t begin, int64_t end) {
    const int64_t origin = recorder_.bounds_[RowOf(FirstStep())].first;
    trace_.events.push_back({track, label, step, begin - origin, end - begin});
  }

  int AddLabel(TraceLabel label) {
    trace_.labels.push_back(std::move(label));
    return static_cast<int>(trace_.labels.size()) - 1;
  }

  void AddStepEvents() {
    for (int64_t step = FirstStep(); step < recorder_.steps_; ++step) {
      const auto [begin, end] = recorder_.bounds_[RowOf(step)];
      Add(0, AddLabel({fmt::format("step {}", step), "step"}), step, begin, end);
    }
  }

  // ---- Labels.

  // The instances that some rows of a kernel belong to.
  struct Items {
    int64_t begin, end;
  };
  static Items ItemsOf(const Instruction& instruction, const WorkSlice& slice) {
    const int64_t items = instruction.items.count(), rows = instruction.rows;
    return {slice.begin * items / rows, (slice.end * items + rows - 1) / rows};
  }

  // The part of the label of an instruction that is the same on all tracks.
  TraceLabel LabelOf(size_t i) const {
    const Instruction& instruction = schedule_.instructions[i];
    const ProfileRow& row = rows_[i];
    TraceLabel label{row.op, std::string(NameOf(instruction.kind))};
    auto add = [&](std::string_view name, std::string text) {
      if (!text.empty()) label.texts.emplace_back(name, std::move(text));
    };
    add(instruction.node >= 0 ? "where" : "of", row.where);
    if (instruction.node >= 0) AddValues(local_, instruction.node, label);
    add("cause", row.cause);
    return label;
  }

  // The label on a worker's track, for all that the worker does of instruction i.
  TraceLabel WorkerLabel(size_t i, int worker) const {
    const Instruction& instruction = schedule_.instructions[i];
    TraceLabel label = LabelOf(i);
    // The worker's part of the work, by units alone: the items of one instruction are alike.
    int64_t all = 0;
    for (const auto& slices : instruction.slices) all += Units(slices);
    const double part =
        all == 0 ? 0 : static_cast<double>(Units(instruction.slices[worker])) / static_cast<double>(all);
    if (part < 1) label.texts.emplace_back("part", Part(part, "the instruction"));
    label.flops = rows_[i].flops * part;
    label.bytes = rows_[i].bytes;
    return label;
  }

  // The label on the tracks of `devices`, for what one slice of a kernel does for them together.
  TraceLabel SliceLabel(size_t i, const WorkSlice& slice, const Items& items,
                        const std::vector<int64_t>& devices) const {
    const Instruction& instruction = schedule_.instructions[i];
    TraceLabel label = LabelOf(i);
    const std::string_view how = items.end - items.begin > 1 ? "together" : "once";
    if (devices.size() > 1)
      label.texts.emplace_back("devices", fmt::format("computed {} for devices {}", how, Ranges(devices)));
    const double rows = static_cast<double>(slice.end - slice.begin);
    const double all = static_cast<double>(instruction.rows);
    const double part = rows * static_cast<double>(instruction.items.count()) / all;
    if (part < 1) label.texts.emplace_back("part", Part(part, "this value"));
    label.flops = rows_[i].flops * rows / all;
    return label;
  }

  // ---- What a worker measured, step by step.

  // How a kernel's slices of one worker show: the label, and the tracks of its devices that hold the result.
  struct Shown {
    int label;
    std::vector<int> tracks;
  };

  std::vector<Shown> ShowSlices(size_t i, int worker) {
    const Instruction& instruction = schedule_.instructions[i];
    std::vector<std::vector<int64_t>> holders(static_cast<size_t>(instruction.items.count()));
    const Domain& domain = schedule_.domain;
    for (int64_t d = domain.first_device(); domain.Holds(d); ++d)
      holders[instruction.items.Of(d)].push_back(d);
    std::vector<Shown> shown;
    for (const WorkSlice& slice : instruction.slices[worker]) {
      const Items items = ItemsOf(instruction, slice);
      std::vector<int64_t> devices;
      for (int64_t i = items.begin; i < items.end; ++i)
        devices.insert(devices.end(), holders[i].begin(), holders[i].end());
      std::sort(devices.begin(), devices.end());
      Shown& one = shown.emplace_back();
      one.label = AddLabel(SliceLabel(i, slice, items, devices));
      for (const int64_t d : devices)
        if (schedule_.OwnerOf(d) == worker) one.tracks.push_back(DeviceTrack(d));
    }
    return shown;
  }

  void AddLaps(int worker) {
    std::vector<int> tracks;
    for (const int64_t d : DevicesOf(worker)) tracks.push_back(DeviceTrack(d));
    struct Labels {
      int wait, run;
      bool whole;  // it shows on the devices as it does on the worker
      std::vector<Shown> slices;
    };
    std::vector<Labels> labels;
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
      const Instruction& instruction = schedule_.instructions[i];
      const std::string before = fmt::format("{} {}", rows_[i].op, rows_[i].where);
      Labels& one = labels.emplace_back();
      one.wait = instruction.barrier ? AddLabel({"waiting", "waiting", {{"before", before}}}) : -1;
      one.run = AddLabel(WorkerLabel(i, worker));
      const bool is_kernel = instruction.kind == Instruction::Kind::kKernel;
      one.whole = instruction.kind == Instruction::Kind::kCollective ||
                  (!is_kernel && !instruction.slices[worker].empty());
      if (is_kernel) one.slices = ShowSlices(i, worker);
    }
    const TraceRecorder::Lane& lane = recorder_.lanes_[worker];
    for (int64_t step = FirstStep(); step < recorder_.steps_; ++step) {
      const int64_t* const row = lane.times_.data() + RowOf(step) * lane.slots_;
      int64_t now = row[0];
      for (size_t i = 0; i < labels.size(); ++i) {
        const int64_t* const ends = row + lane.first_[i];  // of the waiting, the instruction, its slices
        if (ends[0] != 0) {
          Add(WorkerTrack(worker), labels[i].wait, step, now, ends[0]);
          for (const int track : tracks) Add(track, labels[i].wait, step, now, ends[0]);
          now = ends[0];
        }
        if (ends[1] == 0) continue;  // an output that was not asked for
        Add(WorkerTrack(worker), labels[i].run, step, now, ends[1]);
        if (labels[i].whole)
          for (const int track : tracks) Add(track, labels[i].run, step, now, ends[1]);
        for (size_t s = 0; s < labels[i].slices.size(); ++s) {
          for (const int track : labels[i].slices[s].tracks)
            Add(track, labels[i].slices[s].label, step, now, ends[2 + s]);
          now = ends[2 + s];
        }
        now = ends[1];
      }
    }
  }

  // Adds an event for each operation across domains: from its start, or from the end of the operation before if that is
  // later, until it was waited for. The data of one operation crosses after that of the other.
  void AddCrossings() {
    const int track = static_cast<int>(trace_.tracks.size()) - 1;
    const TraceRecorder::Lane& lane = recorder_.lanes_[0];  // worker 0 starts them, and waits
    for (int64_t step = FirstStep(); step < recorder_.steps_; ++step) {
      const int64_t* const row = lane.times_.data() + RowOf(step) * lane.slots_;
      int64_t now = row[0], before = 0;
      std::vector<int64_t> started(static_cast<size_t>(schedule_.num_operations));
      for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
        const Instruction& instruction = schedule_.instructions[i];
        const int64_t* const ends = row + lane.first_[i];
        if (ends[0] != 0) now = ends[0];
        if (ends[1] == 0) continue;
        if (instruction.is_fence()) {
          now = ends[1];
          continue;
        }
        if (instruction.kind == Instruction::Kind::kStart)
          started[static_cast<size_t>(instruction.operation)] = ends[1];
        if (instruction.kind == Instruction::Kind::kRemote)
          started[static_cast<size_t>(instruction.operation)] = now;
        if (instruction.kind == Instruction::Kind::kRemote || instruction.kind == Instruction::Kind::kWait) {
          const int64_t begin = std::max(started[static_cast<size_t>(instruction.operation)], before);
          AddCrossing(track, i, step, begin, std::max(now, begin), ends[1]);
          before = ends[1];
        }
        now = ends[1];
      }
    }
  }

  void AddCrossing(int track, size_t i, int64_t step, int64_t begin, int64_t waited, int64_t end) {
    const Instruction& instruction = schedule_.instructions[i];
    TraceLabel label = LabelOf(i);
    label.name = local_.nodes()[instruction.node].row->name;
    for (const RemoteStep::Part& part : instruction.receives)
      label.bytes += schedule_.buffers[part.buffer].bytes;
    const double hidden =
        end > begin ? static_cast<double>(waited - begin) / static_cast<double>(end - begin) : 0;
    label.texts.emplace_back("hidden", fmt::format("{:.0f} %", 100 * hidden));
    Add(track, AddLabel(std::move(label)), step, begin, end);
  }

  const TraceRecorder& recorder_;
  const Graph& local_;
  const Schedule& schedule_;
  const Domain& domain_;
  const std::vector<ProfileRow>& rows_;
  const int64_t kept_;  // steps
  Trace trace_;
};

TraceRecorder::TraceRecorder(const Schedule& schedule, int steps)
    : schedule_(schedule), lanes_(static_cast<size_t>(schedule.num_workers)) {
  MESHWORK_CHECK(steps >= 1, "{} steps", steps);
  bounds_.resize(static_cast<size_t>(steps));
  for (size_t w = 0; w < lanes_.size(); ++w) {
    Lane& lane = lanes_[w];
    lane.steps_ = steps;
    lane.slots_ = 1;
    for (const Instruction& instruction : schedule.instructions) {
      lane.first_.push_back(lane.slots_);
      const bool is_kernel = instruction.kind == Instruction::Kind::kKernel;
      lane.slots_ += 2 + (is_kernel ? instruction.slices[w].size() : 0);
    }
    lane.times_.resize(lane.slots_ * bounds_.size());
  }
}

void TraceRecorder::EndStep(Time start, Time end) {
  bounds_[static_cast<size_t>(steps_++) % bounds_.size()] = {Nanoseconds(start), Nanoseconds(end)};
}

void TraceRecorder::Clear() {
  for (Lane& lane : lanes_) lane.step_ = 0;
  steps_ = 0;
}

Trace TraceRecorder::Read(const std::vector<ProfileRow>& rows) const {
  return TraceReader(*this, rows).Read();
}

}  // namespace meshwork
