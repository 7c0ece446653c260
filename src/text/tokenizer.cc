#include "text/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/gzip.h"
#include "text/bpe.h"
#include "text/name_trie.h"
#include "text/splitter.h"
#include "text/vocabulary.h"
#include "text/vocabulary_file.h"

namespace rose {

namespace {
namespace fs = std::filesystem;

// The vocabulary in a model folder: tokenizer.json before what may lie beside it.
Result<std::string> find_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.json.gz"})
    if (const fs::path file = fs::path(path) / name; fs::exists(file, ignored))
      return file.string();

  std::vector<std::string> ranks;
  for (fs::directory_iterator at(path, ignored), end; at != end; at.increment(ignored))
    if (at->path().extension() == ".tiktoken") ranks.push_back(at->path().string());
  if (ranks.size() == 1) return ranks[0];
  return fail(
      ErrorKind::not_found,
      strf("%s has no tokenizer.json, tokenizer.json.gz or (one) *.tiktoken", path.c_str()));
}

Result<VocabularyFile> read(const std::string& path) {
  const MappedFile file = TRY(MappedFile::open(path));
  std::string unpacked;
  std::string_view text = file.text();
  if (is_gzip(text)) text = unpacked = TRY(gunzip(text));
  // JSON begins with a brace; a line of base64 never does.
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return fail(ErrorKind::corrupt, "the file is empty");
  return text[begin] == '{' ? read_tokenizer_json(text) : read_tiktoken(text);
}
}  // namespace

struct Tokenizer::Tables {
  Vocabulary vocabulary;
  Bpe bpe;
  Splitter splitter;
  NameTrie always;            // names that are tokens in any text
  NameTrie names;             // those and the special ones
  std::vector<bool> special;  // [vocab] by id

  // Appends the tokens of text in which names of tokens mean nothing.
  void encode_ordinary(std::string_view text, std::vector<int>& tokens) const {
    Splitter::Pieces pieces(splitter, text);
    for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next())
      bpe.encode(vocabulary, piece, tokens);
  }

  std::vector<int> encode(std::string_view text, const NameTrie& known) const {
    std::vector<int> tokens;
    tokens.reserve(text.size() / 4 + 1);  // English has some four bytes a token
    while (const auto name = known.find(text)) {
      encode_ordinary(text.substr(0, name->begin), tokens);
      tokens.push_back(name->id);
      text.remove_prefix(name->begin + name->size);
    }
    encode_ordinary(text, tokens);
    return tokens;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  const std::string file_path = TRY(within(find_file(path), "tokenizer"));
  const std::string doing = "tokenizer " + file_path;
  VocabularyFile file = TRY(within(read(file_path), doing));
  Splitter splitter = TRY(within(Splitter::compile(file.pattern), doing));
  Bpe bpe = TRY(within(Bpe::make(file.vocabulary, std::move(file.merges), file.whole), doing));

  std::unique_ptr<Tables> tables(
      new Tables{std::move(file.vocabulary), std::move(bpe), std::move(splitter)});
  tables->special.resize(size_t(tables->vocabulary.size()));
  for (const AddedToken& token : file.added) {
    if (!tables->names.add(token.name, token.id))
      return fail(ErrorKind::corrupt,
                  strf("%s: added token '%s' comes twice", doing.c_str(), token.name.c_str()));
    tables->special[token.id] = token.kind == AddedToken::Kind::special;
    if (token.kind == AddedToken::Kind::always) tables->always.add(token.name, token.id);
  }
  return Tokenizer(std::move(tables));
}

std::vector<int> Tokenizer::encode(std::string_view text) const {
  return tables_->encode(text, tables_->always);
}

std::vector<int> Tokenizer::encode_special(std::string_view text) const {
  return tables_->encode(text, tables_->names);
}

std::string Tokenizer::decode(std::span<const int> tokens) const {
  std::string text;
  for (const int token : tokens) text += bytes(token);
  return text;
}

std::string_view Tokenizer::bytes(int token) const { return tables_->vocabulary.bytes(token); }

std::optional<int> Tokenizer::special(std::string_view name) const {
  const auto id = tables_->names.id(name);
  return id && is_special(*id) ? id : std::nullopt;
}

bool Tokenizer::is_special(int token) const {
  return uint32_t(token) < tables_->special.size() && tables_->special[token];
}

int Tokenizer::vocab() const { return tables_->vocabulary.size(); }

}  // namespace rose
