#include "text/harmony_header_reader.h"

#include <algorithm>
#include <utility>

#include "text/whitespace.h"

namespace rose::harmony {
namespace {

constexpr std::string_view kAssistant = "assistant";
constexpr std::string_view kChannels[] = {"analysis", "commentary", "final"};
constexpr std::string_view kTypes[] = {"json", "code"};

bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_alnum(char c) { return is_alpha(c) || (c >= '0' && c <= '9'); }
bool in_function_name(char c) {
  return is_alnum(c) || std::string_view("_.-:/$@").find(c) != std::string_view::npos;
}

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// `word` may be all that arrived of one of the list's.
template <class List>
bool begins_one(const List& list, std::string_view word) {
  return std::any_of(std::begin(list), std::end(list),
                     [&](std::string_view whole) { return whole.starts_with(word); });
}

std::string_view letters(std::string_view word) {
  size_t end = 0;
  while (end < word.size() && is_alpha(word[end])) ++end;
  return word.substr(0, end);
}

std::string_view without_assistants(std::string_view word) {
  while (word.starts_with(kAssistant)) word.remove_prefix(kAssistant.size());
  return word;
}

// A known channel in a word that may carry dashes, or a content type glued to its end.
std::string_view channel_in(std::string_view word) {
  std::string_view found;
  for (size_t at = 0; at < word.size();) {
    std::string_view piece = letters(word.substr(at));
    at += std::max<size_t>(piece.size(), 1);
    for (const std::string_view type : kTypes)
      if (piece.ends_with(type) && contains(kChannels, piece.substr(0, piece.size() - type.size())))
        piece.remove_suffix(type.size());
    if (contains(kChannels, piece)) found = piece;
  }
  return found;
}

// Whether a `to=` after this part of a word begins a word of its own.
bool ends_before_to(std::string_view part) {
  constexpr size_t kLongest = 64;  // of words worth recognising, so that long ones cost no more
  return !is_alnum(part.back()) ||
         (part.size() <= kLongest && (contains(kChannels, part) || contains(kTypes, part) ||
                                      role_named(part) || without_assistants(part).empty()));
}

// The next word at or after `at`: up to whitespace, or up to a `to=` glued to its end.
std::string_view next_word(std::string_view text, size_t at) {
  while (const size_t space = whitespace_at(text, at)) at += space;
  for (size_t end = at;; ++end)
    if (end == text.size() || whitespace_at(text, end) ||
        (end > at && text.substr(end).starts_with(kTo) &&
         ends_before_to(text.substr(at, end - at))))
      return text.substr(at, end - at);
}

size_t end_of(std::string_view text, std::string_view word) {
  return size_t(word.data() + word.size() - text.data());
}

}  // namespace

void HeaderReader::restart(Start start) {
  header_ = Header{.role = start == Start::token ? Role::assistant : role_};
  start_ = start;
  opener_ = Opener::lead;
  blank_ = true;
  segment_.clear();
  lead_.clear();
  rest_.clear();
}

HeaderReader::Found HeaderReader::channel() {
  settle(opener_ == Opener::lead ? Reading::header : Reading::salvage);
  opener_ = Opener::channel;
  blank_ = false;
  if (!lead_.empty())
    return {{.role = header_.role, .name = header_.name}, std::exchange(lead_, {})};
  std::string rest = std::exchange(rest_, {});
  if (rest.empty() || header_.recipient || header_.content_type) return {};
  return {std::exchange(header_, Header{.role = header_.role}), std::move(rest)};
}

void HeaderReader::constrain() {
  settle(Reading::header);
  opener_ = Opener::constrain;
  blank_ = false;
}

HeaderReader::Found HeaderReader::complete() {
  settle(Reading::header);
  return {std::move(header_), std::move(lead_)};
}

HeaderReader::Found HeaderReader::cut() {
  settle(Reading::salvage_at_end);
  return {std::move(header_), lead_ + rest_};
}

// Reads the segment up to a marker or the end. A marker spelled with ordinary tokens counts as one
// where a header is certain: models do write it so.
void HeaderReader::settle(Reading reading) {
  const std::string segment = std::exchange(segment_, {});
  std::string_view text = segment;
  for (size_t at = 0; opener_ != Opener::lead || reading == Reading::header;) {
    at = text.find("<|c", at);
    if (at == text.npos) break;
    const bool channel = text.substr(at).starts_with(kChannelMarker);
    if (!channel && !text.substr(at).starts_with(kConstrainMarker)) {
      ++at;
      continue;
    }
    words(text.substr(0, at),
          channel && opener_ != Opener::lead ? Reading::salvage : Reading::header);
    opener_ = channel ? Opener::channel : Opener::constrain;
    text.remove_prefix(at + (channel ? kChannelMarker : kConstrainMarker).size());
    at = 0;
  }
  words(text, reading);
}

void HeaderReader::words(std::string_view segment, Reading reading) {
  size_t at = opening(segment, reading);
  size_t kept_to = at;  // text goes on verbatim from here
  for (;;) {
    const std::string_view word = next_word(segment, at);
    if (word.empty()) return;
    // What follows a recipient is no longer prose in front of a header.
    std::string& kept = opener_ == Opener::lead && !header_.recipient ? lead_ : rest_;
    at = end_of(segment, word);
    const size_t start = at - word.size();
    const bool may_mean = kept.empty() || reading == Reading::header;
    if (const size_t used = may_mean ? element(word, reading) : 0) {
      kept_to = at = start + used;
      continue;
    }
    const size_t from = kept.empty() ? start : kept_to;
    if (reading != Reading::header) {
      kept += segment.substr(from);
      return;
    }
    kept += segment.substr(from, at - from);
    kept_to = at;
  }
}

// What the opener makes of the first word: how many bytes of the segment it takes.
size_t HeaderReader::opening(std::string_view segment, Reading reading) {
  switch (opener_) {
    case Opener::lead: return lead(segment, reading);
    case Opener::channel: return channel_value(segment, reading);
    case Opener::constrain: return constrain_type(segment, reading);
  }
  return 0;
}

// A role, or the name of a tool. Prose may begin with the same words, so something of a header has
// to follow them, unless <|start|> makes a role certain.
size_t HeaderReader::lead(std::string_view segment, Reading reading) {
  const std::string_view word = next_word(segment, 0);
  if (word.empty() || word.starts_with(kTo)) return 0;
  const size_t end = end_of(segment, word);
  std::string_view next = next_word(segment, end);
  if (reading == Reading::header && contains(kChannels, next))
    next = next_word(segment, end_of(segment, next));
  const bool header_follows = next.empty() ? reading == Reading::header : next.starts_with(kTo);
  const bool certain = start_ == Start::token;

  const std::string_view after = without_assistants(word);
  if (after.size() < word.size() && (after.empty() || contains(kChannels, after))) {
    if (!certain && !header_follows) return 0;
    if (!after.empty()) header_.channel = std::string(after);
    return end;
  }
  const size_t colon = word.find(':');
  if (const std::optional<Role> role = role_named(word.substr(0, colon))) {
    if (!certain && !header_follows) return 0;
    if (certain) header_.role = *role;
    if (certain && colon != word.npos) header_.name = std::string(word.substr(colon + 1));
    return end;
  }
  if (!certain || !header_follows || contains(kChannels, word)) return 0;
  header_.role = Role::tool;
  header_.name = std::string(word);
  return end;
}

size_t HeaderReader::channel_value(std::string_view segment, Reading reading) {
  const std::string_view word = next_word(segment, 0);
  if (word.empty() || word.starts_with(kTo)) return 0;
  const size_t end = end_of(segment, word);
  const std::string_view known = reading == Reading::header ? channel_in(word) : letters(word);
  if (contains(kChannels, known)) {
    header_.channel = std::string(known);
    return reading == Reading::header ? end : end_of(segment, known);
  }
  const bool alone = next_word(segment, end).empty();
  if (reading == Reading::salvage_at_end) return alone && begins_one(kChannels, word) ? end : 0;
  if (reading == Reading::salvage && !alone) return 0;
  if (!header_.channel) header_.channel = std::string(word);
  return end;
}

size_t HeaderReader::constrain_type(std::string_view segment, Reading reading) {
  const std::string_view word = next_word(segment, 0);
  if (word.empty() || word.starts_with(kTo)) return 0;
  const std::string_view type = reading == Reading::header ? word : letters(word);
  const bool partial = reading == Reading::salvage_at_end && begins_one(kTypes, word) &&
                       next_word(segment, end_of(segment, word)).empty();
  if (reading != Reading::header && !contains(kTypes, type) && !partial) return 0;
  header_.content_type = std::string(kConstrainMarker) + std::string(type);
  return end_of(segment, type);
}

// How many bytes of the word mean something to a header; 0: it is text.
size_t HeaderReader::element(std::string_view word, Reading reading) {
  const bool prose = opener_ == Opener::lead && !lead_.empty();
  if (word.starts_with(kTo)) {
    std::string_view name = word.substr(kTo.size());
    if (prose && !name.starts_with(kFunctions)) return 0;
    size_t end = 0;
    while (end < name.size() && in_function_name(name[end])) ++end;
    if (end > 0) header_.recipient = std::string(name.substr(0, end));
    return kTo.size() + end;
  }
  if (prose) return 0;
  const bool certain = reading == Reading::header;
  if (certain && !header_.recipient && word.starts_with(kFunctions)) {
    size_t end = 0;
    while (end < word.size() && in_function_name(word[end])) ++end;
    header_.recipient = std::string(word.substr(0, end));
    return end;
  }
  const std::string_view type = letters(word);
  const bool whole = type.size() == word.size() || !is_alnum(word[type.size()]);
  if (contains(kTypes, type) && whole && (certain || header_.recipient) && !header_.content_type) {
    header_.content_type = std::string(type);
    return type.size();
  }
  if (certain && !header_.channel && contains(kChannels, word)) {
    header_.channel = std::string(word);
    return word.size();
  }
  return 0;
}

}  // namespace rose::harmony
