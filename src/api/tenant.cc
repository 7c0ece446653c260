#include "api/tenant.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace rose {

namespace {

constexpr int64_t kDay_s = 24 * 60 * 60;

int64_t day_of(Time now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count() / kDay_s;
}

}  // namespace

void Tenant::Bucket::fill(Time now, double per_minute) {
  const double since = fresh ? 60 : seconds_between(filled, now);
  left = std::min(per_minute, left + std::max(0.0, since) * per_minute / 60);
  filled = now;
  fresh = false;
}

double Tenant::Bucket::seconds_until(double wanted, double per_minute) const {
  return std::max(0.0, (wanted - left) * 60 / per_minute);
}

void Tenant::configure(unsigned scopes, const TenantLimits& limits) {
  const std::lock_guard lock(mutex_);
  scopes_ = scopes;
  limits_ = limits;
}

unsigned Tenant::scopes() const {
  const std::lock_guard lock(mutex_);
  return scopes_;
}

TenantLimits Tenant::limits() const {
  const std::lock_guard lock(mutex_);
  return limits_;
}

void Tenant::refill(Time now) {
  requests_.fill(now, double(limits_.requests_per_minute));
  tokens_.fill(now, double(limits_.tokens_per_minute));
  if (std::exchange(day_, day_of(now)) != day_of(now)) tokens_today_ = 0;
}

std::optional<TooMuch> Tenant::refuse(std::string message, double seconds) {
  ++usage_.refused;
  return TooMuch{std::move(message), std::max(1, int(std::ceil(seconds)))};
}

std::optional<TooMuch> Tenant::request(Time now) {
  const std::lock_guard lock(mutex_);
  refill(now);
  const auto limit = double(limits_.requests_per_minute);
  if (limit > 0 && requests_.left < 1)
    return refuse(strf("this key may ask %.0f times a minute", limit),
                  requests_.seconds_until(1, limit));
  requests_.left -= 1;
  ++usage_.requests;
  return std::nullopt;
}

std::optional<TooMuch> Tenant::begin(Time now, int64_t prompt_tokens) {
  const std::lock_guard lock(mutex_);
  refill(now);
  if (limits_.concurrent > 0 && usage_.active >= limits_.concurrent)
    return refuse(strf("this key has %d requests at work, as many as it may", usage_.active), 1);
  const auto limit = double(limits_.tokens_per_minute);
  // A prompt larger than a whole minute's tokens needs a full bucket.
  const double wanted = std::min(double(prompt_tokens), limit);
  if (limit > 0 && tokens_.left < std::max(1.0, wanted))
    return refuse(strf("this key may use %.0f tokens a minute; %.0f are left, the prompt has %lld",
                       limit, std::max(0.0, std::floor(tokens_.left)), (long long)prompt_tokens),
                  tokens_.seconds_until(std::max(1.0, wanted), limit));
  if (limits_.tokens_per_day > 0 && tokens_today_ >= limits_.tokens_per_day)
    return refuse(
        strf("this key has used the %lld tokens of its day", (long long)limits_.tokens_per_day),
        double(kDay_s));
  tokens_.left -= double(prompt_tokens);
  tokens_today_ += prompt_tokens;
  ++usage_.active;
  return std::nullopt;
}

void Tenant::end(Time now, int64_t prompt_tokens, int64_t generated_tokens) {
  const std::lock_guard lock(mutex_);
  refill(now);
  tokens_.left -= double(generated_tokens);
  tokens_today_ += generated_tokens;
  usage_.prompt_tokens += prompt_tokens;
  usage_.generated_tokens += generated_tokens;
  --usage_.active;
}

Tenant::Usage Tenant::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

std::vector<std::pair<std::string, std::string>> Tenant::headers(Time now) {
  const std::lock_guard lock(mutex_);
  refill(now);
  std::vector<std::pair<std::string, std::string>> headers;
  const auto add = [&](const char* what, const Bucket& bucket, int64_t limit) {
    if (limit <= 0) return;
    headers.emplace_back(strf("x-ratelimit-limit-%s", what), std::to_string(limit));
    headers.emplace_back(strf("x-ratelimit-remaining-%s", what),
                         std::to_string(int64_t(std::max(0.0, std::floor(bucket.left)))));
    headers.emplace_back(strf("x-ratelimit-reset-%s", what),
                         strf("%.3fs", bucket.seconds_until(double(limit), double(limit))));
  };
  add("requests", requests_, limits_.requests_per_minute);
  add("tokens", tokens_, limits_.tokens_per_minute);
  return headers;
}

}  // namespace rose
