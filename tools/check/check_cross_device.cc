#include "meshwork/tools/check/check_cross_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/run_calls.h"
#include "meshwork/tools/check/double_tensor.h"

namespace meshwork {
namespace {

constexpr size_t kMostFindings = 8;
constexpr int64_t kCounts[] = {0, 1, 2, 7, 8, 1001};
// More than a tile, and more than a piece, of any implementation.
constexpr int64_t kManyElements = 70001;
constexpr DType kDTypes[] = {F32, F64, BF16, DType::kF16, I32, I64, BOOL};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin};

// Memory with bytes around it that nobody may write.
class GuardedRoom {
 public:
  explicit GuardedRoom(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), memory_(bytes_ + 2 * kGuard, kMark) {}

  std::byte* data() { return memory_.data() + kGuard; }
  const std::byte* data() const { return memory_.data() + kGuard; }
  std::span<const std::byte> bytes() const { return {data(), bytes_}; }
  bool IsIntact() const {
    const auto is_mark = [](std::byte byte) { return byte == kMark; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, is_mark) &&
           std::all_of(memory_.end() - kGuard, memory_.end(), is_mark);
  }
  bool operator==(const GuardedRoom&) const = default;

 private:
  static constexpr std::ptrdiff_t kGuard = 64;
  static constexpr std::byte kMark{0xA5};
  size_t bytes_;
  std::vector<std::byte> memory_;
};

// The roundings of one operation on reals: half the distance of 1 and the next number.
double RoundingOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0x1p-24;
    case DType::kF64: return 0x1p-53;
    case DType::kBF16: return 0x1p-8;
    case DType::kF16: return 0x1p-11;
    default: return 0;
  }
}

// The terms of a pack, and the right results.
struct Trial {
  DType dtype;
  ReduceOp op;
  int64_t count;
  std::vector<int64_t> devices;
  std::vector<DoubleTensor> terms;
  std::vector<double> right, tolerance;  // per element

  Trial(DType dtype, ReduceOp op, int64_t count, size_t num_devices)
      : dtype(dtype), op(op), count(count), right(static_cast<size_t>(count)), tolerance(right.size()) {
    for (size_t k = 0; k < num_devices; ++k) devices.push_back(static_cast<int64_t>(10 + 2 * k));
    std::mt19937_64 engine(num_devices * 1000003 + static_cast<size_t>(count));
    for (size_t k = 0; k < num_devices; ++k) {
      DoubleTensor term{{dtype, {count}}, std::vector<double>(right.size())};
      for (double& value : term.values) value = Draw(engine);
      terms.push_back(FromBytes(term.type, ToBytes(term).data()));  // as the dtype holds them
    }
    for (size_t i = 0; i < right.size(); ++i) Fold(i);
  }

  // "sum of f32[7] over 3 devices"
  std::string ToString() const {
    return fmt::format("{} of {} over {}", ReduceOpName(op), Type{dtype, {count}}.ToString(),
                       Count(std::ssize(devices), "device"));
  }

 private:
  // Reals from 0.5 to 1.5, of both signs; small whole numbers that are not 0.
  double Draw(std::mt19937_64& engine) const {
    const auto bits = engine();
    if (dtype == BOOL) return bits % 5 == 0 ? 1 : 0;
    const double sign = (bits & 1) != 0 ? 1 : -1;
    if (dtype == I32 || dtype == I64) return sign * static_cast<double>(1 + (bits >> 1) % 3);
    return sign * (0.5 + static_cast<double>(bits >> 12) * 0x1p-52);
  }

  void Fold(size_t i) {
    double result = terms[0].values[i], size = std::abs(result);
    for (size_t k = 1; k < terms.size(); ++k) {
      const double term = terms[k].values[i];
      const bool or_of_bools = dtype == BOOL && op == ReduceOp::kSum;
      if (op == ReduceOp::kMax || or_of_bools) result = std::max(result, term);
      else if (op == ReduceOp::kMin) result = std::min(result, term);
      else if (op == ReduceOp::kSum) result += term;
      else result *= term;
      size = op == ReduceOp::kProd ? std::abs(result) : size + std::abs(term);
    }
    right[i] = result;
    const bool rounds = op == ReduceOp::kSum || op == ReduceOp::kProd;
    // Twice as much, because the right sum of f64 is computed in f64, too.
    if (rounds) tolerance[i] = 2 * static_cast<double>(terms.size()) * RoundingOf(dtype) * size;
  }
};

// Tries an op and collects findings.
class CrossDeviceTrials {
 public:
  explicit CrossDeviceTrials(CrossDeviceOps& ops) : ops_(ops) {}

  absl::StatusOr<CrossDeviceReport> Run() && {
    report_.op = ops_.name();
    if (report_.op.empty())
      findings_.emplace_back("CheckCrossDeviceOps: name() is empty; messages name the op by it.");
    // Wrong moves may refer to memory that does not exist.
    if (ops_.algorithm() != nullptr && !MovesAreRight(*ops_.algorithm()))
      return InvalidArgument("{}", fmt::join(findings_, "\n"));
    for (size_t devices = 1; devices <= 8 && findings_.size() < kMostFindings; ++devices) {
      for (const DType dtype : kDTypes)
        for (const int64_t count : kCounts) {
          for (const ReduceOp op : kOps) TryReductions({dtype, op, count, devices});
          TryBroadcasts({dtype, ReduceOp::kSum, count, devices});
        }
      TryReductions({F32, ReduceOp::kSum, kManyElements, devices});
      if (ops_.is_thread_safe()) TryAtOnce({F32, ReduceOp::kSum, kManyElements, devices});
    }
    for (const std::string& unknown : unimplemented_)
      report_.notes.push_back(fmt::format("{} is not implemented", unknown));
    if (findings_.empty()) return std::move(report_);
    return InvalidArgument("{}", fmt::join(findings_, "\n"));
  }

 private:
  // The status of a call, and the memory that it left.
  struct Outcome {
    absl::Status status;
    std::vector<GuardedRoom> terms, results;
  };

  void Find(std::string_view what, std::string_view is_wrong) {
    if (findings_.size() < kMostFindings)
      findings_.push_back(fmt::format("{}: {}: {}", report_.op, what, is_wrong));
  }

  template <typename F>
  static absl::Status WithoutExceptions(F&& call) {
    try {
      return call();
    } catch (...) {
      return CaughtFromCrossDeviceOps();
    }
  }

  // AllReduce, or Reduce to devices[root].
  Outcome Call(const Trial& trial, std::optional<size_t> root) const {
    Outcome outcome;
    const int64_t bytes = trial.count * DTypeSize(trial.dtype);
    std::vector<const std::byte*> terms;
    std::vector<std::byte*> results;
    outcome.terms.reserve(trial.terms.size());
    outcome.results.reserve(trial.terms.size());
    for (const DoubleTensor& term : trial.terms) {
      const std::vector<std::byte> content = ToBytes(term);
      std::copy(content.begin(), content.end(), outcome.terms.emplace_back(bytes).data());
      terms.push_back(outcome.terms.back().data());
      results.push_back(outcome.results.emplace_back(bytes).data());
    }
    const ReducePack pack{.dtype = trial.dtype,
                          .op = trial.op,
                          .count = trial.count,
                          .devices = trial.devices,
                          .terms = terms,
                          .root = root.value_or(0),
                          .to = results[root.value_or(0)]};
    outcome.status = WithoutExceptions(
        [&] { return root.has_value() ? ops_.Reduce(pack) : ops_.AllReduce(pack, results); });
    return outcome;
  }

  // False if the op does not support the call, or fails.
  bool IsDone(const std::string& what, const Trial& trial, const absl::Status& status) {
    if (status.ok()) return true;
    if (absl::IsUnimplemented(status))
      unimplemented_.insert(fmt::format("{} of {}", ReduceOpName(trial.op), DTypeName(trial.dtype)));
    else Find(what, MessageOf(status));
    return false;
  }

  // Checks the moves that an algorithm states, for backends that carry them out themselves; up to the first
  // mistake.
  bool MovesAreRight(const CrossDeviceAlgorithm& algorithm) {
    using Function = CrossDeviceFunction;
    constexpr std::pair<Function, std::string_view> kFunctions[] = {{Function::kReduce, "Reduce"},
                                                                    {Function::kBroadcast, "Broadcast"},
                                                                    {Function::kAllReduce, "AllReduce"}};
    for (size_t devices = 1; devices <= 8; ++devices)
      for (const int64_t count : kCounts)
        for (const size_t root : {size_t{0}, devices / 2, devices - 1})
          for (const auto& [function, name] : kFunctions) {
            const absl::Status status = CheckMoves(algorithm, function, {devices, count}, root);
            if (status.ok()) continue;
            Find(fmt::format("{} of {} over {}, from or to number {}", name, Count(count, "element"),
                             Count(static_cast<int64_t>(devices), "device"), root),
                 MessageOf(status));
            return false;
          }
    return true;
  }

  void TryReductions(const Trial& trial) {
    TryReduction(trial, std::nullopt);
    for (const size_t root : std::set<size_t>{0, trial.devices.size() / 2, trial.devices.size() - 1})
      TryReduction(trial, root);
  }

  void TryReduction(const Trial& trial, std::optional<size_t> root) {
    const std::string what = root.has_value()
                                 ? fmt::format("{}, for device {}", trial.ToString(), trial.devices[*root])
                                 : trial.ToString();
    const Outcome outcome = Call(trial, root);
    if (!IsDone(what, trial, outcome.status)) return;
    const size_t before = findings_.size();
    const Outcome untouched = Untouched(trial);
    for (size_t k = 0; k < trial.devices.size(); ++k) {
      const bool has_result = !root.has_value() || *root == k;
      if (outcome.terms[k] != untouched.terms[k])
        Find(what, fmt::format("it changed the terms of device {}; they are only read.", trial.devices[k]));
      if (!outcome.results[k].IsIntact())
        Find(what, fmt::format("it wrote beside the result of device {}, which has {}.", trial.devices[k],
                               Count(trial.count, "element")));
      if (has_result) CompareWithRight(what, trial, k, outcome.results[k]);
      if (!root.has_value() && findings_.size() == before &&
          !std::ranges::equal(outcome.results[k].bytes(), outcome.results[0].bytes()))
        Find(what, fmt::format("devices {} and {} have different bits; the result has to be the same on all.",
                               trial.devices[0], trial.devices[k]));
    }
    if (findings_.size() == before && Call(trial, root).results != outcome.results)
      Find(what, "a second call gave other bits; the order of the terms must always be the same.");
    report_.cases += findings_.size() == before ? 1 : 0;
  }

  static Outcome Untouched(const Trial& trial) {
    Outcome outcome;
    const int64_t bytes = trial.count * DTypeSize(trial.dtype);
    for (const DoubleTensor& term : trial.terms) {
      const std::vector<std::byte> content = ToBytes(term);
      std::copy(content.begin(), content.end(), outcome.terms.emplace_back(bytes).data());
      outcome.results.emplace_back(bytes);
    }
    return outcome;
  }

  // Reports the first element that is wrong.
  void CompareWithRight(const std::string& what, const Trial& trial, size_t k, const GuardedRoom& result) {
    const DoubleTensor found = FromBytes({trial.dtype, {trial.count}}, result.data());
    for (size_t i = 0; i < found.values.size(); ++i) {
      if (std::abs(found.values[i] - trial.right[i]) <= trial.tolerance[i]) continue;
      return Find(what, fmt::format("element {} on device {} is {}, and {} is right.", i, trial.devices[k],
                                    found.values[i], trial.right[i]));
    }
  }

  void TryBroadcasts(const Trial& trial) {
    for (size_t root = 0; root < trial.devices.size(); ++root) {
      const std::string what =
          fmt::format("broadcast of {} from device {} to {}", Type{trial.dtype, {trial.count}}.ToString(),
                      trial.devices[root], Count(std::ssize(trial.devices), "device"));
      std::vector<GuardedRoom> rooms(trial.devices.size(), GuardedRoom(trial.count * DTypeSize(trial.dtype)));
      std::vector<std::byte*> to;
      for (GuardedRoom& room : rooms) to.push_back(room.data());
      const std::vector<std::byte> content = ToBytes(trial.terms[root]);
      std::copy(content.begin(), content.end(), to[root]);
      const absl::Status status = WithoutExceptions([&] {
        return ops_.Broadcast({.dtype = trial.dtype,
                               .count = trial.count,
                               .devices = trial.devices,
                               .root = root,
                               .from = to[root],
                               .to = to});
      });
      if (!IsDone(what, trial, status)) continue;
      const size_t before = findings_.size();
      for (size_t k = 0; k < rooms.size(); ++k) {
        if (!std::ranges::equal(rooms[k].bytes(), content))
          Find(what, fmt::format("device {} has other bytes.", trial.devices[k]));
        if (!rooms[k].IsIntact())
          Find(what, fmt::format("it wrote beside the elements of device {}.", trial.devices[k]));
      }
      report_.cases += findings_.size() == before ? 1 : 0;
    }
  }

  void TryAtOnce(const Trial& trial) {
    const Outcome alone = Call(trial, std::nullopt);
    std::array<Outcome, 2> both;
    std::thread other([&] { both[1] = Call(trial, std::nullopt); });
    both[0] = Call(trial, std::nullopt);
    other.join();
    for (const Outcome& outcome : both)
      if (alone.status.ok() && outcome.results != alone.results)
        Find(trial.ToString(), "two threads at once got other bits than one; is_thread_safe() is true.");
  }

  CrossDeviceOps& ops_;
  CrossDeviceReport report_;
  std::vector<std::string> findings_;
  std::set<std::string> unimplemented_;
};

}  // namespace

std::string CrossDeviceReport::ToString() const {
  std::string text =
      fmt::format("{}: {} right\n", op, cases == 1 ? "1 call is" : fmt::format("{} calls are", cases));
  for (const std::string& note : notes) text += fmt::format("  {}\n", note);
  return text;
}

absl::StatusOr<CrossDeviceReport> CheckCrossDeviceOps(CrossDeviceOps& ops) {
  return CrossDeviceTrials(ops).Run();
}

}  // namespace meshwork
