#include "support/small_training.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {
namespace {

constexpr std::string_view kSmallTraining = R"(mesh [batch=4, model=2]
func step(%x: f32[10,5] {batch,_}, %t: f32[10,6] {batch,model}, var %w: f32[5,6] {_,model}, var %n: i64[] {}) {
  %y = matmul %x, %w
  %e = sub %y, %t
  %sq = mul %e, %e
  %loss = reduce_sum %sq dims=[0,1]
  %g = matmul %x, %e transpose_a=true
  %rate = constant value=0.01 dtype=f32 shape=[]
  %step = mul %g, %rate
  %w1 = sub %w, %step
  %one = constant value=1 dtype=i64 shape=[]
  %n1 = add %n, %one
  update %w = %w1
  update %n = %n1
  return loss=%loss
})";

}  // namespace

absl::StatusOr<SmallTraining> TrainSmall(Backend& backend, const ExecutorOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(kSmallTraining));
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph));
  std::map<std::string, DTensor> state;
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                            Executor::Create(program, backend, options, &state));
  SmallTraining trained;
  for (int step = 0; step < 5; ++step) {
    std::vector<float> x(50), t(60);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(static_cast<double>(i) + step));
    for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<float>(std::cos(3.0 * static_cast<double>(i)));
    std::map<std::string, Tensor> outputs;
    MESHWORK_RETURN_IF_ERROR(executor->Run(
        {{"x", Tensor::From<float>({10, 5}, x)}, {"t", Tensor::From<float>({10, 6}, t)}}, &outputs));
    trained.losses.push_back(outputs.at("loss").Scalar().value());
  }
  MESHWORK_ASSIGN_OR_RETURN(trained.w, Unpack(state.at("w")));
  MESHWORK_ASSIGN_OR_RETURN(trained.n, Unpack(state.at("n")));
  return trained;
}

}  // namespace meshwork
