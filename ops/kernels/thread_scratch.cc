#include "meshwork/ops/kernels/thread_scratch.h"

#include <memory>
#include <new>

namespace meshwork {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Release {
  void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }
};

struct Scratch {
  std::unique_ptr<std::byte, Release> bytes;
  int64_t size = 0;
};
thread_local Scratch scratch;

}  // namespace

std::byte* ThreadScratch(int64_t bytes) {
  if (bytes > scratch.size) {
    scratch.bytes.reset();  // before the next is there
    scratch.size = 0;       // should there be none
    scratch.bytes.reset(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlignment)));
    scratch.size = bytes;
  }
  return scratch.bytes.get();
}

}  // namespace meshwork
