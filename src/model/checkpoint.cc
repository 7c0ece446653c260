#include "model/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

namespace fs = std::filesystem;

// What the two layouts call the same tensor. Three names: joined one after another.
struct NameRow {
  std::string_view original;
  std::vector<std::string_view> hugging_face;
};

const NameRow kBlockNames[] = {
    {"attn.norm.scale", {"input_layernorm.weight"}},
    {"attn.qkv.weight",
     {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}},
    {"attn.qkv.bias", {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"}},
    {"attn.sinks", {"self_attn.sinks"}},
    {"attn.out.weight", {"self_attn.o_proj.weight"}},
    {"attn.out.bias", {"self_attn.o_proj.bias"}},
    {"mlp.norm.scale", {"post_attention_layernorm.weight"}},
    {"mlp.gate.weight", {"mlp.router.weight"}},
    {"mlp.gate.bias", {"mlp.router.bias"}},
    {"mlp.mlp1_weight", {"mlp.experts.gate_up_proj"}},
    {"mlp.mlp1_bias", {"mlp.experts.gate_up_proj_bias"}},
    {"mlp.mlp2_weight", {"mlp.experts.down_proj"}},
    {"mlp.mlp2_bias", {"mlp.experts.down_proj_bias"}},
};
const NameRow kGlobalNames[] = {
    {"embedding.weight", {"model.embed_tokens.weight"}},
    {"norm.scale", {"model.norm.weight"}},
    {"unembedding.weight", {"lm_head.weight"}},
};

// "block.3.attn.sinks" -> {"model.layers.3.self_attn.sinks"}
std::vector<std::string> hugging_face_names(const std::string& name) {
  std::string_view rest = name;
  std::string prefix;
  std::span<const NameRow> table = kGlobalNames;
  if (rest.starts_with("block.")) {
    const size_t dot = rest.find('.', 6);
    prefix = "model.layers." + std::string(rest.substr(6, dot - 6)) + ".";
    rest = rest.substr(dot + 1);
    table = kBlockNames;
  }
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const NameRow& row) { return row.original == rest; });
  ROSE_CHECK(row != table.end(), "checkpoint: no Hugging Face name for %s", name.c_str());
  std::vector<std::string> names;
  for (const std::string_view suffix : row->hugging_face)
    names.push_back(prefix + std::string(suffix));
  return names;
}

bool is_expert(const WeightRow& row) {
  const auto* packed = std::get_if<PackedWeight>(&row.into);
  return packed && packed->role == Role::expert;
}

std::vector<std::string> safetensors_in(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->path().extension() == ".safetensors" && at->is_regular_file(ignored))
      paths.push_back(at->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder, const ModelConfig& config) {
  Checkpoint checkpoint;
  checkpoint.config_ = config;
  const std::string index = fs::path(folder) / "model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(index, ignored))
    TRY(checkpoint.open_indexed(folder, index));
  else
    TRY(checkpoint.open_all(folder));
  checkpoint.original_ = checkpoint.tensors_.contains("embedding.weight");
  return checkpoint;
}

Status Checkpoint::open_indexed(const std::string& folder, const std::string& index_path) {
  const std::string text = TRY(read_file(index_path));
  const Json index = TRY(within(parse_json(text), index_path));
  const auto wrong = [&](const std::string& what) {
    return fail(ErrorKind::corrupt, index_path + ": " + what);
  };
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) return wrong("it has no object weight_map");

  std::set<std::string> names, files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) return wrong(name + ": the file is not a string");
    const std::string file_name = file.get<std::string>();
    if (file_name.empty() || file_name.find('/') != file_name.npos)
      return wrong(name + ": '" + file_name + "' is not the name of a file beside the index");
    if (!names.insert(name).second) return wrong(name + ": the name comes twice");
    if (!files.insert(file_name).second) continue;
    const std::string path = fs::path(folder) / file_name;
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      return fail(ErrorKind::not_found,
                  strf("the index names %s, which is not in %s: the download is not complete",
                       file_name.c_str(), folder.c_str()));
    TRY(add_file(path));
  }
  for (const auto& [name, file] : map->items()) {
    const auto stored = tensors_.find(name);
    const std::string path = fs::path(folder) / file.get<std::string>();
    if (stored == tensors_.end() || stored->second.file != &files_.at(path))
      return wrong(name + " is not in " + file.get<std::string>() + ", where the index puts it");
  }
  for (const auto& [name, stored] : tensors_)
    if (!names.contains(name)) return wrong("it does not name " + name + ", which a file holds");
  return Done{};
}

Status Checkpoint::open_all(const std::string& folder) {
  std::vector<std::string> paths = safetensors_in(folder);
  if (paths.empty()) paths = safetensors_in(fs::path(folder) / "original");
  if (paths.empty())
    return fail(ErrorKind::not_found, "no *.safetensors in the folder, nor in its original/");
  for (const std::string& path : paths) TRY(add_file(path));
  return Done{};
}

Status Checkpoint::add_file(const std::string& path) {
  const Safetensors& file = files_.emplace(path, TRY(Safetensors::open(path))).first->second;
  for (const auto& [name, entry] : file.entries())
    if (!tensors_.try_emplace(name, Stored{&file, &entry}).second)
      return fail(ErrorKind::corrupt, strf("%s is in two files, the second is %s", name.c_str(),
                                           fs::path(path).filename().c_str()));
  return Done{};
}

Status Checkpoint::bind(std::span<const WeightRow> rows) {
  rows_.clear();
  for (const WeightRow& row : rows) rows_.push_back(TRY(find(row)));

  int surplus = 0;
  std::string first;
  for (const auto& [name, stored] : tensors_)
    if (!stored.bound && surplus++ == 0) first = name;
  if (surplus > 0)
    return fail(ErrorKind::corrupt,
                strf("%s has no place in the model that config.json describes%s", first.c_str(),
                     surplus > 1 ? strf(", nor have %d others", surplus - 1).c_str() : ""));
  return Done{};
}

Result<Checkpoint::Part> Checkpoint::take(const std::string& name, std::string_view dtype,
                                          const std::vector<int64_t>& shape) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    return fail(ErrorKind::corrupt, name + " is missing from the checkpoint");
  Stored& stored = found->second;
  stored.bound = true;
  if (stored.entry->dtype != dtype)
    return fail(ErrorKind::corrupt,
                strf("%s: dtype is %s, wanted %s", name.c_str(),
                     std::string(stored.entry->dtype).c_str(), std::string(dtype).c_str()));
  if (stored.entry->shape != shape)
    return fail(ErrorKind::corrupt,
                strf("%s: shape is %s, config.json makes it %s", name.c_str(),
                     show_shape(stored.entry->shape).c_str(), show_shape(shape).c_str()));
  return Part{&stored.file->file(), stored.file->bytes(*stored.entry)};
}

Result<Checkpoint::Row> Checkpoint::find(const WeightRow& row) {
  const std::vector<std::string> names =
      original_ ? std::vector{row.name} : hugging_face_names(row.name);
  Row found;
  found.columns = int(row.shape.back());
  found.rows = row.shape.size() < 2 ? 1 : int(row.shape[row.shape.size() - 2]);
  found.experts = row.shape.size() < 3 ? 1 : int(row.shape[0]);

  if (is_expert(row)) {
    const std::string& stem = names[0];
    const std::string blocks = stem + (original_ ? ".blocks" : "_blocks");
    const std::string scales = stem + (original_ ? ".scales" : "_scales");
    const int64_t experts = row.shape[0], rows = row.shape[1], columns = row.shape[2];
    if (!original_ && tensors_.contains(stem) && !tensors_.contains(blocks)) {
      found.kind = RawWeight::Kind::bf16_transposed;
      found.parts = {TRY(take(stem, "BF16", {experts, columns, rows}))};
    } else {
      found.kind = RawWeight::Kind::mxfp4;
      found.parts = {TRY(take(blocks, "U8", {experts, rows, columns / 32, 16})),
                     TRY(take(scales, "U8", {experts, rows, columns / 32}))};
    }
    return found;
  }
  if (names.size() == 1) {
    found.parts = {TRY(take(names[0], "BF16", row.shape))};
    return found;
  }
  const int heads[] = {config_.heads, config_.kv_heads, config_.kv_heads};  // q, k, v
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<int64_t> shape = row.shape;
    shape[0] = int64_t(heads[i]) * config_.head_dim;
    found.parts.push_back(TRY(take(names[i], "BF16", shape)));
  }
  return found;
}

int64_t Checkpoint::bytes(size_t row) const {
  int64_t sum = 0;
  for (const Part& part : rows_[row].parts) sum += int64_t(part.bytes.size());
  return sum;
}

// What of the parts belongs to one expert.
std::vector<Checkpoint::Part> Checkpoint::parts_of(size_t row, int expert) const {
  std::vector<Part> parts = rows_[row].parts;
  for (Part& part : parts) {
    const size_t each = part.bytes.size() / size_t(rows_[row].experts);
    part.bytes = part.bytes.subspan(size_t(expert) * each, each);
  }
  return parts;
}

void Checkpoint::expect(size_t row) const {
  for (const Part& part : rows_[row].parts) part.file->expect(part.bytes);
}

void Checkpoint::drop(size_t row, int expert) {
  for (const Part& part : parts_of(row, expert)) part.file->drop(part.bytes);
}

Result<RawWeight> Checkpoint::matrix(size_t row, int expert) {
  const Row& from = rows_[row];
  const std::vector<Part> parts = parts_of(row, expert);
  RawWeight raw{.kind = from.kind,
                .rows = from.rows,
                .columns = from.columns,
                .values = parts[0].bytes.data()};
  if (from.kind == RawWeight::Kind::mxfp4) {
    raw.scales = parts[1].bytes.data();
  } else if (parts.size() > 1) {
    joined_.clear();
    for (const Part& part : parts)
      joined_.insert(joined_.end(), part.bytes.begin(), part.bytes.end());
    raw.values = joined_.data();
  }
  return raw;
}

void Checkpoint::values(size_t row, int64_t first, std::span<bf16> into,
                        ThreadPool& threads) const {
  int64_t part_first = 0;
  for (const Part& part : rows_[row].parts) {
    const int64_t part_end = part_first + int64_t(part.bytes.size() / sizeof(bf16));
    const int64_t from = std::max(first, part_first);
    const int64_t to = std::min(first + int64_t(into.size()), part_end);
    // In parallel, because the time goes into the pages' arrival.
    threads.parallel_for(std::max(to - from, int64_t(0)), 1 << 18, [&](int64_t begin, int64_t end) {
      std::memcpy(&into[size_t(from - first + begin)],
                  part.bytes.data() + (from - part_first + begin) * int64_t(sizeof(bf16)),
                  size_t(end - begin) * sizeof(bf16));
    });
    part_first = part_end;
  }
}

}  // namespace rose
