// Hugging Face's tokenizer.json. Its tokens are spelled in the byte-level alphabet: each byte is one
// printable character, so that a token can stand in JSON whatever its bytes are.
#include <array>
#include <map>

#include "base/check.h"
#include "base/json.h"
#include "text/json_reader.h"
#include "text/o200k.h"
#include "text/vocabulary_file.h"

namespace rose {

namespace {
// The alphabet: printable Latin-1 stands for itself; the 68 other bytes, in order, are U+0100 on.
constexpr int kAlphabetEnd = 0x100 + 68;

constexpr std::array<int16_t, kAlphabetEnd> byte_level_alphabet() {
  std::array<int16_t, kAlphabetEnd> bytes;
  bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (0x21 <= byte && byte <= 0x7E) || (0xA1 <= byte && byte <= 0xFF && byte != 0xAD);
    bytes[printable ? byte : next++] = int16_t(byte);
  }
  return bytes;
}

// False if a character is not of the alphabet.
bool from_byte_level(std::string_view spelled, std::string& bytes) {
  static constexpr auto kBytes = byte_level_alphabet();
  bytes.clear();
  for (size_t i = 0; i < spelled.size(); ++i) {
    int code = uint8_t(spelled[i]);
    if (code >= 0x80) {  // the alphabet needs two bytes of UTF-8 at most
      if (code < 0xC2 || code > 0xC5 || ++i == spelled.size()) return false;
      code = (code & 0x1F) << 6 | (uint8_t(spelled[i]) & 0x3F);
      if ((uint8_t(spelled[i]) & 0xC0) != 0x80 || code >= kAlphabetEnd) return false;
    }
    if (kBytes[code] < 0) return false;
    bytes += char(kBytes[code]);
  }
  return true;
}

// The members of the file and of its model, as they are written: "added_tokens", "model.vocab", …
using Members = std::map<std::string, std::string_view, std::less<>>;

void read_members(JsonReader& reader, const std::string& prefix, Members& members) {
  reader.begin('{');
  while (reader.more('}')) {
    const std::string name = prefix + std::string(reader.key());
    if (name == "model") {
      read_members(reader, "model.", members);
    } else {
      members.insert_or_assign(name, reader.raw());
    }
  }
}

// A small member as a value; null where there is none.
Result<Json> small(const Members& members, const std::string& name) {
  const auto found = members.find(name);
  if (found == members.end()) return Json();
  return within(parse_json(found->second), name);
}

tl::unexpected<Error> unsupported(const std::string& what) {
  return fail(ErrorKind::unsupported, what);
}

// Values as messages show them.
std::string show(const Json& value) { return dump_json(value).substr(0, 200); }

bool has(const Json& object, const char* name, const Json& wanted) {
  return object.is_object() && object.contains(name) && object[name] == wanted;
}

// A member that is missing, null or the value that means "off".
bool off(const Json& object, const char* name, const Json& value) {
  return !object.contains(name) || object[name].is_null() || object[name] == value;
}

Result<std::vector<AddedToken>> read_added(const Json& list) {
  std::vector<AddedToken> added;
  if (list.is_null()) return added;
  if (!list.is_array()) return fail(ErrorKind::corrupt, "added_tokens: not an array");
  for (const Json& token : list) {
    if (!token.is_object() || !token.contains("id") || !token["id"].is_number_unsigned() ||
        token["id"] > Vocabulary::kMaxId || !token.contains("content") ||
        !token["content"].is_string())
      return fail(ErrorKind::corrupt, "added_tokens: no id and content in " + show(token));
    for (const char* option : {"single_word", "lstrip", "rstrip"})
      if (!off(token, option, false))
        return unsupported(strf("added_tokens: '%s' is set in %s", option, show(token).c_str()));
    const bool special = has(token, "special", true);
    added.push_back({token["id"].get<int>(), token["content"].get<std::string>(),
                     special ? AddedToken::Kind::special : AddedToken::Kind::always});
  }
  return added;
}

// One Split by a pattern whose matches and gaps are the pieces, then bytes.
Result<std::string> read_pattern(const Json& value) {
  const Json parts = value.is_object() ? value.value("pretokenizers", Json()) : Json();
  if (!has(value, "type", "Sequence") || !parts.is_array() || parts.size() != 2 ||
      !has(parts[0], "type", "Split") || !has(parts[0], "behavior", "Isolated") ||
      !off(parts[0], "invert", false) || !parts[0].contains("pattern") ||
      !parts[0]["pattern"].is_object() || !parts[0]["pattern"].contains("Regex") ||
      !parts[0]["pattern"]["Regex"].is_string() || !has(parts[1], "type", "ByteLevel") ||
      !has(parts[1], "use_regex", false) || !has(parts[1], "add_prefix_space", false))
    return unsupported(
        "pre_tokenizer: wanted a Sequence of an isolating Split by Regex and a "
        "ByteLevel without one, found " +
        show(value));
  return parts[0]["pattern"]["Regex"].get<std::string>();
}

// What else the model says of how its tokens are made.
Result<WholePiece> read_settings(const Members& members) {
  const Json type = TRY(small(members, "model.type"));
  if (type != "BPE") return unsupported("model.type: found " + show(type) + ", wanted BPE");
  for (const char* name :
       {"model.dropout", "model.continuing_subword_prefix", "model.end_of_word_suffix"})
    if (const Json value = TRY(small(members, name)); !value.is_null() && value != "")
      return unsupported(strf("%s: found %s, wanted none", name, show(value).c_str()));
  if (TRY(small(members, "model.byte_fallback")) == true)
    return unsupported("model.byte_fallback: found true, wanted byte-level tokens");
  return TRY(small(members, "model.ignore_merges")) == true ? WholePiece::token
                                                            : WholePiece::if_merged;
}

// Added tokens are there already: those that are listed here too stay hidden from ordinary text.
Status read_vocabulary(JsonReader reader, Vocabulary& vocabulary) {
  std::string bytes;
  reader.begin('{');
  while (reader.more('}')) {
    const std::string_view spelled = reader.key();
    const int id = reader.integer();
    if (reader.failed() || vocabulary.bytes(id) == spelled) continue;
    if (!from_byte_level(spelled, bytes)) {
      reader.fail_here(strf("token %d is not spelled in the byte-level alphabet", id));
    } else if (const Status added = vocabulary.add(id, bytes); !added) {
      reader.fail_here(added.error().message, added.error().kind);
    }
  }
  reader.end();
  return reader.status();
}

// One merge, as `"a b"` or as `["a", "b"]`, in bytes.
void read_merge(JsonReader& reader, std::string& left, std::string& right) {
  bool good = false;
  if (reader.peek() == '[') {
    reader.begin('[');
    good = reader.more(']') && from_byte_level(reader.string(), left);
    good = good && reader.more(']') && from_byte_level(reader.string(), right);
    good = good && !reader.more(']');
  } else {
    const std::string_view both = reader.string();
    const size_t space = both.find(' ');  // no token is spelled with one
    good = space != both.npos && from_byte_level(both.substr(0, space), left) &&
           from_byte_level(both.substr(space + 1), right);
  }
  if (!good) reader.fail_here("wanted two byte-level tokens, as \"a b\" or [\"a\", \"b\"]");
}

Status read_merges(JsonReader reader, const Vocabulary& vocabulary, MergeTable& merges) {
  std::string left, right;
  reader.begin('[');
  for (int rank = 0; reader.more(']'); ++rank) {
    read_merge(reader, left, right);
    if (reader.failed()) break;
    const int first = vocabulary.find(left), second = vocabulary.find(right);
    const int merged = vocabulary.find(left += right);
    if (first < 0 || second < 0 || merged < 0) {
      reader.fail_here(strf("merge %d is of or into a token that the vocabulary lacks", rank));
    } else if (!merges.add(first, second, {.rank = rank, .token = merged})) {
      reader.fail_here(strf("merge %d comes twice", rank));
    }
  }
  reader.end();
  return reader.status();
}

// gpt-oss' own file stops at 200018, which it calls <|endofprompt|>. The model has rows beyond, and
// Harmony, the format it speaks, knows them all as reserved: its names stand, so that whatever is
// sampled has a text, and the same one with either kind of file.
bool is_harmony(const std::vector<AddedToken>& added) {
  int agree = 0;
  for (const AddedToken& token : added)
    agree += token.id >= o200k::kOrdinaryTokens && token.name == o200k::special_name(token.id);
  return agree >= 20;  // all that it lists but 200018
}

Status complete_harmony(VocabularyFile& file) {
  for (int id = o200k::kOrdinaryTokens; id <= o200k::kLastToken; ++id) {
    if (!file.vocabulary.bytes(id).empty()) continue;
    file.added.push_back({id, o200k::special_name(id)});
    TRY(file.vocabulary.add_hidden(id, file.added.back().name));
  }
  return Done{};
}
}  // namespace

Result<VocabularyFile> read_tokenizer_json(std::string_view text) {
  Members members;
  JsonReader reader(text);
  read_members(reader, "", members);
  reader.end();
  TRY(reader.status());
  const auto vocabulary = members.find("model.vocab"), merges = members.find("model.merges");
  if (vocabulary == members.end() || merges == members.end())
    return fail(ErrorKind::corrupt, "there are no model.vocab and model.merges in it");
  if (const Json normalizer = TRY(small(members, "normalizer")); !normalizer.is_null())
    return unsupported("normalizer: wanted none, found " + show(normalizer));

  VocabularyFile file;
  file.whole = TRY(read_settings(members));
  file.pattern = TRY(read_pattern(TRY(small(members, "pre_tokenizer"))));
  file.added = TRY(read_added(TRY(small(members, "added_tokens"))));
  const bool harmony = is_harmony(file.added);
  if (harmony)
    std::erase_if(file.added, [](auto& token) { return token.name == "<|endofprompt|>"; });

  // A member takes twenty bytes of text and more, a merge ten.
  file.vocabulary.reserve(vocabulary->second.size() / 20, vocabulary->second.size() / 2);
  for (const AddedToken& token : file.added)
    TRY(within(file.vocabulary.add_hidden(token.id, token.name), "added_tokens"));
  TRY(within(read_vocabulary(JsonReader(vocabulary->second, text), file.vocabulary),
             "model.vocab"));
  if (harmony) TRY(complete_harmony(file));
  file.merges.reserve(merges->second.size() / 40);
  TRY(within(read_merges(JsonReader(merges->second, text), file.vocabulary, file.merges),
             "model.merges"));
  return file;
}

}  // namespace rose
