#include "meshwork/train/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <numeric>
#include <system_error>

#include "fmt/ranges.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/train/data/dataset_parts.h"
#include "meshwork/train/data/idx.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork {

absl::StatusOr<Dataset> Dataset::Create(Columns columns) {
  MESHWORK_ASSIGN_OR_RETURN(auto parts, internal::DatasetParts::Create(std::move(columns)));
  const int64_t size = parts->size();
  return Dataset(std::move(parts), size);
}

absl::StatusOr<Dataset> Dataset::FromParts(std::vector<Part> parts) {
  MESHWORK_ASSIGN_OR_RETURN(auto made, internal::DatasetParts::Create(std::move(parts)));
  const int64_t size = made->size();
  return Dataset(std::move(made), size);
}

absl::StatusOr<Columns> Dataset::columns() const {
  if (parts_ == nullptr) return Columns();
  return parts_->Join(size_);
}

absl::StatusOr<Tensor> Dataset::column(std::string_view name) const {
  if (parts_ == nullptr) return internal::GetColumn({}, name, "Dataset");
  MESHWORK_ASSIGN_OR_RETURN(const Columns* const like, parts_->Like(0));
  MESHWORK_RETURN_IF_ERROR(internal::GetColumn(*like, name, "Dataset").status());
  const auto found =
      std::find_if(like->begin(), like->end(), [&](const auto& column) { return column.first == name; });
  return parts_->Join(static_cast<size_t>(found - like->begin()), size_);
}

uint64_t internal::ContentsOf(const Dataset& dataset) {
  return dataset.parts_ == nullptr ? 0 : dataset.parts_->Contents(dataset.size_);
}

Dataset Dataset::Take(int64_t n) const { return Dataset(parts_, std::clamp<int64_t>(n, 0, size_)); }

Pipeline Dataset::Batches(BatchesOptions options) const {
  return internal::PipelineOf(internal::BatchesSource(*this, std::move(options)));
}

std::vector<int64_t> ShuffledOrder(int64_t n, uint64_t seed, int64_t epoch) {
  n = std::max<int64_t>(n, 0);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, static_cast<uint64_t>(epoch));
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[random.Below(static_cast<uint64_t>(i) + 1)]);
  return order;
}

namespace {

constexpr int64_t kMnistSide = 28;

struct NamedIdx {
  std::string path;
  IdxData data;
};

absl::StatusOr<NamedIdx> ReadMnistFile(const std::string& dir, std::string_view name) {
  const std::string plain = (std::filesystem::path(dir) / name).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    absl::StatusOr<IdxData> data = ReadIdx(path);
    if (!data.ok()) return Annotate(data.status(), "LoadMnist: ");
    return NamedIdx{path, *std::move(data)};
  }
  return absl::NotFoundError(fmt::format(
      "LoadMnist: \"{}\" has neither {} nor {}.gz; give the directory that holds the four MNIST files.", dir,
      name, name));
}

// Most of the time goes into new pages of memory. All cores together get them faster than one.
template <typename T>
Tensor ScalePixels(const IdxData& pixels, int64_t n) {
  Tensor image(Type{DTypeOf<T>(), {n, kMnistSide * kMnistSide}});
  const std::span<const uint8_t> from = pixels.bytes.first(n * kMnistSide * kMnistSide);
  const std::span<T> to = image.mutable_values<T>();
  WorkerPool pool;
  pool.Run([&](int worker) {
    const size_t begin = from.size() * worker / pool.num_workers();
    const size_t end = from.size() * (worker + 1) / pool.num_workers();
    for (size_t i = begin; i < end; ++i) to[i] = static_cast<T>(from[i]) / 255;
  });
  return image;
}

absl::StatusOr<Dataset> ReadMnistPart(const std::string& dir, std::string_view part, DType dtype,
                                      int64_t most) {
  MESHWORK_ASSIGN_OR_RETURN(const NamedIdx images,
                            ReadMnistFile(dir, fmt::format("{}-images-idx3-ubyte", part)));
  const Shape& shape = images.data.shape;
  if (shape.size() != 3 || shape[1] != kMnistSide || shape[2] != kMnistSide) {
    return InvalidArgument("LoadMnist: {}: its shape is {}; MNIST images are [n,28,28].", images.path,
                           ShapeToString(shape));
  }
  MESHWORK_ASSIGN_OR_RETURN(const NamedIdx labels,
                            ReadMnistFile(dir, fmt::format("{}-labels-idx1-ubyte", part)));
  if (labels.data.shape.size() != 1) {
    return InvalidArgument("LoadMnist: {}: its shape is {}; MNIST labels are [n].", labels.path,
                           ShapeToString(labels.data.shape));
  }
  if (labels.data.shape[0] != shape[0]) {
    return InvalidArgument(
        "LoadMnist: {} holds {} but {} holds {}; every image has one label. Do both files come from the same "
        "data set?",
        images.path, Count(shape[0], "image"), labels.path, Count(labels.data.shape[0], "label"));
  }
  for (size_t i = 0; i < labels.data.bytes.size(); ++i) {
    if (labels.data.bytes[i] > 9) {
      return InvalidArgument("LoadMnist: {}: label {} is {}; labels are 0 to 9.", labels.path, i,
                             labels.data.bytes[i]);
    }
  }
  const int64_t n = std::min(shape[0], most);
  Tensor label(Type{I32, {n}});
  std::copy_n(labels.data.bytes.begin(), n, label.mutable_values<int32_t>().begin());
  Tensor image = dtype == F64 ? ScalePixels<double>(images.data, n) : ScalePixels<float>(images.data, n);
  return Dataset::Create({{"image", std::move(image)}, {"label", std::move(label)}});
}

}  // namespace

absl::StatusOr<MnistData> LoadMnist(const std::string& dir, DType dtype, const MnistLimits& keep) {
  if (dtype != F32 && dtype != F64) {
    return InvalidArgument("LoadMnist: images are asked for as {}; they are read as f32 or f64.",
                           DTypeName(dtype));
  }
  // Unpacking takes long, and one core per file.
  std::future<absl::StatusOr<Dataset>> test =
      std::async([&] { return ReadMnistPart(dir, "t10k", dtype, std::max<int64_t>(keep.test, 0)); });
  MnistData mnist;
  MESHWORK_ASSIGN_OR_RETURN(mnist.train,
                            ReadMnistPart(dir, "train", dtype, std::max<int64_t>(keep.train, 0)));
  MESHWORK_ASSIGN_OR_RETURN(mnist.test, test.get());
  return mnist;
}

}  // namespace meshwork
