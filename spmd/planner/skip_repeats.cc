// SkipRepeats (fold_repeats.h): finds layers that repeat in the order of a program's nodes.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "meshwork/ir/readers.h"
#include "meshwork/spmd/planner/fold_repeats.h"

namespace meshwork {
namespace {

constexpr int kMostPeriods = 24;    // that are tried
constexpr size_t kMostBegins = 16;  // of a run, that are tried
constexpr int kLeastTimes = 4;      // that something repeats, to leave some out

// Nodes [begin, end). From begin + period on, each of them is like the node `period` before it.
struct Repeats {
  int begin, end, period;
  int times() const { return (end - begin) / period; }
  int length() const { return end - begin; }
};

class RunFinder {
 public:
  explicit RunFinder(const std::vector<int>& class_of)
      : class_of_(class_of), size_(static_cast<int>(class_of.size())), taken_(class_of.size(), false) {}

  // The runs of layers in the order of the program, without those that have far fewer layers than the longest run.
  std::vector<Repeats> Find() {
    std::vector<Repeats> runs;
    const std::vector<int> periods = Periods();
    for (int period : periods) AddRuns(period, periods, runs);
    const auto longest = std::max_element(
        runs.begin(), runs.end(), [](const Repeats& a, const Repeats& b) { return a.length() < b.length(); });
    if (longest == runs.end()) return runs;
    // Layers at the ends may belong to one run and not to another.
    const int least = longest->times() - 2;
    std::erase_if(runs, [&](const Repeats& run) { return run.times() < least; });
    std::sort(runs.begin(), runs.end(), [](const Repeats& a, const Repeats& b) { return a.begin < b.begin; });
    return runs;
  }

 private:
  // The distances between a node and the last one like it, the most frequent first.
  std::vector<int> Periods() const {
    std::vector<int> last(class_of_.size(), -1);
    std::map<int, int> count;
    for (int n = 0; n < size_; ++n) {
      int& before = last[class_of_[n]];
      if (before >= 0) ++count[n - before];
      before = n;
    }
    std::vector<std::pair<int, int>> by_count;
    for (const auto& [period, times] : count) by_count.emplace_back(-times, period);
    std::sort(by_count.begin(), by_count.end());
    std::vector<int> periods;
    for (const auto& [times, period] : by_count)
      if (static_cast<int>(periods.size()) < kMostPeriods) periods.push_back(period);
    return periods;
  }

  bool HasPeriod(int begin, int end, int period) const {
    return std::equal(class_of_.begin() + begin + period, class_of_.begin() + end, class_of_.begin() + begin);
  }

  void AddRuns(int period, const std::vector<int>& periods, std::vector<Repeats>& runs) {
    int begin = 0;
    auto end_at = [&](int end) {
      Repeats run{begin, end, period};
      if (run.times() >= kLeastTimes) {
        // A run with some period also repeats with its multiples: the shortest period is the layer.
        for (int shorter : periods)
          if (shorter < run.period && HasPeriod(begin, end, shorter)) run.period = shorter;
        runs.push_back(run);
        std::fill(taken_.begin() + begin, taken_.begin() + end, true);
      }
    };
    for (int n = 0; n < size_; ++n) {
      if (taken_[n]) {
        end_at(n);
        begin = n + 1;
      } else if (n >= begin + period && class_of_[n] != class_of_[n - period]) {
        end_at(n);
        begin = n - period + 1;
        while (begin <= n && taken_[begin]) ++begin;
      }
    }
    end_at(size_);
  }

  const std::vector<int>& class_of_;
  const int size_;
  std::vector<bool> taken_;  // per node: it is in a run
};

class Skipper {
 public:
  Skipper(const Graph& graph, const Fold& alike, int kept)
      : graph_(graph),
        kept_(kept),
        runs_(RunFinder(alike.class_of).Find()),
        is_in_run_(graph.nodes().size(), false),
        stands_for_(graph.nodes().size(), -1) {}

  Fold Run() {
    int times = 0;
    for (const Repeats& run : runs_) times = times == 0 ? run.times() : std::min(times, run.times());
    const int skipped = times - kept_;
    if (skipped <= 0) return Unfolded(graph_);
    FindHomes();
    for (const Repeats& run : runs_)
      std::fill(is_in_run_.begin() + run.begin, is_in_run_.begin() + run.end, true);
    for (Repeats& run : runs_)
      run.period *= run.times() / times;  // if a run repeats several times in each layer
    // Layers may begin at any of their ops. Chooses a beginning for which a variable stays if its new value does.
    std::optional<Fold> first;
    for (int begin : Begins(runs_[0], skipped)) {
      std::fill(stands_for_.begin(), stands_for_.end(), -1);
      LeaveOut(runs_[0], begin, skipped);
      for (size_t i = 1; i < runs_.size(); ++i) LeaveOut(runs_[i], BestBegin(runs_[i], skipped), skipped);
      Fold fold = Made();
      if (KeepsUpdates(fold)) return fold;
      if (!first.has_value()) first = std::move(fold);
    }
    return *std::move(first);
  }

 private:
  // Finds the node that makes each value, or first reads an argument, and how many values are held before each node. A
  // variable is held until its new value is made.
  void FindHomes() {
    const Readers readers = ReadersOf(graph_);
    std::vector<int> last;
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values().size()); ++id) {
      const int maker = graph_.value(id).node;
      home_.push_back(maker >= 0 || readers[id].empty() ? maker : readers[id][0].node);
      last.push_back(std::max(maker, readers.last(id)));
    }
    for (const VariableUpdate& update : graph_.updates()) {
      int& end = last[graph_.arguments()[update.argument].value];
      end = std::max(end, graph_.value(update.value).node);
    }
    std::vector<int> changes(graph_.nodes().size() + 1, 0);
    for (size_t id = 0; id < last.size(); ++id) {
      if (last[id] <= home_[id]) continue;
      ++changes[home_[id] + 1];
      --changes[last[id] + 1];
    }
    int held = 0;
    for (int change : changes) held_.push_back(held += change);
  }

  // The nodes from which layers of the first run may be left out: first the node after one layer, then the others,
  // those first where the fewest values are held.
  std::vector<int> Begins(const Repeats& run, int times) const {
    std::vector<int> begins;
    for (int i = 0; i < run.period && run.begin + run.period + i + times * run.period <= run.end; ++i)
      begins.push_back(run.begin + run.period + i);
    std::stable_sort(begins.begin() + 1, begins.end(), [&](int a, int b) { return held_[a] < held_[b]; });
    if (begins.size() > kMostBegins) begins.resize(kMostBegins);
    return begins;
  }

  bool KeepsUpdates(const Fold& fold) const {
    const auto stays = [&](ValueId id) { return fold.value_of[id] == id; };
    return std::all_of(graph_.updates().begin(), graph_.updates().end(), [&](const VariableUpdate& update) {
      return stays(graph_.arguments()[update.argument].value) == stays(update.value);
    });
  }

  // The node of this run at which the layers begin that earlier runs leave out. With the best beginning, the fewest
  // reads lead from layers that are left out to layers that stay, or the other way.
  int BestBegin(const Repeats& run, int times) const {
    const int length = times * run.period;
    // Before each node of the run: the number of reads of values that earlier runs leave out, and of values that they
    // keep.
    std::vector<int> of_skipped = {0}, of_kept = {0};
    for (int n = run.begin; n < run.end; ++n) {
      of_skipped.push_back(of_skipped.back());
      of_kept.push_back(of_kept.back());
      for (ValueId id : graph_.nodes()[n].operands) {
        const int home = home_[id];
        if (home >= run.begin || !is_in_run_[home]) continue;
        ++(stands_for_[home] >= 0 ? of_skipped : of_kept).back();
      }
    }
    int best = run.begin + run.period, least = -1;
    for (int begin = run.begin + run.period; begin + length <= run.end; ++begin) {
      const size_t from = static_cast<size_t>(begin - run.begin), to = from + static_cast<size_t>(length);
      const int across =
          of_kept[to] - of_kept[from] + of_skipped.back() - (of_skipped[to] - of_skipped[from]);
      if (least >= 0 && across >= least) continue;
      least = across;
      best = begin;
    }
    return best;
  }

  void LeaveOut(const Repeats& run, int begin, int times) {
    for (int n = begin; n < begin + times * run.period; ++n)
      stands_for_[n] = begin - run.period + (n - begin) % run.period;
  }

  Fold Made() const {
    Fold fold = Unfolded(graph_);
    fold.first.clear();
    std::vector<bool> is_kept(graph_.values().size(), false);
    for (size_t n = 0; n < stands_for_.size(); ++n)
      if (stands_for_[n] < 0)
        for (ValueId id : graph_.nodes()[n].operands) is_kept[id] = true;
    for (size_t n = 0; n < stands_for_.size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (stands_for_[n] < 0) {
        fold.class_of[n] = static_cast<int>(fold.first.size());
        fold.first.push_back(static_cast<int>(n));
        continue;
      }
      const Node& alike = graph_.nodes()[stands_for_[n]];
      fold.class_of[n] = fold.class_of[stands_for_[n]];
      for (size_t r = 0; r < node.results.size(); ++r)
        fold.value_of[node.results[r]] = fold.value_of[alike.results[r]];
      // Arguments that are read only in layers that are left out.
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (const ValueId id = node.operands[i]; graph_.value(id).node < 0 && !is_kept[id])
          fold.value_of[id] = fold.value_of[alike.operands[i]];
    }
    // A variable that nothing reads, such as a statistic that is only written, is folded as its new value is.
    std::vector<ValueId> variable_of(graph_.values().size(), kNoValue);
    for (const VariableUpdate& update : graph_.updates())
      variable_of[update.value] = graph_.arguments()[update.argument].value;
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueId variable = variable_of[update.value], alike = variable_of[fold.value_of[update.value]];
      if (home_[variable] < 0 && alike != kNoValue && home_[alike] < 0) fold.value_of[variable] = alike;
    }
    return fold;
  }

  const Graph& graph_;
  const int kept_;
  std::vector<Repeats> runs_;
  std::vector<int> home_;        // per value: a node
  std::vector<int> held_;        // per node: values
  std::vector<bool> is_in_run_;  // per node
  std::vector<int> stands_for_;  // per node that is left out: the one that stands for it; else -1
};

}  // namespace

Fold SkipRepeats(const Graph& graph, const Fold& alike, int kept) {
  return Skipper(graph, alike, kept).Run();
}

}  // namespace meshwork
