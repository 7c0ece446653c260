// GET /health_generate: a token is generated before it says that all is well. Unlike the other probes it
// waits for the engine, in the queue like everybody.
#include "api/generation.h"
#include "api/routes.h"
#include "base/clock.h"
#include "text/plain_format.h"

namespace rose {

namespace {

class Probe final : public Answer {
 public:
  explicit Probe(Exchange exchange) : exchange_(std::move(exchange)) {}
  void accepted(Generation&) override {}
  void deltas(const Generation&, int, std::vector<Delta>) override {}
  void choice_ended(const Generation&, int) override {}
  void ended(const Generation&) override { exchange_.respond({.body = R"({"status":"ok"})"}); }
  void failed(const ApiError& error) override { exchange_.respond(error_response(error)); }

 private:
  Exchange exchange_;
};

}  // namespace

void get_health_generate(ApiContext& context, Exchange exchange) {
  const std::vector<int> ends = context.format.stop_tokens();
  GenerationPlan plan;
  plan.arrived = Clock::now();
  plan.parser = [&tokenizer = context.tokenizer] { return make_plain_parser(tokenizer); };
  Request request;
  request.prompt = {ends.empty() ? 0 : ends.front()};  // any token will do
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  plan.requests.push_back(std::move(request));
  Generation::start(context, exchange, std::move(plan), std::make_unique<Probe>(exchange));
}

}  // namespace rose
