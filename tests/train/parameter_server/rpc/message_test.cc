// Messages come back unchanged over the wire. All other bytes give an error.
#include "meshwork/train/parameter_server/rpc/message.h"

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/train/parameter_server/rpc/store_messages.h"

namespace meshwork::message_test {
namespace {

std::string BytesThatGo(const RpcMessage& message) {
  std::string bytes;
  const std::vector<MessagePart> parts = PartsOf(message).value();
  for (const MessagePart& part : parts)
    bytes.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  return bytes;
}

absl::StatusOr<RpcMessage> Read(std::string_view bytes, size_t piece = 1 << 20, int64_t max_bytes = 1 << 20) {
  MessageReader reader(max_bytes);
  for (size_t at = 0; at < bytes.size(); at += piece)
    MESHWORK_RETURN_IF_ERROR(reader.Take(std::as_bytes(std::span(bytes.substr(at, piece)))));
  const bool is_whole = reader.IsWhole();
  absl::StatusOr<RpcMessage> message = reader.End();
  EXPECT_EQ(message.ok(), is_whole);
  return message;
}

void ExpectSame(const RpcMessage& a, const RpcMessage& b) {
  EXPECT_EQ(a.call, b.call);
  EXPECT_EQ(a.fields, b.fields);
  EXPECT_EQ(a.status, b.status);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].type(), b.tensors[i].type());
    EXPECT_EQ(std::memcmp(a.tensors[i].raw(), b.tensors[i].raw(), static_cast<size_t>(a.tensors[i].bytes())),
              0);
  }
}

std::vector<RpcMessage> Messages() {
  std::vector<Tensor> all;
  for (DType dtype : kAllDTypes) all.push_back(Tensor::Full({dtype, {2, 3}}, 1));
  return {
      RpcMessage(),
      {.call = "Ping"},
      {.call = "Pull", .fields = std::string("\0\xFF", 2), .tensors = all},
      {.tensors = {Tensor::Zeros({F32, {0}}), Tensor(1.5f), Tensor::Zeros({F64, {3, 0, 2}})}},
      {.tensors = {Tensor::Zeros({F32, {0}})}},
      {.tensors = {Tensor::Arange(I32, 0, 1000), Tensor::Zeros({I8, {0}})}},
      {.status = absl::NotFoundError("no such piece")},
      {.status = absl::InternalError("")},
  };
}

TEST(MessageTest, ComesAsItWent) {
  for (const RpcMessage& message : Messages())
    for (size_t piece : {1, 3, 7, 4096}) {
      const absl::StatusOr<RpcMessage> read = Read(BytesThatGo(message), piece);
      ASSERT_TRUE(read.ok()) << read.status();
      ExpectSame(*read, message);
    }
}

TEST(MessageTest, TensorsAreSentFromWhereTheyLieAndArriveAligned) {
  const Tensor tensor = Tensor::Arange(F32, 0, 100);
  const std::vector<MessagePart> parts = PartsOf({.tensors = {tensor}}).value();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(static_cast<const void*>(parts[1].bytes.data()), tensor.raw());
  const RpcMessage read = Read(BytesThatGo({.call = "x", .tensors = {Tensor(true), tensor}})).value();
  for (const Tensor& arrived : read.tensors) EXPECT_EQ(reinterpret_cast<uintptr_t>(arrived.raw()) % 64, 0u);
}

TEST(MessageTest, EveryTruncationIsAnError) {
  for (const RpcMessage& message : Messages()) {
    const std::string bytes = BytesThatGo(message);
    for (size_t n = 0; n < bytes.size(); ++n)
      EXPECT_FALSE(Read(bytes.substr(0, n)).ok()) << n << " of " << bytes.size();
    EXPECT_FALSE(Read(bytes + "x").ok());
  }
}

// A flip may give another message; it never crashes, nor takes memory that the bytes do not fill.
TEST(MessageTest, FlippedBitsGiveAMessageOrAnError) {
  std::mt19937 random(7);
  for (const RpcMessage& message : Messages()) {
    const std::string bytes = BytesThatGo(message);
    for (int trial = 0; trial < 2000; ++trial) {
      std::string flipped = bytes;
      for (unsigned flips = 1 + random() % 3; flips-- > 0;)
        flipped[random() % flipped.size()] ^= static_cast<char>(1u << random() % 8);
      const absl::StatusOr<RpcMessage> read = Read(flipped, 64);
      if (!read.ok()) continue;
      EXPECT_LE(BytesOf(*read), std::ssize(flipped));
      PullFromMessage(*read).status().IgnoreError();
      PushFromMessage(*read).status().IgnoreError();
      FactsFromMessage(*read).status().IgnoreError();
    }
  }
}

TEST(MessageTest, RandomBytesGiveAnError) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (bytes.size() >= 4 && trial % 2 == 0)
      bytes.replace(0, 4, {static_cast<char>(bytes.size() - 4), 0, 0, 0});
    Read(bytes).status().IgnoreError();
  }
}

TEST(MessageTest, WhatIsTooLargeIsRefusedBeforeItIsRead) {
  const std::string bytes = BytesThatGo({.tensors = {Tensor::Zeros({F32, {1000}})}});
  MessageReader reader(3999);
  const absl::Status status = reader.Take(std::as_bytes(std::span(bytes).first(40)));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

// Each tensor alone is within the limit; their sum is not.
TEST(MessageTest, SizesAreAddedUp) {
  const Tensor large(Type{F64, {int64_t{1} << 40}}, AllocateAligned(8));  // nobody reads its elements
  const std::vector<MessagePart> parts = PartsOf({.tensors = std::vector<Tensor>(1 << 16, large)}).value();
  MessageReader reader(int64_t{1} << 58);
  EXPECT_EQ(reader.Take(parts[0].bytes).code(), absl::StatusCode::kResourceExhausted);
}

TEST(ReceiveMemoryTest, LargeBuffersAreUsedAgainWithinABound) {
  ReceiveMemory memory(/*max_idle_bytes=*/3 << 20);
  void* const first = memory.Take(2 << 20).get();
  EXPECT_EQ(memory.idle_bytes(), 2 << 20);
  const std::shared_ptr<void> again = memory.Take(2 << 20);
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(memory.idle_bytes(), 0);
  memory.Take(2 << 20).reset();
  EXPECT_EQ(memory.idle_bytes(), 2 << 20);
  memory.Take(3 << 20).reset();  // the idle buffer is dropped for this one
  EXPECT_EQ(memory.idle_bytes(), 3 << 20);
  memory.Take(100).reset();      // too small
  memory.Take(4 << 20).reset();  // too large
  EXPECT_EQ(memory.idle_bytes(), 3 << 20);
  memory.Take(2 << 20).reset();  // the idle one is too large for it, and both do not fit
  EXPECT_EQ(memory.idle_bytes(), 2 << 20);
  const std::shared_ptr<void> less = memory.Take((2 << 20) - 1000);  // the idle one is little larger
  EXPECT_EQ(memory.idle_bytes(), 0);
}

TEST(ReceiveMemoryTest, TensorsOutliveIt) {
  std::shared_ptr<void> buffer;
  {
    ReceiveMemory memory;
    buffer = memory.Take(2 << 20);
  }
  static_cast<char*>(buffer.get())[(2 << 20) - 1] = 1;
  buffer.reset();
}

// ---- The messages of a store.

void ExpectEqual(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.valid(), b.valid());
  if (!a.valid()) return;
  EXPECT_TRUE(AllEqual(a, b).ok());
}

TEST(StoreMessagesTest, PullsComeAsTheyWent) {
  const PullRequest request{.pieces = {{"dense/kernel/part_0"},
                                       {"table", Tensor::From<int64_t>({3}, {5, 0, 2})},
                                       {"", Tensor::Zeros({I64, {0}})}}};
  const PullRequest read = PullFromMessage(Read(BytesThatGo(PullMessage(request).value())).value()).value();
  ASSERT_EQ(read.pieces.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.pieces[i].piece, request.pieces[i].piece);
    ExpectEqual(read.pieces[i].rows, request.pieces[i].rows);
  }
  const Pulled pulled{.version = -3, .values = {Tensor(2.5), Tensor::Zeros({BF16, {3, 2}})}};
  const Pulled back = PulledFromMessage(Read(BytesThatGo(PulledMessage(pulled))).value()).value();
  EXPECT_EQ(back.version, -3);
  ASSERT_EQ(back.values.size(), 2u);
  for (size_t i = 0; i < 2; ++i) ExpectEqual(back.values[i], pulled.values[i]);
}

TEST(StoreMessagesTest, PushesComeAsTheyWent) {
  const PushRequest request{
      .pusher = "worker 1",
      .sequence = int64_t{1} << 60,
      .version = 17,
      .gradients = {{{"a"}, Tensor::From<float>({2}, {1, 2})},
                    {{"b", Tensor::From<int64_t>({1}, {4})}, Tensor::From<float>({1, 2}, {3, 4})},
                    {{"c"}, Tensor(0.5f)}},
      .next = {"c", "", "a"}};
  const PushRequest read = PushFromMessage(Read(BytesThatGo(PushMessage(request).value())).value()).value();
  EXPECT_EQ(read.pusher, "worker 1");
  EXPECT_EQ(read.sequence, int64_t{1} << 60);
  EXPECT_EQ(read.version, 17);
  EXPECT_EQ(read.next, request.next);
  ASSERT_EQ(read.gradients.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.gradients[i].at.piece, request.gradients[i].at.piece);
    ExpectEqual(read.gradients[i].at.rows, request.gradients[i].at.rows);
    ExpectEqual(read.gradients[i].gradient, request.gradients[i].gradient);
  }
  for (const bool applied : {true, false}) {
    const Pushed pushed =
        PushedFromMessage(Read(BytesThatGo(PushedMessage({.version = 9, .applied = applied}))).value())
            .value();
    EXPECT_EQ(pushed.version, 9);
    EXPECT_EQ(pushed.applied, applied);
  }
}

TEST(StoreMessagesTest, OthersComeAsTheyWent) {
  EXPECT_EQ(SavedFromMessage(Read(BytesThatGo(SavedMessage(77))).value()).value(), 77);
  const JobFacts facts = {{"program", "9f2c"}, {"pieces", ""}};
  EXPECT_EQ(FactsFromMessage(Read(BytesThatGo(FactsMessage(facts))).value()).value(), facts);
}

TEST(StoreMessagesTest, TensorsTooFewOrTooManyAreAnError) {
  RpcMessage push =
      PushMessage({.gradients = {{{"b", Tensor::From<int64_t>({1}, {4})}, Tensor(1.f)}}}).value();
  push.tensors.emplace_back(2.f);
  EXPECT_FALSE(PushFromMessage(push).ok());
  push.tensors.resize(1);
  EXPECT_FALSE(PushFromMessage(push).ok());
  RpcMessage pull = PullMessage({.pieces = {{"b", Tensor::From<int64_t>({1}, {4})}}}).value();
  pull.tensors.clear();
  EXPECT_FALSE(PullFromMessage(pull).ok());
  pull.fields = "\x08";
  EXPECT_FALSE(PullFromMessage(pull).ok());
}

}  // namespace
}  // namespace meshwork::message_test
