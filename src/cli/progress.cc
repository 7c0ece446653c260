#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace rose {

namespace {

constexpr auto kRedraw = std::chrono::milliseconds(50);

double gigabytes(int64_t bytes) { return double(bytes) / 1e9; }

}  // namespace

StatusLine::StatusLine() : terminal_(::isatty(STDERR_FILENO)) {}

void StatusLine::draw(const std::string& text) {
  const Time now = Clock::now();
  if (!terminal_ || now - drawn_ < kRedraw) return;
  drawn_ = now;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

void StatusLine::commit(const std::string& text) {
  std::fprintf(stderr, terminal_ ? "\r\033[K%s\n" : "%s\n", text.c_str());
}

void ProgressLine::show(const LoadProgress& progress) {
  if (last_.phase && std::strcmp(last_.phase, progress.phase) != 0) end_phase();
  last_ = progress;
  if (progress.pieces)
    return line_.draw(
        strf("%-10s %ld of %ld", progress.phase, long(progress.bytes), long(progress.total)));
  const double share =
      progress.total > 0 ? 100.0 * double(progress.bytes) / double(progress.total) : 0;
  const double rate = progress.seconds > 0 ? gigabytes(progress.bytes) / progress.seconds : 0;
  line_.draw(strf("%-10s %.1f of %.1f GB  %3.0f %%  %.1f GB/s", progress.phase,
                  gigabytes(progress.bytes), gigabytes(progress.total), share, rate));
}

void ProgressLine::end_phase() {
  if (last_.pieces)
    line_.commit(strf("%-10s %ld in %.1f s", last_.phase, long(last_.bytes), last_.seconds));
  else if (last_.bytes > 0)
    line_.commit(strf("%-10s %.2f GB in %.1f s (%.1f GB/s)", last_.phase, gigabytes(last_.bytes),
                      last_.seconds, gigabytes(last_.bytes) / std::max(last_.seconds, 1e-9)));
  else
    line_.commit(strf("%-10s %.1f s", last_.phase, last_.seconds));
}

void ProgressLine::finish() {
  if (last_.phase) end_phase();
  last_ = {};
}

CountLine::CountLine(std::string what, int total)
    : what_(std::move(what)), total_(total), start_(Clock::now()) {}

void CountLine::show(int done) { line_.draw(strf("%-10s %d of %d", what_.c_str(), done, total_)); }

void CountLine::finish() {
  seconds_ = seconds();
  line_.commit(strf("%-10s %d in %.1f s", what_.c_str(), total_, seconds_));
}

double CountLine::seconds() const {
  if (seconds_ >= 0) return seconds_;
  return seconds_since(start_);
}

}  // namespace rose
