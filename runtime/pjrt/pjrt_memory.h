// PjrtMemory: DTensors that lie on the devices of a PJRT plugin, where a tensor is a buffer without an address.
//
// So an allocation has an image in the memory of the process, whose addresses are those of the DTensor, and buffers on the
// devices, one on each. The image holds the elements, or the buffers do, or both. While only the buffers hold them, the image is
// addresses without memory behind them.
//
//   host writes (Upload)  ──▶  image            buffers that a step takes (OnDevices) are copied from the image,
//   host reads (Download) ◀──  image  ◀──▶  buffers     and the image from buffers that a step has made (Replace)
//
// Instances (runtime/plan/sharing.h) are those of the image; each device that shares one has a copy of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"
#include "meshwork/runtime/exec/memory.h"
#include "meshwork/runtime/pjrt/pjrt_client.h"
#include "meshwork/runtime/plan/sharing.h"

namespace meshwork {

// How an allocation is cut into blocks, one per instance.
struct PjrtBlocks {
  Type block;
  InstanceMap instances;
  int64_t num_devices = 1;
};

// One allocation. Thread-safe, as Memory is: calls for one allocation wait for each other.
class PjrtImage {
 public:
  PjrtImage(std::shared_ptr<const PjrtClient> client, int64_t bytes);  // zeros; throws std::bad_alloc
  ~PjrtImage();
  PjrtImage(const PjrtImage&) = delete;
  PjrtImage& operator=(const PjrtImage&) = delete;

  std::byte* base() const { return base_; }

  // The buffer of each device, copied from the image unless they hold the elements. They stay this image's, and are there until
  // the next call. keep_image: the image keeps the elements, too, for a tensor that the host will write again. Error: one of the
  // devices.
  absl::StatusOr<std::vector<pjrt::Buffer*>> OnDevices(const PjrtBlocks& blocks, bool keep_image);
  // The devices' buffers hold the elements from now on.
  void Replace(const PjrtBlocks& blocks, std::vector<PjrtBuffer> buffers);

  // Drops the buffers, whose elements are lost or no longer needed. Afterwards the elements are undefined and may be written.
  void Forget();

  // As Memory's, of `at`, an address in the image.
  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* at);
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* at, std::byte* host);

 private:
  absl::Status FillImage();
  void EmptyImage();

  const std::shared_ptr<const PjrtClient> client_;
  const int64_t bytes_;
  std::byte* base_ = nullptr;
  std::mutex mutex_;  // of all below, and of the image's content
  bool image_has_elements_ = true;
  PjrtBlocks blocks_;                // of the buffers
  std::vector<PjrtBuffer> buffers_;  // empty: only the image has them
};

class PjrtMemory : public Memory {
 public:
  explicit PjrtMemory(std::shared_ptr<const PjrtClient> client);

  // The image that begins at this address. REQUIRES: there is one.
  std::shared_ptr<PjrtImage> Find(const std::byte* address) const;

  std::shared_ptr<void> Allocate(int64_t bytes) override;
  std::string_view name() const override { return name_; }
  bool is_host() const override { return false; }
  bool takes_staged() const override { return false; }
  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) override;
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override;

 private:
  // The images that are there, by their first address; allocations may outlive the memory.
  struct Images {
    std::mutex mutex;
    std::map<const std::byte*, std::weak_ptr<PjrtImage>> by_address;
  };
  // The image in which the address lies.
  std::shared_ptr<PjrtImage> FindAround(const std::byte* address) const;

  const std::shared_ptr<const PjrtClient> client_;
  const std::shared_ptr<Images> images_ = std::make_shared<Images>();
  const std::string name_;
};

}  // namespace meshwork
