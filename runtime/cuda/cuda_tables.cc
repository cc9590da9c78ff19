#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_tables.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <variant>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/transfers.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {

class CudaTables::Maker {
 public:
  Maker(const CudaOwnMemory& own, const CudaFunctions& functions, CudaTables& tables)
      : own_(own), functions_(functions), tables_(tables) {}

  // Adds the launches of the level and of the bodies of its loops.
  void Add(const CudaLevel& level, const CudaBases& bases) {
    for (const CudaAction& action : level.actions) {
      if (const auto* const launch = std::get_if<TransferLaunch>(&action)) Add(*launch, bases);
      if (const auto* const launch = std::get_if<PartsLaunch>(&action)) Add(*launch, bases);
      if (const auto* const loop = std::get_if<LoopLaunch>(&action))
        for (const CudaLevel& body : loop->bodies) Add(body, BasesOfBody(body, own_, *loop, bases));
    }
  }

  // Waits for the stream.
  absl::Status Upload(const std::shared_ptr<const CudaStream>& stream) const {
    const auto upload = [&](const auto& table, CudaBuffer& to) -> absl::Status {
      const auto bytes = static_cast<int64_t>(table.size() * sizeof(table[0]));
      MESHWORK_ASSIGN_OR_RETURN(to, CudaBuffer::Allocate(stream, std::max<int64_t>(bytes, 1)));
      return CopyToDevice(*stream, to.address(), table.data(), bytes);
    };
    MESHWORK_RETURN_IF_ERROR(upload(transfers_, tables_.transfers_));
    MESHWORK_RETURN_IF_ERROR(upload(numbers_, tables_.numbers_));
    MESHWORK_RETURN_IF_ERROR(upload(parts_, tables_.parts_));
    return stream->Synchronize();
  }

 private:
  void Add(const TransferLaunch& launch, const CudaBases& bases) {
    tables_.first_transfers_[&launch] = std::ssize(transfers_);
    int64_t block = 0;
    for (size_t i = 0; i < launch.transfers.size(); ++i) {
      const BoxCopy& box = launch.transfers[i].box;
      CudaTransfer transfer{.first_block = block,
                            .elements = box.elements(),
                            .run = box.dims().empty() ? box.elements() : box.run()};
      block += TransferBlocks(box.elements());
      transfer.from_offset = box.from_offset();
      transfer.to_offset = box.to_offset();
      transfer.num_dims = std::ssize(box.dims());
      transfer.dims = std::ssize(numbers_);
      for (const BoxCopy::Dim& dim : box.dims())
        numbers_.insert(numbers_.end(), {dim.count, dim.from_stride, dim.to_stride});
      const std::vector<DeviceAddress>& addresses = launch.addresses[i];
      transfer.to = AddressAt(bases, addresses[0]);
      transfer.num_sources = std::ssize(addresses) - 1;
      transfer.sources = std::ssize(numbers_);
      for (size_t a = 1; a < addresses.size(); ++a)
        numbers_.push_back(static_cast<int64_t>(AddressAt(bases, addresses[a])));
      std::memcpy(&transfer.fill, launch.transfers[i].fill.data(), sizeof(transfer.fill));
      transfers_.push_back(transfer);
    }
  }
  void Add(const PartsLaunch& launch, const CudaBases& bases) {
    tables_.first_parts_[&launch] = std::ssize(parts_);
    int64_t block = 0;
    for (const PartsLaunch::Part& of : launch.parts) {
      CudaPart& part = parts_.emplace_back();
      part.first_block = block;
      block += launch.BlocksOf(of);
      part.end_block = block;
      part.elements = of.elements;
      part.table = of.table;
      for (size_t p = 0; p < of.pointers.size(); ++p) {
        part.pointers[p] = AddressAt(bases, of.pointers[p]);
        functions_.CheckAlignment(launch.kernel, part.pointers[p]);
      }
    }
  }

  const CudaOwnMemory& own_;
  const CudaFunctions& functions_;
  CudaTables& tables_;
  std::vector<CudaTransfer> transfers_;
  std::vector<int64_t> numbers_;
  std::vector<CudaPart> parts_;
};

absl::StatusOr<CudaTables> CudaTables::Create(const std::shared_ptr<const CudaStream>& stream,
                                              const CudaLevel& root, const CudaBases& bases,
                                              const CudaOwnMemory& own, const CudaFunctions& functions) {
  CudaTables tables;
  Maker maker(own, functions, tables);
  maker.Add(root, bases);
  MESHWORK_RETURN_IF_ERROR(maker.Upload(stream));
  return tables;
}

void CudaTables::AddArguments(const TransferLaunch& launch, KernelArguments& arguments) const {
  const auto first = static_cast<CUdeviceptr>(first_transfers_.at(&launch));
  arguments.Add(transfers_.address() + first * sizeof(CudaTransfer));
  arguments.Add(static_cast<long long>(launch.transfers.size()));
  arguments.Add(numbers_.address());
}

void CudaTables::AddArguments(const PartsLaunch& launch, KernelArguments& arguments) const {
  const auto first = static_cast<CUdeviceptr>(first_parts_.at(&launch));
  arguments.Add(parts_.address() + first * sizeof(CudaPart));
  arguments.Add(static_cast<long long>(launch.parts.size()));
  arguments.Add(static_cast<long long>(launch.per_block));
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
