// The initial values of a session's variables.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/session/session_graphs.h"
#include "meshwork/session/session_impl.h"

namespace meshwork {

// The two programs give the same bits as one would: random values do not depend on the place where they are
// made.
absl::Status Session::Impl::Initialize(const std::set<std::string>* chosen) {
  Graph init = InitializerGraph(graph, options.seed, chosen);
  if (init.status().ok() && !backend->memory()->is_host()) {
    const InitializedWhere where = WhereToInitialize(init);
    if (!where.on_host.empty()) {
      MESHWORK_RETURN_IF_ERROR(InitializeOnHost(InitializerGraph(graph, options.seed, &where.on_host)));
      init = InitializerGraph(graph, options.seed, &where.others);
    }
  }
  MESHWORK_ASSIGN_OR_RETURN(const Ready ready, Prepare(init, ForOthers(), Whole()));
  return ready.executor->Run({}, nullptr);
}

absl::Status Session::Impl::InitializeOnHost(const Graph& init) {
  MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileInAll(init, ForOthers(), /*atomic=*/false));
  ExecutorOptions on_host = Whole();
  on_host.cross_device_ops = nullptr;  // which may be a GPU's
  on_host.bytes_per_pack = 0;
  std::map<std::string, DTensor> values;
  {
    const std::shared_ptr<Backend> host = MakeCpuBackend(options);
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                              Executor::Create(program, *host, on_host, &values));
    MESHWORK_RETURN_IF_ERROR(executor->Run({}, nullptr));
  }
  for (auto& [name, value] : values) {
    DTensor& variable = variables.at(name);
    MESHWORK_CHECK(value.layout() == variable.layout() && value.bytes() == variable.bytes(), "{}", name);
    MESHWORK_RETURN_IF_ERROR(variable.memory().Upload(BoxCopy::Linear(value.bytes()), /*size=*/1,
                                                      value.instance(0), variable.instance(0)));
    value = {};  // the host need not hold all of them to the end
  }
  return absl::OkStatus();
}

}  // namespace meshwork
