// The other half of public_reports_test.cc: reports about steps and trainings.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"
#include "support/tensors.h"
#include "train/classifier.h"

namespace meshwork::training_reports_test {
namespace {

// ---- Batch norm over all devices, of batches that leave devices without a row.

constexpr int64_t kRows = 10, kColumns = 3;
constexpr double kMomentum = 0.8, kEpsilon = 1e-3;

// A batch norm of `rows` rows: y, dx of sum(y c), and the running statistics after it, in double.
struct Normalized {
  std::vector<double> y, dx, mean, variance;
};

void NormalizeColumn(int64_t column, int64_t rows, std::span<const double> x, std::span<const double> c,
                     Normalized& found) {
  const auto n = static_cast<double>(rows);
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < rows; ++i) mean += x[i * kColumns + column] / n;
  for (int64_t i = 0; i < rows; ++i) variance += std::pow(x[i * kColumns + column] - mean, 2) / n;
  const double root = std::sqrt(variance + kEpsilon);
  const auto standardized = [&](int64_t i) { return (x[i * kColumns + column] - mean) / root; };
  double of_c = 0, of_product = 0;  // means
  for (int64_t i = 0; i < rows; ++i) {
    of_c += c[i * kColumns + column] / n;
    of_product += c[i * kColumns + column] * standardized(i) / n;
  }
  for (int64_t i = 0; i < rows; ++i) {
    found.y[i * kColumns + column] = standardized(i);
    found.dx[i * kColumns + column] = (c[i * kColumns + column] - of_c - standardized(i) * of_product) / root;
  }
  found.mean[column] = kMomentum * found.mean[column] + (1 - kMomentum) * mean;
  found.variance[column] = kMomentum * found.variance[column] + (1 - kMomentum) * variance;
}

TEST(TrainingReportsTest, BatchNormOfFewRowsOnManyReplicas) {
  const Tensor all_x = Rough(Type{F64, {kRows, kColumns}});
  const Tensor all_c = Rough(Type{F64, {kRows + 1, kColumns}}).Rows(1, kRows + 1);
  for (int64_t replicas = 1; replicas <= 8; ++replicas) {
    Graph g(Mesh::VirtualCpus(fmt::format("batch={}", replicas)).value());
    const Value x = g.Input("x", F64, {kRows, kColumns}, {"batch", UNSHARDED});
    const Value c = g.Input("c", F64, {kRows, kColumns}, {"batch", UNSHARDED});
    const Value y = BatchNormalization(g, "norm", kColumns,
                                       {.momentum = kMomentum, .epsilon = kEpsilon, .dtype = F64})(x);
    g.Output("y", y);
    g.Output("dx", Gradients(ReduceSum(y * c), {x})[0]);
    Session session =
        Session::Create(g, {.executor = {.poison_padding = true, .check_replicas = true}}).value();
    Normalized expected{.mean = std::vector<double>(kColumns, 0),
                        .variance = std::vector<double>(kColumns, 1)};
    for (const int64_t rows : {10, 7, 3, 1, 10}) {
      SCOPED_TRACE(fmt::format("{} rows on {} replicas", rows, replicas));
      const Tensor some_x = all_x.Rows(0, rows), some_c = all_c.Rows(0, rows);
      const absl::StatusOr<StepResult> step = session.Run({{"x", some_x}, {"c", some_c}});
      ASSERT_TRUE(step.ok()) << step.status();
      expected.y.assign(static_cast<size_t>(rows * kColumns), 0);
      expected.dx = expected.y;
      for (int64_t column = 0; column < kColumns; ++column)
        NormalizeColumn(column, rows, some_x.values<double>(), some_c.values<double>(), expected);
      const Shape shape = {rows, kColumns};
      ExpectNear(step->Get("y").value(), Tensor::From<double>(shape, expected.y), 1e-9);
      ExpectNear(step->Get("dx").value(), Tensor::From<double>(shape, expected.dx), 1e-9);
      ExpectNear(session.Get("norm/mean").value(), Tensor::From<double>({kColumns}, expected.mean), 1e-12);
      ExpectNear(session.Get("norm/variance").value(), Tensor::From<double>({kColumns}, expected.variance),
                 1e-12);
    }
    // No row at all is no batch: refused, and the statistics stay.
    const absl::StatusOr<StepResult> none = session.Run({{"x", all_x.Rows(0, 0)}, {"c", all_c.Rows(0, 0)}});
    EXPECT_THAT(std::string(none.status().message()), testing::HasSubstr("f64[0,3]"));
    ExpectNear(session.Get("norm/mean").value(), Tensor::From<double>({kColumns}, expected.mean), 1e-12);
    ExpectNear(session.Get("norm/variance").value(), Tensor::From<double>({kColumns}, expected.variance),
               1e-12);
  }
}

// ---- ZeRO with variables of every kind.

constexpr int64_t kBatch = 12, kWords = 6, kWidth = 4, kSteps = 8;
constexpr double kRate = 0.05, kBeta1 = 0.9, kBeta2 = 0.999, kAdamEpsilon = 1e-8;

// logits = (table[ids] + shift) · tableᵀ: the table is tied, the shift frozen, and nothing reads "unused".
Graph TiedTable(int64_t devices) {
  Graph g(Mesh::VirtualCpus(fmt::format("batch={}", devices)).value());
  const Value ids = g.Input("ids", I32, {kBatch}, {"batch"}),
              labels = g.Input("labels", I32, {kBatch}, {"batch"});
  const Value factor = g.Input("factor", F64, {}, {});
  const Variable table = g.Var("table", GlorotUniform({kWords, kWidth}, F64)),
                 shift = g.Var("shift", GlorotUniform({1, kWidth}, F64), {}, VarOptions{.trainable = false});
  g.Var("unused", GlorotUniform({5, 3}, F64));
  const Value h = Gather(table, ids, 0) + shift;
  const Value loss = SparseSoftmaxCrossEntropy(MatMul(h, Transpose(table, {1, 0})), labels);
  const Minimized minimized = Adam({.learning_rate = kRate,
                                    .beta1 = kBeta1,
                                    .beta2 = kBeta2,
                                    .epsilon = kAdamEpsilon,
                                    .loss_scale = LossScale::Static(64)})
                                  .Minimize(loss * factor);
  g.Output("loss", loss);
  g.Output("skipped", minimized.skipped());
  return g;
}

std::vector<int32_t> Words(int64_t step, int64_t factor) {
  std::vector<int32_t> words;
  for (int64_t i = 0; i < kBatch; ++i)
    words.push_back(static_cast<int32_t>((i * factor + step * 5 + i * i) % kWords));
  return words;
}

// Steps 2 and 5 are skipped: their gradients are infinite or NaN.
bool Skips(int64_t step) { return step == 2 || step == 5; }

// The same in double, by loops.
class ReferenceTraining {
 public:
  ReferenceTraining(std::span<const double> table, std::span<const double> shift)
      : table_(table.begin(), table.end()),
        shift_(shift.begin(), shift.end()),
        m_(table.size()),
        v_(table.size()) {}

  const std::vector<double>& table() const { return table_; }

  double Step(int64_t step) {
    const std::vector<int32_t> ids = Words(step, 7), labels = Words(step, 3);
    std::vector<double> gradient(table_.size(), 0);
    double loss = 0;
    for (int64_t i = 0; i < kBatch; ++i) loss += Row(ids[i], labels[i], gradient) / kBatch;
    if (Skips(step)) return loss;
    ++updates_;
    for (size_t p = 0; p < table_.size(); ++p) {
      m_[p] = kBeta1 * m_[p] + (1 - kBeta1) * gradient[p];
      v_[p] = kBeta2 * v_[p] + (1 - kBeta2) * gradient[p] * gradient[p];
      const double m = m_[p] / (1 - std::pow(kBeta1, updates_)), v = v_[p] / (1 - std::pow(kBeta2, updates_));
      table_[p] -= kRate * m / (std::sqrt(v) + kAdamEpsilon);
    }
    return loss;
  }

 private:
  // The loss of one row; also adds the row's part to the gradient of the mean.
  double Row(int64_t id, int64_t label, std::vector<double>& gradient) const {
    double h[kWidth], dh[kWidth] = {}, logits[kWords], sum = 0;
    for (int64_t d = 0; d < kWidth; ++d) h[d] = table_[id * kWidth + d] + shift_[d];
    for (int64_t w = 0; w < kWords; ++w) {
      logits[w] = 0;
      for (int64_t d = 0; d < kWidth; ++d) logits[w] += h[d] * table_[w * kWidth + d];
      sum += std::exp(logits[w]);
    }
    for (int64_t w = 0; w < kWords; ++w) {
      const double dlogit = (std::exp(logits[w]) / sum - (w == label ? 1 : 0)) / kBatch;
      for (int64_t d = 0; d < kWidth; ++d) {
        gradient[w * kWidth + d] += dlogit * h[d];
        dh[d] += dlogit * table_[w * kWidth + d];
      }
    }
    for (int64_t d = 0; d < kWidth; ++d) gradient[id * kWidth + d] += dh[d];
    return std::log(sum) - logits[label];
  }

  std::vector<double> table_, shift_, m_, v_;
  int64_t updates_ = 0;
};

Session TiedSession(int64_t devices, Transport* transport) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.compile.shard_weight_update = true;
  options.executor.poison_padding = options.executor.check_replicas = true;
  options.executor.transport = transport;
  return Session::Create(TiedTable(devices), options).value();
}

class ZeroReportsTest : public TempDirTest {
 protected:
  // Runs steps [begin, end), each with the reference's loss; the session's table is then that of the reference.
  void Train(Session& session, ReferenceTraining& reference, int64_t begin, int64_t end) const {
    for (int64_t step = begin; step < end; ++step) {
      const double factor = Skips(step) ? std::numeric_limits<double>::infinity() : 1;
      const absl::StatusOr<StepResult> found =
          session.Run({{"ids", Tensor::From<int32_t>({kBatch}, Words(step, 7))},
                       {"labels", Tensor::From<int32_t>({kBatch}, Words(step, 3))},
                       {"factor", Tensor::From<double>({}, {factor})}});
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_NEAR(found->scalar("loss").value(), reference.Step(step), 1e-9) << "step " << step;
      EXPECT_EQ(found->scalar("skipped").value() != 0, Skips(step)) << "step " << step;
    }
    ExpectNear(session.Get("table").value(), Tensor::From<double>({kWords, kWidth}, reference.table()), 1e-9);
  }

  static std::vector<double> Get(Session& session, const std::string& name) {
    return NumbersOf(session.Get(name).value());
  }
};

TEST_F(ZeroReportsTest, TiedFrozenAndUnusedVariablesGoOnInOtherProcesses) {
  for (const int64_t devices : {2, 4, 6}) {
    const std::string path = Path(fmt::format("devices{}", devices));
    std::vector<double> table, shift, unused;
    InDomainsOf(2, [&](Transport* transport) {
      Session session = TiedSession(devices, transport);
      const std::vector<double> at_first = Get(session, "table"), at_first_shift = Get(session, "shift"),
                                at_first_unused = Get(session, "unused");
      ReferenceTraining reference(at_first, at_first_shift);
      Train(session, reference, 0, kSteps / 2);
      const absl::Status saved = session.Save(path);
      ASSERT_TRUE(saved.ok()) << saved;
      if (transport->domain() != 0) return;
      table = at_first, shift = at_first_shift, unused = at_first_unused;
    });
    for (const int64_t processes : {1, 3}) {
      SCOPED_TRACE(fmt::format("saved by 2 processes with {} devices, restored by {}", devices, processes));
      InDomainsOf(processes, [&](Transport* transport) {
        Session session = TiedSession(processes == 3 ? 6 : devices, transport);
        const absl::Status restored = session.Restore(path).status();
        ASSERT_TRUE(restored.ok()) << restored;
        ReferenceTraining reference(table, shift);
        for (int64_t step = 0; step < kSteps / 2; ++step) reference.Step(step);
        Train(session, reference, kSteps / 2, kSteps);
        EXPECT_EQ(Get(session, "shift"), shift);
        EXPECT_EQ(Get(session, "unused"), unused);
      });
    }
  }
}

}  // namespace
}  // namespace meshwork::training_reports_test
