// Types that are only stored and fed (f16, u8 and i8), in programs on several meshes, compared with plain loops.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/storage/safetensors.h"
#include "support/temp_dir.h"

namespace meshwork::storage_types_test {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kStoredMeshes = {"batch=1", "batch=4", "batch=2,model=3", "batch=3",
                                                "model=2"};

DimSpec Axis(const Graph& g, const char* name) {
  return g.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
}

Tensor Counted(DType dtype, const Shape& shape) {
  Type flat{dtype, {NumElements(shape)}};
  Tensor x(flat);
  DispatchAny(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::span<T> values = x.mutable_values<T>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<float>(i * 37 % 128));
  });
  return x.Reshaped(shape);
}

std::vector<double> Doubles(const Tensor& x) {
  const Tensor wide = x.Cast(F64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

TEST(StorageTypesTest, ImagesAreFedAsBytesAndCastInTheGraph) {
  constexpr int64_t kImages = 10, kSide = 4, kUnits = 3;
  Tensor images(Type{U8, {kImages, kSide, kSide, 1}});
  for (int64_t i = 0; i < images.num_elements(); ++i)
    images.mutable_values<uint8_t>()[static_cast<size_t>(i)] = static_cast<uint8_t>(i * 101 % 256);
  for (const std::string& mesh : kStoredMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Value fed =
        g.Input("images", U8, images.shape(), {Axis(g, "batch"), UNSHARDED, UNSHARDED, UNSHARDED});
    const Value x = Reshape(Cast(fed, F32) / 255.0, {kImages, kSide * kSide});
    const Variable w = g.Var("w", Zeros({kSide * kSide, kUnits}), {UNSHARDED, Axis(g, "model")});
    g.Output("y", MatMul(x, w));
    Session session = Session::Create(g).value();
    Tensor weights(w.type());
    for (int64_t i = 0; i < weights.num_elements(); ++i)
      weights.mutable_values<float>()[static_cast<size_t>(i)] = static_cast<float>(i % 7 - 3);
    ASSERT_TRUE(session.Set("w", weights).ok());
    const Tensor y = session.Run({{"images", images}})->Get("y").value();
    for (int64_t n = 0; n < kImages; ++n) {
      for (int64_t u = 0; u < kUnits; ++u) {
        double sum = 0;
        for (int64_t p = 0; p < kSide * kSide; ++p)
          sum += static_cast<double>((n * kSide * kSide + p) * 101 % 256) / 255 *
                 static_cast<double>((p * kUnits + u) % 7 - 3);
        EXPECT_NEAR(y.At({n, u}).value(), sum, 1e-5);
      }
    }
  }
}

// Every op that moves elements, on blocks that have to be exchanged.
TEST(StorageTypesTest, OpsThatMoveElementsTakeThem) {
  for (const DType dtype : {F16, U8, I8}) {
    for (const std::string& mesh : kStoredMeshes) {
      SCOPED_TRACE(mesh + " " + std::string(DTypeName(dtype)));
      Graph g(Mesh::VirtualCpus(mesh).value());
      const DimSpec b = Axis(g, "batch"), m = Axis(g, "model");
      const Value x = g.Input("x", dtype, {6, 4}, {b, m}),
                  mask = g.Input("mask", BOOL, {6, 4}, {b, UNSHARDED});
      const Value i = g.Input("i", I32, {5}, {UNSHARDED});
      const std::vector<Value> results = {Transpose(x, {1, 0}),
                                          Reshape(x, {2, 12}),
                                          SliceDim(x, 0, 1, 5),
                                          Concat({x, Reverse(x, {0})}, 0),
                                          Gather(x, i, 0),
                                          Select(mask, x, 0.0),
                                          Pad(x, {1, 0}, {0, 2}),
                                          BroadcastTo(SliceDim(x, 0, 0, 1), {3, 4}, {0, 1}),
                                          Roll(x, 2, 0),
                                          Relayout(x, {UNSHARDED, b}),
                                          Constant(g, 7, {dtype, {2}})};
      for (size_t r = 0; r < results.size(); ++r) {
        EXPECT_EQ(results[r].dtype(), dtype);
        g.Output("y" + std::to_string(r), results[r]);
        // The same op result, cast to a type that ops compute on.
        g.Output("z" + std::to_string(r), Cast(results[r], F32));
      }
      ASSERT_TRUE(g.status().ok()) << g.status();
      Session session = Session::Create(g).value();
      const Tensor data = Counted(dtype, {6, 4});
      Tensor bools(Type{BOOL, {6, 4}});
      for (int k = 0; k < 24; ++k) bools.mutable_values<bool>()[static_cast<size_t>(k)] = k % 3 != 0;
      const StepResult result =
          session.Run({{"x", data}, {"mask", bools}, {"i", Tensor::From<int32_t>({5}, {5, 0, 3, 3, 1})}})
              .value();
      const std::vector<double> v = Doubles(data);
      const auto expected = [&](size_t r) -> std::vector<double> {
        std::vector<double> out;
        const auto row = [&](size_t n) { out.insert(out.end(), v.begin() + n * 4, v.begin() + n * 4 + 4); };
        switch (r) {
          case 0:
            for (size_t c = 0; c < 4; ++c)
              for (size_t n = 0; n < 6; ++n) out.push_back(v[n * 4 + c]);
            return out;
          case 2:
            for (size_t n = 1; n < 5; ++n) row(n);
            return out;
          case 3:
            for (size_t n = 0; n < 12; ++n) row(n < 6 ? n : 11 - n);
            return out;
          case 4:
            for (size_t n : {5, 0, 3, 3, 1}) row(n);
            return out;
          case 5:
            for (size_t k = 0; k < 24; ++k) out.push_back(k % 3 != 0 ? v[k] : 0);
            return out;
          case 6:
            for (size_t n = 0; n < 7; ++n) {
              if (n > 0) row(n - 1);
              out.insert(out.end(), n > 0 ? 2 : 6, 0);
            }
            return out;
          case 7:
            for (int n = 0; n < 3; ++n) row(0);
            return out;
          case 8:
            for (size_t n = 0; n < 6; ++n) row((n + 4) % 6);
            return out;
          case 10: return {7, 7};
          default: return v;
        }
      };
      for (size_t r = 0; r < results.size(); ++r) {
        const Tensor y = result.Get("y" + std::to_string(r)).value();
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(Doubles(y), expected(r)) << r;
        EXPECT_EQ(Doubles(result.Get("z" + std::to_string(r)).value()), expected(r)) << r;
      }
    }
  }
}

// All patterns of f16 through a program: to f32 exactly, and back.
TEST(StorageTypesTest, CastReadsAndWritesEveryHalf) {
  Tensor halves(Type{F16, {65536}});
  for (int bits = 0; bits < 65536; ++bits)
    halves.mutable_values<Float16>()[static_cast<size_t>(bits)] =
        Float16::FromBits(static_cast<uint16_t>(bits));
  Graph g(Mesh::VirtualCpus("batch=3").value());
  const Value x = g.Input("x", F16, {65536}, {"batch"});
  const Value wide = Cast(x, F32);
  g.Output("wide", wide);
  g.Output("back", Cast(wide, F16));
  g.Output("bytes", Cast(Cast(x, U8), I32));
  Session session = Session::Create(g).value();
  const StepResult result = session.Run({{"x", halves}}).value();
  const Tensor floats = result.Get("wide").value(), back = result.Get("back").value(),
               bytes = result.Get("bytes").value();
  for (size_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
    const double sign = bits >> 15 == 1 ? -1 : 1;
    const float value = floats.values<float>()[bits];
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(bytes.values<int32_t>()[bits], 0) << bits;
      continue;
    }
    const double expected = exponent == 31  ? sign * INFINITY
                            : exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                            : sign * std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(value, expected) << bits;
    EXPECT_EQ(back.values<Float16>()[bits].bits, bits);
    EXPECT_EQ(bytes.values<int32_t>()[bits], std::min(std::max(std::trunc(expected), 0.0), 255.0)) << bits;
  }
}

TEST(StorageTypesTest, WholeNumbersWrapAndRealOnesAreClamped) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value whole = g.Input("whole", I32, {6}, {"batch"}), real = g.Input("real", F64, {6}, {"batch"});
  g.Output("u8", Cast(whole, U8));
  g.Output("i8", Cast(whole, I8));
  g.Output("i8_of_u8", Cast(Cast(whole, U8), I8));
  g.Output("clamped", Cast(real, I8));
  g.Output("half", Cast(real, F16));
  Session session = Session::Create(g).value();
  const StepResult r =
      session
          .Run({{"whole", Tensor::From<int32_t>({6}, {-1, 0, 127, 128, 255, 256})},
                {"real", Tensor::From<double>({6}, {-1000, -1.9, NAN, 127.5, 65520, 1 + 0x1p-11})}})
          .value();
  EXPECT_THAT(Doubles(r.Get("u8").value()), ElementsAre(255, 0, 127, 128, 255, 0));
  EXPECT_THAT(Doubles(r.Get("i8").value()), ElementsAre(-1, 0, 127, -128, -1, 0));
  EXPECT_THAT(Doubles(r.Get("i8_of_u8").value()), ElementsAre(-1, 0, 127, -128, -1, 0));
  EXPECT_THAT(Doubles(r.Get("clamped").value()), ElementsAre(-128, -1, 0, 127, 127, 1));
  EXPECT_EQ(r.Get("half")->At({4}).value(), INFINITY);
  EXPECT_EQ(r.Get("half")->At({5}).value(), 1);  // a tie, to even
}

using StoredVariablesTest = TempDirTest;

// A variable of a type that is only stored can be read, moved, saved and restored.
TEST_F(StoredVariablesTest, AreSavedAndRestored) {
  const auto make = [](const char* mesh) {
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Variable table = g.Var("table", Zeros({6, 4}, F16), {"a", UNSHARDED});
    const Variable bytes = g.Var("bytes", Filled(3, {5}, U8), {UNSHARDED});
    g.Output("y", Cast(Gather(table, g.Input("i", I32, {3}, {UNSHARDED}), 0), F32));
    g.Output("b", Cast(bytes, I32));
    return Session::Create(g).value();
  };
  Session first = make("a=3"), second = make("a=2");
  const Tensor table = Counted(F16, {6, 4});
  ASSERT_TRUE(first.Set("table", table).ok());
  ASSERT_TRUE(first.Save(Path("runs")).ok());
  ASSERT_TRUE(second.Restore(Path("runs")).ok());
  EXPECT_EQ(second.Get("table")->dtype(), F16);
  EXPECT_EQ(Doubles(second.Get("table").value()), Doubles(table));
  const StepResult result = second.Run({{"i", Tensor::From<int32_t>({3}, {4, 0, 5})}}).value();
  const std::vector<double> v = Doubles(table);
  for (size_t n = 0; n < 3; ++n)
    for (size_t c = 0; c < 4; ++c)
      EXPECT_EQ(result.Get("y")->At({static_cast<int64_t>(n), static_cast<int64_t>(c)}).value(),
                v[(n == 0   ? 4
                   : n == 1 ? 0
                            : 5) *
                      4 +
                  c]);
  EXPECT_EQ(result.Get("b")->At({2}).value(), 3);
}

// ---- Published weights: files as Hugging Face has them, byte by byte.

std::string Published(const std::string& header, const std::vector<uint16_t>& elements) {
  std::string padded = header;
  padded.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  const uint64_t size = padded.size();
  std::memcpy(file.data(), &size, 8);
  file += padded;
  for (const uint16_t element : elements) {
    file += static_cast<char>(element & 0xff);
    file += static_cast<char>(element >> 8);
  }
  return file;
}

using PublishedWeightsTest = TempDirTest;

TEST_F(PublishedWeightsTest, InF16AndBf16AreLoadedIntoVariablesOfF32) {
  // 1, -2, 0.5, 0.333251953125, 2^-24, 65504; bias 3, -0.25.
  const std::string f16 = Published(
      R"({"__metadata__":{"format":"pt"},"dense/kernel":{"dtype":"F16","shape":[3,2],"data_offsets":[0,12]},)"
      R"("dense/bias":{"dtype":"F16","shape":[2],"data_offsets":[12,16]}})",
      {0x3c00, 0xc000, 0x3800, 0x3555, 0x0001, 0x7bff, 0x4200, 0xb400});
  // 1, -2, 0.5, 0.333984375, 2^-133, 3.3895313892515355e38; bias 3, -0.25.
  const std::string bf16 =
      Published(R"({"dense/kernel":{"dtype":"BF16","shape":[3,2],"data_offsets":[0,12]},)"
                R"("dense/bias":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}})",
                {0x3f80, 0xc000, 0x3f00, 0x3eab, 0x0001, 0x7f7f, 0x4040, 0xbe80});
  for (const auto& [file, kernel] :
       {std::pair(f16, std::vector<double>{1, -2, 0.5, 0.333251953125, 0x1p-24, 65504}),
        std::pair(bf16, std::vector<double>{1, -2, 0.5, 0.333984375, 0x1p-133, 0x1.fep127})}) {
    const std::string path = File("weights.safetensors", file);
    Graph g(Mesh::VirtualCpus("model=2").value());
    const Dense dense(g, "dense", 3, 2, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
    g.Output("y", dense(g.Input("x", F32, {1, 3}, {UNSHARDED, UNSHARDED})));
    Session session = Session::Create(g).value();
    const auto weights = ReadSafetensors(path, {.reals = F32}).value();
    for (const auto& [name, tensor] : weights) ASSERT_TRUE(session.Set(name, tensor).ok()) << name;
    EXPECT_EQ(Doubles(session.Get("dense/kernel").value()), kernel);
    EXPECT_THAT(Doubles(session.Get("dense/bias").value()), ElementsAre(3, -0.25));
    const Tensor y = session.Run({{"x", Tensor::From<float>({1, 3}, {2, 4, 0})}})->Get("y").value();
    EXPECT_EQ(y.At({0, 0}).value(), 2 * kernel[0] + 4 * kernel[2] + 3);
    EXPECT_EQ(y.At({0, 1}).value(), static_cast<float>(2 * kernel[1] + 4 * kernel[3] - 0.25));
    // Without a cast to the variable's type, Set returns an error.
    EXPECT_FALSE(session.Set("dense/bias", (*ReadSafetensors(path))[1].second).ok());
  }
}

}  // namespace
}  // namespace meshwork::storage_types_test
