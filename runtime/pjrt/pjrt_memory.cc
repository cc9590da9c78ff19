#include "meshwork/runtime/pjrt/pjrt_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {

// ---- PjrtImage.

PjrtImage::PjrtImage(std::shared_ptr<const PjrtClient> client, int64_t bytes)
    : client_(std::move(client)), bytes_(std::max<int64_t>(bytes, 1)) {
  void* const pages = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(pages);
}

PjrtImage::~PjrtImage() { munmap(base_, static_cast<size_t>(bytes_)); }

void PjrtImage::EmptyImage() {
  madvise(base_, static_cast<size_t>(bytes_), MADV_DONTNEED);
  image_has_elements_ = false;
}

absl::StatusOr<std::vector<pjrt::Buffer*>> PjrtImage::OnDevices(const PjrtBlocks& blocks, bool keep_image) {
  const std::lock_guard lock(mutex_);
  if (buffers_.empty()) {
    std::vector<PjrtBuffer> buffers;
    std::vector<PjrtEvent> copies(static_cast<size_t>(blocks.num_devices));
    for (int64_t device = 0; device < blocks.num_devices; ++device) {
      const std::byte* const block = base_ + blocks.instances.Of(device) * blocks.block.bytes();
      MESHWORK_ASSIGN_OR_RETURN(PjrtBuffer buffer, PjrtBuffer::Upload(client_, device, blocks.block, block,
                                                                      &copies[static_cast<size_t>(device)]));
      buffers.push_back(std::move(buffer));
    }
    for (PjrtEvent& copy : copies) MESHWORK_RETURN_IF_ERROR(copy.Await("copying a tensor to the devices"));
    blocks_ = blocks;
    buffers_ = std::move(buffers);
    if (!keep_image) EmptyImage();
  }
  std::vector<pjrt::Buffer*> all;
  for (const PjrtBuffer& buffer : buffers_) all.push_back(buffer.get());
  return all;
}

void PjrtImage::Replace(const PjrtBlocks& blocks, std::vector<PjrtBuffer> buffers) {
  const std::lock_guard lock(mutex_);
  blocks_ = blocks;
  buffers_ = std::move(buffers);
  if (image_has_elements_) EmptyImage();
}

void PjrtImage::Forget() {
  const std::lock_guard lock(mutex_);
  buffers_.clear();
  image_has_elements_ = true;
}

absl::Status PjrtImage::FillImage() {
  if (image_has_elements_) return absl::OkStatus();
  std::vector<PjrtEvent> copies(static_cast<size_t>(blocks_.instances.count()));
  absl::Status status;
  for (int64_t i = 0; i < blocks_.instances.count() && status.ok(); ++i) {
    const auto device = static_cast<size_t>(blocks_.instances.Representative(i));
    status = buffers_[device].Download(blocks_.block, base_ + i * blocks_.block.bytes(),
                                       &copies[static_cast<size_t>(i)]);
  }
  for (PjrtEvent& copy : copies) status.Update(copy.Await("copying a tensor to the host"));
  MESHWORK_RETURN_IF_ERROR(status);
  image_has_elements_ = true;
  return absl::OkStatus();
}

absl::Status PjrtImage::Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* at) {
  const std::lock_guard lock(mutex_);
  MESHWORK_RETURN_IF_ERROR(FillImage());
  buffers_.clear();
  box.Copy(host, at, size, 0, box.elements());
  return absl::OkStatus();
}

absl::Status PjrtImage::Download(const BoxCopy& box, int64_t size, const std::byte* at, std::byte* host) {
  const std::lock_guard lock(mutex_);
  MESHWORK_RETURN_IF_ERROR(FillImage());
  box.Copy(at, host, size, 0, box.elements());
  return absl::OkStatus();
}

// ---- PjrtMemory.

PjrtMemory::PjrtMemory(std::shared_ptr<const PjrtClient> client)
    : client_(std::move(client)), name_(fmt::format("the memory of {}", client_->where())) {}

std::shared_ptr<PjrtImage> PjrtMemory::FindAround(const std::byte* address) const {
  const std::lock_guard lock(images_->mutex);
  auto image = images_->by_address.upper_bound(address);
  MESHWORK_CHECK(image != images_->by_address.begin());
  std::shared_ptr<PjrtImage> found = std::prev(image)->second.lock();
  MESHWORK_CHECK(found != nullptr);
  return found;
}

std::shared_ptr<PjrtImage> PjrtMemory::Find(const std::byte* address) const {
  std::shared_ptr<PjrtImage> image = FindAround(address);
  MESHWORK_CHECK(image->base() == address);
  return image;
}

std::shared_ptr<void> PjrtMemory::Allocate(int64_t bytes) {
  auto image = std::make_unique<PjrtImage>(client_, bytes);
  std::byte* const base = image->base();
  std::shared_ptr<PjrtImage> owner(image.release(), [images = images_](PjrtImage* gone) {
    {
      const std::lock_guard lock(images->mutex);
      images->by_address.erase(gone->base());
    }
    delete gone;
  });
  const std::lock_guard lock(images_->mutex);
  images_->by_address[base] = owner;
  return {std::move(owner), base};
}

absl::Status PjrtMemory::Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) {
  if (box.elements() == 0) return absl::OkStatus();
  return FindAround(to)->Upload(box, size, host, to);
}

absl::Status PjrtMemory::Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) {
  if (box.elements() == 0) return absl::OkStatus();
  return FindAround(from)->Download(box, size, from, host);
}

}  // namespace meshwork
