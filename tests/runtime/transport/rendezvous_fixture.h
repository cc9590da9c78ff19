// A rendezvous of this process, for tests.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/rendezvous.h"

namespace meshwork {

// A server with the token "a token". The tests are skipped in builds without gRPC.
class ServedRendezvousTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
    Start("127.0.0.1:0");
  }
  void Start(const std::string& address) {
    server_ = RendezvousServer::Start(address, "a token").value();
    address_ = fmt::format("127.0.0.1:{}", server_->port());
  }
  std::unique_ptr<Rendezvous> Client() const {
    return Rendezvous::Connect(address_, "a token", std::chrono::minutes(2)).value();
  }

  std::unique_ptr<RendezvousServer> server_;
  std::string address_;
};

}  // namespace meshwork
