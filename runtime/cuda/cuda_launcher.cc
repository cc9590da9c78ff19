#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_launcher.h"

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_fault.h"
#include "meshwork/runtime/cuda/kernel_arguments.h"
#include "meshwork/runtime/exec/replicas.h"

namespace meshwork {

// ---- Levels.

absl::Status CudaLauncher::EnqueueOnce(const CudaLevel& level, const CudaBases& bases) {
  for (const CudaAction& action : level.once) {
    if (const auto* const product = std::get_if<ProductLaunch>(&action))
      MESHWORK_RETURN_IF_ERROR(Launch(level, *product, bases));
    else if (const auto* const convolution = std::get_if<ConvolutionLaunch>(&action))
      MESHWORK_RETURN_IF_ERROR(Launch(level, *convolution, bases));
    else MESHWORK_RETURN_IF_ERROR(Launch(level, std::get<KernelLaunch>(action), bases));
    if (means_.blocking) MESHWORK_RETURN_IF_ERROR(WaitFor(level, action));
  }
  for (const CudaAction& action : level.actions)
    if (const auto* const loop = std::get_if<LoopLaunch>(&action))
      for (const CudaLevel& body : loop->bodies)
        MESHWORK_RETURN_IF_ERROR(EnqueueOnce(body, BasesOfBody(body, means_.own, *loop, bases)));
  return absl::OkStatus();
}

absl::Status CudaLauncher::Enqueue(const CudaLevel& level, size_t begin, size_t end, const CudaBases& bases,
                                   const CudaTables& tables) {
  for (size_t i = begin; i < end; ++i) {
    const CudaAction& action = level.actions[i];
    if (const auto* const kernel = std::get_if<KernelLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(level, *kernel, bases));
    } else if (const auto* const parts = std::get_if<PartsLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(level, *parts, bases, tables));
    } else if (const auto* const product = std::get_if<ProductLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(level, *product, bases));
    } else if (const auto* const convolution = std::get_if<ConvolutionLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(level, *convolution, bases));
    } else if (const auto* const transfers = std::get_if<TransferLaunch>(&action)) {
      const bool is_wanted =
          transfers->unpacks < 0 || bases[static_cast<size_t>(transfers->addresses[0][0].storage)] != 0;
      if (is_wanted) MESHWORK_RETURN_IF_ERROR(Launch(*transfers, tables));
    } else if (const auto* const compare = std::get_if<CompareStep>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Compare(level, *compare, bases));
    } else if (const auto* const remote = std::get_if<RemoteLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(*remote, bases));
    } else {
      MESHWORK_RETURN_IF_ERROR(EnqueueLoop(std::get<LoopLaunch>(action), bases, tables));
    }
    if (means_.profiler != nullptr) MESHWORK_RETURN_IF_ERROR(means_.profiler->Ran(action));
    if (means_.blocking) MESHWORK_RETURN_IF_ERROR(WaitFor(level, action));
  }
  return absl::OkStatus();
}

absl::Status CudaLauncher::WaitFor(const CudaLevel& level, const CudaAction& action) {
  const absl::Status waited = Await();
  const CudaContext& context = means_.stream->context();
  if (waited.ok() || context.lost() == CUDA_SUCCESS) return waited;
  return FaultOfLaunch(context, DescribeAction(level, action));
}

absl::Status CudaLauncher::EnqueueLoop(const LoopLaunch& loop, const CudaBases& bases,
                                       const CudaTables& tables) {
  const auto run = [&](size_t b) {
    return Enqueue(loop.bodies[b], BasesOfBody(loop.bodies[b], means_.own, loop, bases), tables);
  };
  switch (loop.kind) {
    case NestedStep::Kind::kRepeat:
      for (int64_t t = 0; t < loop.length; ++t) MESHWORK_RETURN_IF_ERROR(run(0));
      return absl::OkStatus();
    case NestedStep::Kind::kWhile:
      while (true) {
        MESHWORK_RETURN_IF_ERROR(run(0));
        MESHWORK_ASSIGN_OR_RETURN(const bool goes_on, IsTrue(AddressAt(bases, loop.predicate)));
        if (!goes_on) return absl::OkStatus();
        MESHWORK_RETURN_IF_ERROR(run(1));
      }
    case NestedStep::Kind::kBranch: break;
  }
  MESHWORK_ASSIGN_OR_RETURN(const bool is_true, IsTrue(AddressAt(bases, loop.predicate)));
  return run(is_true ? 0 : 1);
}

absl::StatusOr<bool> CudaLauncher::IsTrue(CUdeviceptr predicate) {
  MESHWORK_RETURN_IF_ERROR(CopyToHost(*means_.stream, means_.predicate, predicate, 1));
  MESHWORK_RETURN_IF_ERROR(Await());
  return *means_.predicate != std::byte{0};
}

absl::Status CudaLauncher::Await() {
  return means_.remotes == nullptr ? means_.stream->Synchronize() : means_.remotes->Await(*means_.stream);
}

// ---- Launches.

absl::Status CudaLauncher::NamingNode(const absl::Status& status, const CudaLevel& level,
                                      const std::vector<ProfiledNode>& nodes) const {
  const bool is_of_others = means_.stream->context().lost() != CUDA_SUCCESS && !means_.blocking;
  if (status.ok() || is_of_others) return status;
  return Annotate(status, fmt::format("Run: {}: ", level.plan->graph->Describe(nodes.front().node)));
}

CUdeviceptr CudaLauncher::AddressOf(const DeviceAddress& address, const CudaBases& bases) const {
  if (address.storage == DeviceAddress::kScratch)
    return means_.workspace + static_cast<CUdeviceptr>(address.offset);
  return AddressAt(bases, address);
}

absl::Status CudaLauncher::Launch(const CudaLevel& level, const KernelLaunch& launch,
                                  const CudaBases& bases) {
  KernelArguments arguments;
  for (const DeviceAddress& pointer : launch.pointers) {
    const CUdeviceptr address = AddressOf(pointer, bases);
    means_.functions->CheckAlignment(launch.kernel, address);
    arguments.Add(address);
  }
  for (const long long number : launch.blocks) arguments.Add(number);
  return NamingNode(means_.functions->Launch(*means_.stream, launch.kernel, launch.grid, arguments), level,
                    launch.nodes);
}

absl::Status CudaLauncher::Launch(const CudaLevel& level, const ProductLaunch& launch,
                                  const CudaBases& bases) {
  const CudaProducts::Addresses addresses{AddressAt(bases, launch.a), AddressAt(bases, launch.b),
                                          AddressAt(bases, launch.d)};
  means_.products->CheckAlignment(launch.product, addresses);
  return NamingNode(means_.products->Launch(*means_.stream, launch.product, addresses, means_.workspace),
                    level, launch.nodes);
}

absl::Status CudaLauncher::Launch(const CudaLevel& level, const ConvolutionLaunch& launch,
                                  const CudaBases& bases) {
  const CudaConvolutions::Addresses addresses{AddressOf(launch.x, bases), AddressOf(launch.w, bases),
                                              AddressOf(launch.y, bases)};
  means_.convolutions->CheckAlignment(launch.convolution, addresses);
  return NamingNode(means_.convolutions->Launch(*means_.stream, launch.convolution, addresses,
                                                AddressOf(launch.workspace, bases)),
                    level, launch.nodes);
}

absl::Status CudaLauncher::Launch(const CudaLevel& level, const PartsLaunch& launch, const CudaBases& bases,
                                  const CudaTables& tables) {
  KernelArguments arguments;
  tables.AddArguments(launch, arguments);
  for (const DeviceAddress& operand : launch.common) arguments.Add(AddressAt(bases, operand));
  return NamingNode(means_.functions->Launch(*means_.stream, launch.kernel, launch.blocks, arguments), level,
                    launch.nodes);
}

absl::Status CudaLauncher::Launch(const TransferLaunch& launch, const CudaTables& tables) {
  KernelArguments arguments;
  tables.AddArguments(launch, arguments);
  return means_.functions->Launch(*means_.stream, launch.kernel, launch.blocks, arguments);
}

absl::Status CudaLauncher::Launch(const RemoteLaunch& launch, const CudaBases& bases) {
  std::vector<CUdeviceptr> sends, receives;
  for (const DeviceAddress& from : launch.sends) sends.push_back(AddressAt(bases, from));
  for (const DeviceAddress& to : launch.receives) receives.push_back(AddressAt(bases, to));
  if (launch.step->kind != RemoteStep::Kind::kWait)
    MESHWORK_RETURN_IF_ERROR(means_.remotes->Start(launch.number, *means_.stream, sends, receives));
  if (launch.step->kind == RemoteStep::Kind::kStart) return absl::OkStatus();
  return means_.remotes->Wait(launch.number, *means_.stream, receives);
}

absl::Status CudaLauncher::Compare(const CudaLevel& level, const CompareStep& compare,
                                   const CudaBases& bases) {
  const CopyStep& step = *compare.step;
  // Copies to memory that is not pinned block, and do not notice meanwhile that another domain is lost. So wait before.
  MESHWORK_RETURN_IF_ERROR(Await());
  for (size_t i = 0; i < step.transfers.size() && difference_.ok(); ++i) {
    const Transfer& transfer = step.transfers[i];
    std::vector<std::byte> copies[2];
    for (size_t c = 0; c < 2; ++c) {
      const Buffer& buffer = level.plan->buffers[static_cast<size_t>(transfer.from[c])];
      copies[c].resize(static_cast<size_t>(buffer.bytes));
      const CUdeviceptr from = AddressAt(bases, {buffer.storage, buffer.offset});
      MESHWORK_RETURN_IF_ERROR(CopyToHost(*means_.stream, copies[c].data(), from, buffer.bytes));
    }
    MESHWORK_RETURN_IF_ERROR(Await());
    const std::optional<Difference> difference =
        FindDifference(transfer.box, 0, transfer.box.elements(), DTypeSize(transfer.dtype), copies[0].data(),
                       copies[1].data());
    if (!difference.has_value()) continue;
    const ValueInfo& info = level.plan->graph->value(step.value);
    const auto [first, second] = step.replicas[i];
    difference_ =
        DifferenceError("Run: " + step.subject, info.global, *info.layout, first, second, *difference);
  }
  return absl::OkStatus();
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
