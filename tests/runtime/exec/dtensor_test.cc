#include "meshwork/runtime/exec/dtensor.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "runtime/plan/programs.h"

namespace meshwork::dtensor_test {
namespace {

Layout ParseLayout(const Mesh& mesh, std::string_view text) { return Layout::Parse(mesh, text).value(); }

// Unpack(Pack(x)) == x, on meshes and layouts with even, uneven and empty shards, shared or not; and
// each buffer holds the block that the layout says.
TEST(DTensorTest, UnpackUndoesPack) {
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"x=4", {"{_,_}", "{x,_}", "{_,x}"}},
      {"x=2,y=3", {"{x,y}", "{y,x}", "{(x,y),_}", "{_,(y,x)}", "{_,y}", "{_,_}"}},
      {"x=2,y=1,z=2", {"{(x,y,z),_}", "{z,x}", "{y,(z,x)}"}}};
  for (const auto& [mesh_text, layouts] : cases) {
    const Mesh mesh = Mesh::Parse(mesh_text).value();
    for (const std::string& text : layouts) {
      for (const Shape& shape : {Shape{12, 12}, Shape{7, 5}, Shape{1, 2}, Shape{5, 1}, Shape{0, 3}}) {
        for (DType dtype : kAllDTypes) {
          for (bool share : {true, false}) {
            SCOPED_TRACE(fmt::format("{} {} {} share={}", mesh_text, text, ShapeToString(shape), share));
            DTensor tensor(CpuMemory(), {dtype, shape}, ParseLayout(mesh, text), share);
            if (!share) {
              EXPECT_EQ(tensor.instances().count(), mesh.num_devices());
            }
            const Tensor host = Ramp(tensor.type());
            ASSERT_EQ(MessageOf(Pack(host, tensor)), "");
            ASSERT_TRUE(BitwiseEqual(Unpack(tensor, /*check_replicas=*/true).value(), host));
          }
        }
      }
    }
  }
}

// Each device has its boxes, and their elements are those of the whole tensor, also of strided layouts.
TEST(DTensorTest, ShardsAreWhatTheDevicesHold) {
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"x=3", {"{_,_}", "{x,_}", "{_,x}"}},
      {"x=2,y=2", {"{x,y}", "{(x,y),_}", "{_,y}", "{2*4@y,x}", "{8@x*1,_}"}}};
  for (const auto& [mesh_text, layouts] : cases) {
    for (const std::string& text : layouts) {
      for (const Shape& shape : {Shape{8, 4}, Shape{16, 5}}) {
        const absl::StatusOr<Layout> layout = Layout::Parse(Mesh::Parse(mesh_text).value(), text);
        if (!layout.ok() || !layout->Fits(shape).ok()) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", mesh_text, text, ShapeToString(shape)));
        DTensor tensor(CpuMemory(), {F32, shape}, *layout);
        const Tensor host = Ramp(tensor.type());
        ASSERT_TRUE(Pack(host, tensor).ok());
        const std::vector<Shard> shards = ShardsOf(tensor).value();
        std::vector<int64_t> held(static_cast<size_t>(layout->mesh().num_devices()));
        std::vector<int> times(static_cast<size_t>(host.num_elements()));
        int64_t last = 0;
        for (const Shard& shard : shards) {
          EXPECT_LE(last, shard.device);
          last = shard.device;
          held[static_cast<size_t>(shard.device)] += shard.tensor.num_elements();
          ASSERT_EQ(shard.tensor.type(), (Type{F32, SizesOf(shard.box)}));
          int64_t at = 0;
          for (int64_t i = shard.box[0].start; i < shard.box[0].start + shard.box[0].size; ++i) {
            for (int64_t j = shard.box[1].start; j < shard.box[1].start + shard.box[1].size; ++j) {
              EXPECT_EQ(shard.tensor.values<float>()[at++], host.values<float>()[i * shape[1] + j]);
              ++times[static_cast<size_t>(i * shape[1] + j)];
            }
          }
        }
        // Every element lies on as many devices as the axes that do not cut the tensor have.
        const int64_t copies =
            layout->mesh().num_devices() / InstanceMap(layout->mesh(), layout->ShardedAxes()).count();
        EXPECT_THAT(times, testing::Each(copies));
        for (int64_t device = 0; device < layout->mesh().num_devices(); ++device)
          EXPECT_EQ(held[static_cast<size_t>(device)], NumElements(layout->BlockOf(shape, device)));
      }
    }
  }
}

TEST(DTensorTest, BuffersHoldTheirBlocks) {
  const Mesh mesh = Mesh::Parse("x=2,y=2").value();
  DTensor tensor(CpuMemory(), {I32, {3, 2}}, ParseLayout(mesh, "{y,_}"));
  ASSERT_TRUE(Pack(Tensor::From<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6}), tensor).ok());
  ASSERT_EQ(tensor.instances().count(), 2);  // the devices that differ on x share a buffer
  EXPECT_EQ(tensor.local_type().ToString(), "i32[2,2]");
  EXPECT_EQ(tensor.instances().Of(3), 1);
  EXPECT_EQ(tensor.instances().Representative(1), 1);
  const auto* second = reinterpret_cast<const int32_t*>(tensor.instance(1));
  EXPECT_EQ(second[0], 5);
  EXPECT_EQ(second[1], 6);
  EXPECT_EQ(BlockToString(tensor.block(1)), "[2:3,0:2]");
  EXPECT_EQ(tensor.bytes(), 32);
}

// The instances are contiguous, whatever their size: together they are one array.
TEST(DTensorTest, InstancesLieOneBehindTheOther) {
  const Mesh mesh = Mesh::Parse("x=4").value();
  for (DType dtype : kAllDTypes) {
    for (int64_t n : {0, 1, 4, 17, 64, 100}) {
      for (bool share : {true, false}) {
        const Type type{dtype, {n}};
        const Layout layout = ParseLayout(mesh, "{x}");
        const DTensor tensor(CpuMemory(), type, layout, share);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.instance(0)) % 64, 0u);
        for (int64_t i = 0; i < tensor.instances().count(); ++i)
          EXPECT_EQ(tensor.instance(i) - tensor.instance(0), i * DTypeSize(dtype) * ((n + 3) / 4));
        EXPECT_EQ(tensor.bytes(), 4 * DTypeSize(dtype) * ((n + 3) / 4));
        EXPECT_EQ(tensor.bytes(), BytesOfDTensor(Domain(layout.mesh()), type, layout, share));
      }
    }
  }
}

TEST(DTensorTest, StartsAsZerosAndCopiesShare) {
  const Mesh mesh = Mesh::Parse("x=2").value();
  DTensor tensor(CpuMemory(), {F32, {3}}, ParseLayout(mesh, "{x}"));
  DTensor copy = tensor;
  EXPECT_EQ(Unpack(tensor).value().values<float>()[2], 0);
  ASSERT_TRUE(Pack(Tensor::From<float>({3}, {1, 2, 3}), copy).ok());
  EXPECT_EQ(Unpack(tensor).value().values<float>()[2], 3);
}

TEST(DTensorTest, ReplicasThatDisagreeAreFound) {
  const Mesh mesh = Mesh::Parse("x=2,y=2").value();
  DTensor tensor(CpuMemory(), {F32, {3}}, ParseLayout(mesh, "{x}"), /*share=*/false);
  ASSERT_TRUE(Pack(Tensor::From<float>({3}, {1, 2, 3}), tensor).ok());
  const auto of_device = [&](int64_t d) {
    return reinterpret_cast<float*>(tensor.instance(tensor.instances().Of(d)));
  };
  of_device(2)[1] = 7;  // padding may differ
  EXPECT_TRUE(Unpack(tensor, /*check_replicas=*/true).ok());
  of_device(1)[1] = 2.5;
  EXPECT_TRUE(Unpack(tensor, /*check_replicas=*/false).ok());
  EXPECT_EQ(MessageOf(Unpack(tensor, /*check_replicas=*/true).status()),
            "Unpack: the tensor is f32[3] {x} on [x=2, y=2], but its replicas differ: element [1] is 2 on "
            "device 0 (x=0, y=0) and 2.5 on device 1 (x=0, y=1); devices that a layout gives the same block "
            "must hold the same bits, so the program misses a collective or declares a wrong layout.");
}

// The bytes of element `i` of a buffer.
std::vector<uint8_t> BytesAt(const DTensor& tensor, int64_t instance, int64_t i) {
  const int64_t size = DTypeSize(tensor.type().dtype);
  const auto* begin = reinterpret_cast<const uint8_t*>(tensor.instance(instance)) + i * size;
  return {begin, begin + size};
}

// True if each element of each buffer is in the block or is padding, computed by indices instead of runs.
TEST(DTensorTest, PackFillsPaddingAndNothingElse) {
  const Mesh mesh = Mesh::Parse("x=2,y=3").value();
  for (const char* text : {"{x,y}", "{y,x}", "{(x,y),_}", "{_,(y,x)}", "{_,_}"}) {
    for (const Shape& shape : {Shape{7, 5}, Shape{1, 2}, Shape{5, 1}, Shape{12, 6}, Shape{0, 3}}) {
      for (DType dtype : kAllDTypes) {
        for (bool share : {true, false}) {
          SCOPED_TRACE(fmt::format("{} {} {}", text, Type{dtype, shape}.ToString(), share));
          DTensor tensor(CpuMemory(), {dtype, shape}, ParseLayout(mesh, text), share);
          const Tensor host = Ramp(tensor.type());
          ASSERT_TRUE(Pack(host, tensor, /*poison_padding=*/true).ok());
          ASSERT_TRUE(BitwiseEqual(Unpack(tensor, /*check_replicas=*/true).value(), host));
          const Shape local = tensor.local_type().shape;
          for (int64_t i = 0; i < tensor.instances().count(); ++i) {
            const Block block = tensor.block(i);
            for (int64_t e = 0; e < NumElements(local); ++e) {
              if (e / local[1] < block[0].size && e % local[1] < block[1].size) continue;
              const std::vector<uint8_t> bytes = BytesAt(tensor, i, e);
              ASSERT_EQ(bytes, std::vector<uint8_t>(bytes.size(), 0xFF)) << "instance " << i << " at " << e;
            }
          }
        }
      }
    }
  }
}

// Ten elements as [5,2], with the five cut into 3 and 2: device 1 holds 6 … 9, and two elements of padding.
TEST(DTensorTest, PackFillsThePaddingOfStridedDims) {
  DTensor tensor(CpuMemory(), {I32, {10}}, ParseLayout(Mesh::Parse("x=2").value(), "{5@x*2}"));
  ASSERT_TRUE(Pack(Ramp({I32, {10}}), tensor, /*poison_padding=*/true).ok());
  const auto* second = reinterpret_cast<const int32_t*>(tensor.instance(1));
  EXPECT_THAT(std::vector<int32_t>(second, second + 6), testing::ElementsAre(7, 8, 9, 10, -1, -1));
}

TEST(DTensorTest, PackLeavesPaddingAloneUnlessAskedTo) {
  DTensor tensor(CpuMemory(), {F32, {3}}, ParseLayout(Mesh::Parse("x=2").value(), "{x}"));
  ASSERT_TRUE(Pack(Tensor::From<float>({3}, {1, 2, 3}), tensor, /*poison_padding=*/false).ok());
  EXPECT_EQ(BytesAt(tensor, 1, 1), std::vector<uint8_t>(4, 0));
}

}  // namespace
}  // namespace meshwork::dtensor_test
