// One who asks: the holder of a key, what it may do and what it has used. Every method may be called
// from any thread. Time is handed in, so that tests need not wait for it.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace rose {

// What a key may be good for.
enum Scope : unsigned { kNone = 0, kInfer = 1, kMetrics = 2, kAdmin = 4, kAllScopes = 7 };

struct TenantLimits {  // 0: no limit
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;  // of prompts and answers
  int64_t tokens_per_day = 0;
  int concurrent = 0;         // requests at work or waiting
  int max_tokens = 0;         // of one answer
  int priority = -1'000'000;  // the best (smallest) that it may ask for
  double share = 1;           // of the engine, beside others that wait
};

// Why not now.
struct TooMuch {
  std::string message;
  int retry_after_s = 1;
};

class Tenant {
 public:
  Tenant(std::string name, uint64_t id) : name_(std::move(name)), id_(id) {}
  const std::string& name() const { return name_; }
  uint64_t id() const { return id_; }

  void configure(unsigned scopes, const TenantLimits& limits);
  unsigned scopes() const;
  TenantLimits limits() const;

  // One request; refuses beyond requests_per_minute.
  std::optional<TooMuch> request(Time now);
  // A generation: takes one of the places and the prompt's tokens, or refuses.
  std::optional<TooMuch> begin(Time now, int64_t prompt_tokens);
  // It has ended: the place is free, and what it generated is paid for afterwards.
  void end(Time now, int64_t prompt_tokens, int64_t generated_tokens);

  struct Usage {
    int64_t requests = 0, refused = 0, prompt_tokens = 0, generated_tokens = 0;
    int active = 0;
  };
  Usage usage() const;
  // The x-ratelimit-… headers of an answer.
  std::vector<std::pair<std::string, std::string>> headers(Time now);

 private:
  // Fills up within a minute; what is spent afterwards may drain it below zero.
  struct Bucket {
    double left = 0;
    Time filled = {};
    bool fresh = true;
    void fill(Time now, double per_minute);
    double seconds_until(double wanted, double per_minute) const;
  };
  void refill(Time now);
  std::optional<TooMuch> refuse(std::string message, double seconds);

  const std::string name_;
  const uint64_t id_;
  mutable std::mutex mutex_;
  unsigned scopes_ = kAllScopes;
  TenantLimits limits_;
  Bucket requests_, tokens_;
  int64_t day_ = -1, tokens_today_ = 0;
  Usage usage_;
};

}  // namespace rose
