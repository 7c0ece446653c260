#include "text/splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "base/check.h"
#include "text/utf8.h"

namespace rose {

namespace {
// Ordinary patterns need a few hundred bytes of stack and a number of steps that grows with the
// text; these limits are for the others.
constexpr size_t kStackFirstBytes = 32 << 10, kStackMostBytes = 1 << 20;
constexpr uint32_t kMatchLimit = 20'000'000, kHeapLimitKiB = 64 << 10;

// \s of PCRE2 has U+180E, which is no White_Space, so it is spelled out. Only escapes are looked at:
// inside a class and outside they mean the same.
std::string with_unicode_space(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char letter = pattern[++i];
    if (letter == 's') {
      out += "\\p{White_Space}";
    } else if (letter == 'S') {
      out += "\\P{White_Space}";
    } else {
      (out += '\\') += letter;
    }
  }
  return out;
}

struct JitStack {
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kStackFirstBytes, kStackMostBytes, nullptr);
  ~JitStack() { pcre2_jit_stack_free(stack); }
};

// The machine code's backtracking stack: one a thread, kept, since matches of a thread follow each
// other. Without memory for it (null) the small one inside PCRE2 serves.
pcre2_jit_stack* thread_stack(void*) {
  static thread_local JitStack stack;
  return stack.stack;
}
}  // namespace

struct Splitter::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Splitter::Splitter(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;
Splitter::~Splitter() = default;

Result<Splitter> Splitter::compile(std::string_view pattern) {
  const std::string source = with_unicode_space(pattern);
  auto made = std::make_unique<Code>();
  int error = 0;
  size_t at = 0;
  // \C could cut a character in two.
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), options,
                             &error, &at, nullptr);
  if (!made->code || !made->context) {
    char message[200] = "no memory";
    if (!made->code) pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), 200);
    return fail(ErrorKind::unsupported, strf("split pattern: %s at %zu of '%s'", message, at,
                                             source.substr(0, 500).c_str()));
  }
  pcre2_set_match_limit(made->context, kMatchLimit);
  pcre2_set_heap_limit(made->context, kHeapLimitKiB);
  // Where PCRE2 is built without machine code it interprets: slower, the same pieces.
  if (pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE) == 0)
    pcre2_jit_stack_assign(made->context, thread_stack, nullptr);
  return Splitter(std::move(made));
}

struct Splitter::Pieces::Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  ~Scratch() { pcre2_match_data_free(data); }
};

Splitter::Pieces::Pieces(const Splitter& splitter, std::string_view text)
    : splitter_(splitter), scratch_(std::make_unique<Scratch>()), rest_(text) {
  ROSE_CHECK(scratch_->data, "split: no memory for a match");
}
Splitter::Pieces::~Pieces() = default;

std::string_view Splitter::Pieces::next() {
  if (at_ == stretch_.size()) {
    if (rest_.empty()) return {};
    const size_t valid = valid_utf8_prefix(rest_);
    if (valid == 0) {  // bytes that are no UTF-8, up to the next that are
      size_t bad = 0;
      while (bad < rest_.size() && utf8_part(rest_.substr(bad)).kind != Utf8Part::Kind::whole)
        ++bad;
      const std::string_view piece = rest_.substr(0, bad);
      rest_.remove_prefix(bad);
      return piece;
    }
    stretch_ = rest_.substr(0, valid);
    rest_.remove_prefix(valid);
    at_ = match_begin_ = match_end_ = 0;
  }
  if (at_ == match_end_ && !match()) match_begin_ = match_end_ = stretch_.size();

  // Up to the match, or the match.
  const size_t begin = at_;
  at_ = at_ < match_begin_ ? match_begin_ : match_end_;
  return stretch_.substr(begin, at_ - begin);
}

// Finds the next match that is not empty.
bool Splitter::Pieces::match() {
  const int found = pcre2_match(
      splitter_.code_->code, reinterpret_cast<PCRE2_SPTR>(stretch_.data()), stretch_.size(), at_,
      PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, scratch_->data, splitter_.code_->context);
  if (found < 0) return false;  // none, or it gave up
  const size_t* bounds = pcre2_get_ovector_pointer(scratch_->data);
  match_begin_ = bounds[0];
  match_end_ = bounds[1];
  return at_ <= match_begin_ && match_begin_ < match_end_;  // \K can make others
}

}  // namespace rose
