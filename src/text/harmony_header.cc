#include "text/harmony_header.h"

#include <vector>

#include "base/check.h"
#include "text/utf8.h"
#include "text/whitespace.h"

namespace rose::harmony {
namespace {

// As Rust prints a string for debugging: the reference's error shows one so.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t space = whitespace_at(text, at);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\0')
      out += "\\0";
    else if (uint8_t(c) < 0x20 || c == 0x7f)
      out += strf("\\u{%x}", unsigned(c));
    else if (space == 2)
      out += strf("\\u{%x}", (c & 0x1fu) << 6 | (text[at + 1] & 0x3fu));
    else if (space == 3)
      out +=
          strf("\\u{%x}", (c & 0xfu) << 12 | (text[at + 1] & 0x3fu) << 6 | (text[at + 2] & 0x3fu));
    else
      out += c;
    at += space ? space : 1;
  }
  return out + '"';
}

std::vector<std::string> split_ascii(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\f\r";
  std::vector<std::string> parts;
  for (size_t at = text.find_first_not_of(kSpaces); at != text.npos;) {
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpaces, end);
  }
  return parts;
}

std::string spaced(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += ' ';
    out += part;
  }
  return out;
}

struct Split {
  Header header;                   // role, name and channel
  std::vector<std::string> parts;  // all the rest
};

// Cuts marker and value out of the text; the text before and after them closes up.
Result<std::optional<std::string>> cut_channel(std::string& text) {
  const size_t marker = text.find(kChannelMarker);
  if (marker == text.npos) return std::nullopt;
  const size_t start = marker + kChannelMarker.size();
  size_t end = start;
  while (end < text.size() && text[end] != '<' && !whitespace_at(text, end)) ++end;
  if (end == start)
    return fail(ErrorKind::invalid, "channel marker present but no channel value found in header");
  std::string channel = text.substr(start, end - start);
  text.erase(marker, end - marker);
  return channel;
}

// A marker glued to the word before it begins a word of its own.
std::string space_markers(std::string_view text) {
  std::string out;
  for (size_t at; (at = text.find(kConstrainMarker)) != text.npos;) {
    (out += text.substr(0, at)) += ' ';
    out += kConstrainMarker;
    text.remove_prefix(at + kConstrainMarker.size());
  }
  return out += text;
}

Result<Split> split(std::string_view given, std::optional<Role> role) {
  if (valid_utf8_prefix(given) != given.size())
    return fail(ErrorKind::invalid, "could not decode header");
  Split out;
  std::string text(given);
  out.header.channel = TRY(cut_channel(text));
  out.parts = split_ascii(space_markers(trim(text)));

  if (!role) {
    if (out.parts.empty()) return fail(ErrorKind::invalid, "message header did not contain a role");
    const std::string first = out.parts[0];
    role = role_named(first);
    if (!role && out.parts.size() == 1 && !first.starts_with(kTo))
      return fail(ErrorKind::invalid, "Unknown role: " + first);
    if (!role || *role == Role::tool) out.header.name = first;
    if (!role) {
      role = Role::tool;  // a word of its own in front of a recipient is the name of a tool
      out.parts.erase(out.parts.begin());
    }
  }
  out.header.role = *role;
  if (!out.parts.empty() && out.parts[0] == role_name(*role)) out.parts.erase(out.parts.begin());
  return out;
}

std::string without_to(const std::string& part) {
  return part.starts_with(kTo) ? part.substr(kTo.size()) : part;
}

}  // namespace

Result<Header> parse_header(std::string_view text, std::optional<Role> role) {
  Split found = TRY(split(text, role));
  Header header = std::move(found.header);
  std::vector<std::string>& parts = found.parts;
  if (parts.empty()) return header;

  // A last part that is no `to=` is the content type, unless it is alone: then it is the recipient.
  if (parts.size() > 1 && !parts.back().starts_with(kTo)) {
    header.content_type = std::move(parts.back());
    parts.pop_back();
  }
  header.recipient = without_to(parts.back());
  parts.pop_back();
  if (!parts.empty())
    return fail(ErrorKind::invalid, "unexpected tokens remaining in message header: Some(" +
                                        quoted(spaced(parts)) + ")");
  return header;
}

Result<Unfinished> parse_unfinished_header(std::string_view text, Role role) {
  Split found = TRY(split(text, role));
  return Unfinished{std::move(found.header), spaced(found.parts)};
}

}  // namespace rose::harmony
