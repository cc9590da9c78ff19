#include "meshwork/ops/kernels/blas/convolution.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/ops/kernels/blas/direct_convolution.h"
#include "meshwork/ops/kernels/blas/dnnl_convolution.h"
#include "meshwork/ops/kernels/blas/factories.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/long_sum.h"
#include "meshwork/ops/kernels/thread_scratch.h"

namespace meshwork {

namespace {

using Kind = DnnlConvolution::Kind;

int64_t FloatBytes(int64_t count) {
  return ScratchPieces::Padded(count * static_cast<int64_t>(sizeof(float)));
}

// f32 as it is; bf16 into a buffer of the thread's.
inline const float* AsFloats(const float* from, int64_t, float*) { return from; }
inline const float* AsFloats(const BFloat16* from, int64_t count, float* buffer) {
  RunOnThisCpu([=] {
    for (int64_t i = 0; i < count; ++i) buffer[i] = static_cast<float>(from[i]);
  });
  return buffer;
}
// The memory to write floats to; and the conversion of the floats to the result's dtype.
inline float* Target(float* to, float*) { return to; }
inline float* Target(BFloat16*, float* buffer) { return buffer; }
inline void Store(const float*, int64_t, float*) {}
inline void Store(const float* from, int64_t count, BFloat16* to) {
  RunOnThisCpu([=] {
    for (int64_t i = 0; i < count; ++i) to[i] = BFloat16(from[i]);
  });
}

// ---- The convolution and its gradient by x, which compute images.

// A filter is converted to oneDNN's layout once per call, and a call may be for one chunk of images. A chunk is so
// large that the conversion costs little in comparison.
constexpr int64_t kChunkPositions = 1024;

// A divisor of the batch. If none is near the wanted size, one that leaves work for several threads.
int64_t ImagesOfChunk(const ConvShape& shape) {
  const int64_t positions = std::max<int64_t>(shape.out_positions(), 1);
  const int64_t wanted = std::max<int64_t>(kChunkPositions / positions, 1);
  int64_t below = 1;
  for (int64_t images = 1; images < shape.batch; ++images) {
    if (shape.batch % images != 0) continue;
    if (images >= wanted) return images;
    below = images;
  }
  return shape.batch > 2 * wanted ? below : shape.batch;
}

// Chunks of images, of f32.
class ChunkConv {
 public:
  ChunkConv(Kind kind, const ConvShape& shape) : kind_(kind), shape_(shape), own_(shape) {
    shape_.batch = ImagesOfChunk(shape);
    dnnl_ = DnnlConvolution::Make(kind, shape_, shape.out_channels);
  }

  int64_t images() const { return shape_.batch; }
  int64_t scratch_bytes() const {
    return dnnl_ == nullptr
               ? 0
               : ScratchPieces::Padded(dnnl_->packed_bytes()) + ScratchPieces::Padded(dnnl_->scratch_bytes());
  }

  // Computes chunk after chunk with one filter.
  class Call {
   public:
    Call(const ChunkConv& conv, const float* w, ScratchPieces& pieces) : conv_(conv), w_(w) {
      if (conv.dnnl_ == nullptr) return;
      packed_ = pieces.Take<std::byte>(conv.dnnl_->packed_bytes());
      scratch_ = pieces.Take<std::byte>(conv.dnnl_->scratch_bytes());
      conv.dnnl_->Pack(w, packed_, scratch_);
    }
    void Run(const float* from, float* to) const {
      if (conv_.dnnl_ != nullptr) return conv_.dnnl_->Run(from, packed_, to, scratch_);
      RunOnThisCpu([&] {
        if (conv_.kind_ == Kind::kForward) conv_.own_.Forward(conv_.shape_.batch, from, w_, to);
        else conv_.own_.InputGrad(conv_.shape_.batch, from, w_, to);
      });
    }

   private:
    const ChunkConv& conv_;
    const float* w_;
    std::byte* packed_ = nullptr;
    std::byte* scratch_ = nullptr;
  };

 private:
  const Kind kind_;
  ConvShape shape_;
  DirectConv own_;
  std::shared_ptr<const DnnlConvolution> dnnl_;
};

Kernel ImageKernel(const ConvShape& shape, int64_t chunk) {
  Kernel kernel{.run = {}, .units = shape.batch, .by_rows = true, .parts = {shape.batch, 1}};
  for (int64_t n = 0; n < shape.batch; n += chunk) kernel.bounds.push_back(n);
  kernel.bounds.push_back(shape.batch);
  return kernel;
}

// Copies between a block and its frame: an element of `block` is an element of `frame`, shifted.
class FrameCopy {
 public:
  FrameCopy(const ConvShape& frame, const ConvShape& block) : frame_(frame), block_(block) {}

  template <typename From, typename To>
  void Run(const std::array<int64_t, 3>& shifts, const From* from, To* to) const {
    const int64_t row = block_.dims[2].in * block_.x_row();
    for (int64_t a = 0; a < block_.dims[0].in; ++a) {
      for (int64_t b = 0; b < block_.dims[1].in; ++b, to += row) {
        const int64_t at =
            ((a + shifts[0]) * frame_.dims[1].in + b + shifts[1]) * frame_.dims[2].in + shifts[2];
        const From* source = from + at * frame_.x_row();
        for (int64_t i = 0; i < row; ++i) to[i] = static_cast<To>(source[i]);
      }
    }
  }

 private:
  const DirectConv frame_, block_;
};

// `shape` as the library computes it. A block of x may begin anywhere between two windows of the results; it is part of
// a frame that begins where a window begins.
ConvShape FrameOf(const ConvShape& shape) {
  ConvShape frame = shape;
  for (ConvShape::Dim& d : frame.dims) {
    Sliding& s = d.sliding;
    if (!s.windowed) continue;
    s.windowed = false;
    s.low = s.extent() - s.stride;
    d.in += s.stride - 1;
  }
  return frame;
}

// The distances from the beginning of its frame to the beginning of a block of x.
std::array<int64_t, 3> ShiftsOf(const ConvShape& shape, const Block& block) {
  std::array<int64_t, 3> shifts = {};
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    const Sliding& s = shape.dims[d].sliding;
    if (s.windowed)
      shifts[kMaxSpatialDims - shape.dims.size() + d] =
          s.LowAt(block[block.size() - shape.dims.size() - 1 + d].start) - (s.extent() - s.stride);
  }
  return shifts;
}

// `shape` for a block of x that begins at `block`.
ConvShape AtBlock(ConvShape shape, const Block& block) {
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    Sliding& s = shape.dims[d].sliding;
    s.low = s.LowAt(block[block.size() - shape.dims.size() - 1 + d].start);
    s.windowed = false;
  }
  return shape;
}

template <typename T>
Kernel ForwardOf(const ConvShape& shape) {
  auto conv = std::make_shared<const ChunkConv>(Kind::kForward, shape);
  const int64_t chunk = std::max<int64_t>(conv->images(), 1), x_chunk = chunk * shape.x_image(),
                y_chunk = chunk * shape.y_image();
  constexpr bool kConverts = !std::is_same_v<T, float>;
  const int64_t bytes =
      conv->scratch_bytes() +
      (kConverts ? FloatBytes(x_chunk) + FloatBytes(y_chunk) + FloatBytes(shape.w_size()) : 0);
  Kernel kernel = ImageKernel(shape, chunk);
  kernel.run = [=, w_size = shape.w_size()](const KernelArgs& args) {
    ScratchPieces pieces(bytes);
    float* buffers[3] = {};
    if (kConverts)
      for (int i = 0; i < 3; ++i)
        buffers[i] = pieces.Take<float>(i == 0 ? x_chunk : i == 1 ? y_chunk : w_size);
    const ChunkConv::Call call(*conv, AsFloats(args.In<T>(1), w_size, buffers[2]), pieces);
    for (int64_t c = args.begin / chunk; c < args.end / chunk; ++c) {
      T* y = args.Out<T>(0) + c * y_chunk;
      float* to = Target(y, buffers[1]);
      call.Run(AsFloats(args.In<T>(0) + c * x_chunk, x_chunk, buffers[0]), to);
      Store(to, y_chunk, y);
    }
  };
  return kernel;
}

template <typename T>
Kernel InputGradOf(const ConvShape& shape) {
  const ConvShape frame = FrameOf(shape);
  auto conv = std::make_shared<const ChunkConv>(Kind::kInputGrad, frame);
  const int64_t chunk = std::max<int64_t>(conv->images(), 1), y_chunk = chunk * shape.y_image(),
                w_size = shape.w_size();
  const bool is_frame = frame.in_positions() != shape.in_positions();
  constexpr bool kConverts = !std::is_same_v<T, float>;
  const bool has_buffer = is_frame || kConverts;  // of x
  const int64_t bytes = conv->scratch_bytes() + (has_buffer ? FloatBytes(chunk * frame.x_image()) : 0) +
                        (kConverts ? FloatBytes(y_chunk) + FloatBytes(w_size) : 0);
  Kernel kernel = ImageKernel(shape, chunk);
  kernel.run = [=, copy = FrameCopy(frame, shape)](const KernelArgs& args) {
    ScratchPieces pieces(bytes);
    float* x_buffer = has_buffer ? pieces.Take<float>(chunk * frame.x_image()) : nullptr;
    float* y_buffer = kConverts ? pieces.Take<float>(y_chunk) : nullptr;
    float* w_buffer = kConverts ? pieces.Take<float>(w_size) : nullptr;
    const ChunkConv::Call call(*conv, AsFloats(args.In<T>(1), w_size, w_buffer), pieces);
    for (int64_t c = args.begin / chunk; c < args.end / chunk; ++c) {
      T* x = args.Out<T>(0) + c * chunk * shape.x_image();
      float* to = is_frame ? x_buffer : Target(x, x_buffer);
      call.Run(AsFloats(args.In<T>(0) + c * y_chunk, y_chunk, y_buffer), to);
      if (is_frame) {
        const std::array<int64_t, 3> shifts = ShiftsOf(shape, args.out_blocks[0]);
        for (int64_t n = 0; n < chunk; ++n)
          copy.Run(shifts, to + n * frame.x_image(), x + n * shape.x_image());
      } else {
        Store(to, chunk * shape.x_image(), x);
      }
    }
  };
  return kernel;
}

// ---- The gradient by the filter, which computes slices of the output channels over all images.

constexpr int64_t kSlices = 8, kChannels = 16;  // at most so many slices, of a multiple of so many channels
constexpr double kWorthCutting = 1 << 20;       // floating-point operations of a slice
constexpr int64_t kChunkElements = 128 * 1024;  // of the results, that are copied at once

// Channels [first, first + count) of the results, and of x if there are groups.
struct ChannelSlice {
  int64_t first, count;        // of the results
  int64_t first_in, count_in;  // of x
};

std::vector<ChannelSlice> SlicesOf(const ConvShape& s) {
  const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  const double flops = 2.0 * static_cast<double>(s.batch * s.out_positions()) *
                       static_cast<double>(s.taps() * in * s.out_channels);
  const auto wanted = std::clamp<int64_t>(static_cast<int64_t>(flops / kWorthCutting), 1, kSlices);
  // Pieces that are not cut: groups, or the channels of a vector.
  const bool by_groups = s.groups > 1;
  const int64_t unit = by_groups ? out : 1;
  const int64_t units = s.out_channels / unit;
  const int64_t multiple = std::max<int64_t>(kChannels / unit, 1);
  const int64_t each = std::max<int64_t>((units / wanted + multiple - 1) / multiple * multiple, multiple);
  std::vector<ChannelSlice> slices;
  for (int64_t at = 0; at < units; at += each) {
    const int64_t count = std::min(each, units - at);
    slices.push_back(
        {at * unit, count * unit, by_groups ? at * in : 0, by_groups ? count * in : s.in_channels});
  }
  return slices;
}

// Channels [first, first + count) of `positions` rows of `row`, as floats.
template <typename T>
const float* ChannelsOf(const T* from, int64_t positions, int64_t row, int64_t first, int64_t count,
                        float* buffer) {
  if (count == row) return AsFloats(from, positions * row, buffer);
  RunOnThisCpu([=] {
    for (int64_t p = 0; p < positions; ++p) {
      const T* source = from + p * row + first;
      float* to = buffer + p * count;
      for (int64_t c = 0; c < count; ++c) to[c] = static_cast<float>(source[c]);
    }
  });
  return buffer;
}

// The number of positions of results that are summed in one call of the library, which adds them up one by one. Calls
// with fewer positions are not slower.
constexpr int64_t kPositionsOfPart = 2 * kTermsOfPart;
constexpr int64_t kPartsOfSum = 32;  // that are added in float

// A part of a sum over the positions of images: a block of an image's results, or a number of whole images.
struct PositionsPart {
  ConvShape shape;
  std::array<int64_t, 3> x_begin = {};  // where it begins in its image; dims end at the last
  int64_t y_first = 0;
  std::shared_ptr<const DnnlConvolution> dnnl = nullptr;
};

int64_t ResultsBehind(const ConvShape& shape, size_t d) {
  int64_t results = 1;
  for (size_t e = d + 1; e < shape.dims.size(); ++e) results *= shape.dims[e].out;
  return results;
}

// Results [first, first + count) along dim d, and the part of x that they see.
PositionsPart BlockOf(PositionsPart part, size_t d, int64_t first, int64_t count) {
  part.y_first += first * ResultsBehind(part.shape, d);
  ConvShape::Dim& dim = part.shape.dims[d];
  const Sliding& s = dim.sliding;
  const int64_t from = first * s.stride - s.low, to = from + (count - 1) * s.stride + s.extent();
  const int64_t begin = std::max<int64_t>(from, 0), end = std::min(to, dim.in);
  part.x_begin[kMaxSpatialDims - part.shape.dims.size() + d] = begin;
  dim.in = std::max<int64_t>(end - begin, 0);
  dim.out = count;
  dim.sliding.low = begin - from;
  return part;
}

// Cuts `part`, one image that is whole along dim d and those behind it, into blocks that are small enough.
void CutImage(const PositionsPart& part, size_t d, std::vector<PositionsPart>& parts) {
  const int64_t out = part.shape.dims[d].out, behind = ResultsBehind(part.shape, d);
  const int64_t count = std::max<int64_t>(kPositionsOfPart / behind, 1);
  for (int64_t first = 0; first < out; first += count) {
    PositionsPart block = BlockOf(part, d, first, std::min(count, out - first));
    if (block.shape.dims[d].in == 0) continue;  // it sees padding alone
    if (behind > kPositionsOfPart) CutImage(block, d + 1, parts);
    else parts.push_back(std::move(block));
  }
}

std::vector<PositionsPart> PartsOfImages(const ConvShape& shape) {
  if (shape.out_positions() <= kPositionsOfPart) return {{.shape = shape}};
  std::vector<PositionsPart> parts;
  CutImage({.shape = shape}, 0, parts);
  return parts;
}

bool SameSizes(const ConvShape& a, const ConvShape& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const ConvShape::Dim &m = a.dims[d], &n = b.dims[d];
    if (m.in != n.in || m.out != n.out || m.sliding.low != n.sliding.low) return false;
  }
  return true;
}

// Whether a block of x is contiguous: behind a dim along which it has several positions, it has all positions of the
// other dims.
bool IsInOnePiece(const ConvShape& block, const ConvShape& image) {
  bool has_several = false;
  for (size_t d = 0; d < block.dims.size(); ++d) {
    if (has_several && block.dims[d].in != image.dims[d].in) return false;
    has_several |= block.dims[d].in > 1;
  }
  return true;
}

// One slice: its images chunk by chunk, the last one smaller.
class SliceGrad {
 public:
  // `copies`: operands are copied on their way to the library, so chunks are small.
  SliceGrad(const ConvShape& shape, const ChannelSlice& slice, bool copies) : shape_(shape), slice_(slice) {
    ConvShape chunk = shape;
    chunk.out_channels = slice.count;
    chunk.in_channels = slice.count_in;
    if (shape.groups > 1) chunk.groups = slice.count_in / (shape.in_channels / shape.groups);
    chunk_ = kPositionsOfPart / std::max<int64_t>(1, chunk.out_positions());
    if (copies) chunk_ = std::min(chunk_, kChunkElements / std::max<int64_t>(1, chunk.y_image()));
    chunk_ = std::clamp<int64_t>(chunk_, 1, std::max<int64_t>(shape.batch, 1));
    for (size_t which : {0, 1}) {
      chunk.batch = which == 0 ? chunk_ : shape.batch % chunk_;
      if (chunk.batch > 0) AddParts(chunk, parts_[which]);
    }
  }

  bool has_dnnl() const { return has_dnnl_; }
  const ChannelSlice& channels() const { return slice_; }
  int64_t scratch_bytes() const {
    return FloatBytes(block_size_) + FloatBytes(x_size_) + FloatBytes(y_size_) + library_bytes_;
  }

  // w: [taps · ci, out_channels], of which the slice's columns are written.
  template <typename T>
  void Run(const T* x, const T* y, float* w, ScratchPieces& pieces) const {
    Buffers buffers{pieces.Take<float>(block_size_), pieces.Take<float>(x_size_), pieces.Take<float>(y_size_),
                    pieces.Take<std::byte>(0)};
    const int64_t rows = shape_.w_size() / shape_.out_channels;
    const auto parts = (shape_.batch + chunk_ - 1) / chunk_ * std::ssize(parts_[0]);
    LongSum sum(parts > kPartsOfSum ? ThreadSums(rows * slice_.count) : nullptr, rows, slice_.count,
                kPartsOfSum);
    for (int64_t n = 0; n < shape_.batch; n += chunk_)
      for (const PositionsPart& part : parts_[n + chunk_ <= shape_.batch ? 0 : 1])
        AddPart(part, x + n * shape_.x_image(), y + n * shape_.y_image(), w + slice_.first, sum, buffers);
    sum.Finish(w + slice_.first, shape_.out_channels);
  }

 private:
  struct Buffers {
    float *block, *x, *y;
    std::byte* library;
  };

  void AddParts(const ConvShape& chunk, std::vector<PositionsPart>& parts) {
    parts = PartsOfImages(chunk);
    has_dnnl_ &= !parts.empty();
    std::vector<const PositionsPart*> different;
    for (PositionsPart& part : parts) {
      const ConvShape& s = part.shape;
      const auto like = std::find_if(different.begin(), different.end(),
                                     [&](const PositionsPart* other) { return SameSizes(other->shape, s); });
      if (like != different.end()) {
        part.dnnl = (*like)->dnnl;
        continue;
      }
      different.push_back(&part);
      x_size_ = std::max(x_size_, s.batch * s.x_image());
      y_size_ = std::max(y_size_, s.batch * s.y_image());
      if (!IsInOnePiece(s, shape_))
        block_size_ = std::max(block_size_, s.in_positions() * shape_.in_channels);
      part.dnnl = DnnlConvolution::Make(Kind::kFilterGrad, s, shape_.out_channels);
      has_dnnl_ &= part.dnnl != nullptr;
      if (part.dnnl != nullptr)
        library_bytes_ = std::max(library_bytes_, ScratchPieces::Padded(part.dnnl->packed_bytes()) +
                                                      ScratchPieces::Padded(part.dnnl->scratch_bytes()));
    }
  }

  template <typename T>
  void AddPart(const PositionsPart& part, const T* x, const T* y, float* w, LongSum& sum,
               const Buffers& buffers) const {
    const ConvShape& s = part.shape;
    const auto channels_of_x = [&](const auto* from) {
      return ChannelsOf(from, s.batch * s.in_positions(), shape_.in_channels, slice_.first_in,
                        slice_.count_in, buffers.x);
    };
    const float* from_x = nullptr;
    if (IsInOnePiece(s, shape_)) {
      from_x = channels_of_x(x + FirstOf(part) * shape_.in_channels);
    } else {
      ConvShape block = s;
      block.in_channels = shape_.in_channels;
      block.groups = shape_.groups;
      RunOnThisCpu([&] { FrameCopy(shape_, block).Run(part.x_begin, x, buffers.block); });
      from_x = channels_of_x(static_cast<const float*>(buffers.block));
    }
    const float* from_y = ChannelsOf(y + part.y_first * shape_.out_channels, s.batch * s.out_positions(),
                                     shape_.out_channels, slice_.first, slice_.count, buffers.y);
    std::byte* scratch = buffers.library + ScratchPieces::Padded(part.dnnl->packed_bytes());
    part.dnnl->Run(from_x, from_y, buffers.library, scratch);
    part.dnnl->Unpack(buffers.library, /*add=*/!sum.Begins(1, w, shape_.out_channels), w, scratch);
  }

  // The position in x at which a part begins.
  int64_t FirstOf(const PositionsPart& part) const {
    int64_t first = 0;
    for (size_t d = 0; d < shape_.dims.size(); ++d)
      first = first * shape_.dims[d].in + part.x_begin[kMaxSpatialDims - shape_.dims.size() + d];
    return first;
  }

  const ConvShape shape_;
  const ChannelSlice slice_;
  int64_t chunk_ = 1;
  bool has_dnnl_ = true;
  std::array<std::vector<PositionsPart>, 2> parts_;                       // of a chunk, of the last chunk
  int64_t block_size_ = 0, x_size_ = 0, y_size_ = 0, library_bytes_ = 0;  // the most that a part needs
};

template <typename T>
Kernel FilterGradBySlices(const ConvShape& shape, std::vector<SliceGrad> slices) {
  constexpr bool kConverts = !std::is_same_v<T, float>;
  const int64_t w_size = shape.w_size(), columns = shape.out_channels;
  int64_t bytes = 0;
  for (const SliceGrad& slice : slices) bytes = std::max(bytes, slice.scratch_bytes());
  if (kConverts) bytes += FloatBytes(w_size);
  Kernel kernel{.run = {}, .units = std::ssize(slices)};
  kernel.run = [=, slices = std::move(slices)](const KernelArgs& args) {
    for (int64_t i = args.begin; i < args.end; ++i) {
      ScratchPieces pieces(bytes);
      T* w = args.Out<T>(0);
      float* to = Target(w, kConverts ? pieces.Take<float>(w_size) : nullptr);
      slices[i].Run(args.In<T>(0), args.In<T>(1), to, pieces);
      const ChannelSlice& own = slices[i].channels();
      for (int64_t at = own.first; kConverts && at < w_size; at += columns) Store(to + at, own.count, w + at);
    }
  };
  return kernel;
}

// Rows of the filter, by loops.
template <typename T>
Kernel FilterGradByLoops(const ConvShape& shape) {
  const DirectConv own(shape);
  Kernel kernel{.run = {}, .units = shape.taps() * (shape.in_channels / shape.groups), .by_rows = true};
  if constexpr (std::is_same_v<T, Compute<T>>) {
    kernel.run = OnThisCpu([own, images = shape.batch](const KernelArgs& args) {
      own.FilterGrad(images, args.begin, args.end, args.In<T>(0), args.In<T>(1), args.Out<T>(0));
    });
  } else {
    const int64_t x_size = shape.batch * shape.x_image(), y_size = shape.batch * shape.y_image();
    kernel.run = [=, images = shape.batch, w_size = shape.w_size()](const KernelArgs& args) {
      ScratchPieces pieces(FloatBytes(x_size) + FloatBytes(y_size) + FloatBytes(w_size));
      const float* x = AsFloats(args.In<T>(0), x_size, pieces.Take<float>(x_size));
      const float* y = AsFloats(args.In<T>(1), y_size, pieces.Take<float>(y_size));
      float* w = pieces.Take<float>(w_size);
      own.FilterGrad(images, args.begin, args.end, x, y, w);
      const int64_t first = args.begin * own.y_row();
      Store(w + first, (args.end - args.begin) * own.y_row(), args.Out<T>(0) + first);
    };
  }
  return kernel;
}

template <typename T>
Kernel FilterGradOf(const ConvShape& shape) {
  const std::vector<ChannelSlice> channels = SlicesOf(shape);
  std::vector<SliceGrad> slices;
  const bool copies = channels.size() > 1 || !std::is_same_v<T, float>;
  bool has_dnnl = true;
  for (const ChannelSlice& slice : channels) {
    slices.emplace_back(shape, slice, copies);
    has_dnnl &= slices.back().has_dnnl();
  }
  // Without images the library is not called, and nothing would be written.
  if (has_dnnl && !slices.empty() && shape.batch > 0) return FilterGradBySlices<T>(shape, std::move(slices));
  return FilterGradByLoops<T>(shape);
}

// ---- f64.

Kernel DirectForward(const ConvShape& shape) {
  Kernel kernel{.run = {}, .units = shape.batch, .by_rows = true, .parts = {shape.batch, 1}};
  kernel.run = OnThisCpu([own = DirectConv(shape), shape](const KernelArgs& args) {
    own.Forward(args.end - args.begin, args.In<double>(0) + args.begin * shape.x_image(), args.In<double>(1),
                args.Out<double>(0) + args.begin * shape.y_image());
  });
  return kernel;
}

Kernel DirectInputGrad(const ConvShape& shape) {
  Kernel kernel{.run = {}, .units = shape.batch, .by_rows = true, .parts = {shape.batch, 1}};
  kernel.run = OnThisCpu([shape](const KernelArgs& args) {
    const DirectConv own(AtBlock(shape, args.out_blocks[0]));
    own.InputGrad(args.end - args.begin, args.In<double>(0) + args.begin * shape.y_image(),
                  args.In<double>(1), args.Out<double>(0) + args.begin * shape.x_image());
  });
  return kernel;
}

}  // namespace

Kernel ConvKernel(DType dtype, const ConvShape& shape) {
  if (dtype == F64) return DirectForward(shape);
  return dtype == F32 ? ForwardOf<float>(shape) : ForwardOf<BFloat16>(shape);
}
Kernel ConvInputGradKernel(DType dtype, const ConvShape& shape) {
  if (dtype == F64) return DirectInputGrad(shape);
  return dtype == F32 ? InputGradOf<float>(shape) : InputGradOf<BFloat16>(shape);
}
Kernel ConvFilterGradKernel(DType dtype, const ConvShape& shape) {
  if (dtype == F64) return FilterGradByLoops<double>(shape);
  return dtype == F32 ? FilterGradOf<float>(shape) : FilterGradOf<BFloat16>(shape);
}

Kernel ConvCpu(const KernelSpec& spec) {
  const Type &x = spec.operands[0].local, &w = spec.operands[1].local, &y = spec.results[0].local;
  return ConvKernel(x.dtype, ConvShapeOf(spec.attrs, x.shape, w.shape, y.shape));
}
Kernel ConvInputGradCpu(const KernelSpec& spec) {
  const Type &y = spec.operands[0].local, &w = spec.operands[1].local, &x = spec.results[0].local;
  return ConvInputGradKernel(x.dtype, ConvShapeOf(spec.attrs, x.shape, w.shape, y.shape));
}
Kernel ConvFilterGradCpu(const KernelSpec& spec) {
  const Type &x = spec.operands[0].local, &y = spec.operands[1].local, &w = spec.results[0].local;
  return ConvFilterGradKernel(x.dtype, ConvShapeOf(spec.attrs, x.shape, w.shape, y.shape));
}

}  // namespace meshwork
