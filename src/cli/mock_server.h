// A server without a model, from the session to the sockets: what tests of the command line talk to.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "api/server.h"
#include "base/log.h"
#include "cli/session.h"

namespace rose::testing {

inline ModelOptions mock_options(double speed) {
  ModelOptions options;
  options.model = ROSE_SOURCE_DIR "/models/demo";
  options.device = "mock";
  options.mock.speed = speed;
  return options;
}

class MockServer : public ::testing::Test {
 protected:
  void SetUp() override { set_log_level("error"); }
  void TearDown() override {
    server_.reset();
    set_log_level("info");
  }
  void start(const ModelOptions& options, const LoadWatch& watch = {}) {
    auto session = open_session(options, watch);
    ASSERT_TRUE(session) << session.error().message;
    session_ = std::move(*session);
    ServeOptions serve;
    serve.port = 0;
    auto server = Server::start(serve, {.names = {"mock"}, .root = "/", .version = "0"},
                                *session_->engine, *session_->tokenizer, *session_->format);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  int port() const { return server_->port(); }

  std::unique_ptr<Session> session_;
  std::unique_ptr<Server> server_;
};

}  // namespace rose::testing
